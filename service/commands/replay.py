"""`tunesmith replay`: rebuilds, re-validates and re-times a record, and compares it with what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.exits import DONE, FAILED
from service.options import DbOption, JsonOption, open_repository
from service.record_json import confirmed
from service.render import error_text, facts_table, latency_text, new_table, print_json, print_out, speedup_text
from tuner.outcome import Failure, Latency
from tuner.targets.device import detect_device
from tuner.targets.target import parse_target
from tuner.targets.toolchain import toolchain_versions
from tuning_db.canonical import code_versions
from tuning_db.views import StoredRecord

if TYPE_CHECKING:
    from tuner.measure.stats import Estimate
    from tuner.replay import Replay, Stored, Timed

_MEANING = {
    "same": "same: right, and as fast against untuned as it was",
    "unclear": "unclear: right, but the machine is too noisy now to compare its speed",
    "faster": "faster: right, and faster against untuned than it was",
    "slower": "slower: right, but slower against untuned than it was",
    "wrong": "wrong: it computes a wrong answer",
    "failed": "failed: it could not be built or run",
}


def replay(
    record: Annotated[str, typer.Argument(metavar="RECORD", help="A record's id, or its first digits.")],
    db: DbOption = None,
    json: JsonOption = False,
) -> int:
    """Build a record again, prove and time it on this machine, and compare with what is stored.

    Exits with 1 when it fails or computes a wrong answer.
    """
    found = open_repository(db).get_record(record)
    here = detect_device(parse_target(found.target)).key
    notes = _notes(found, here)

    from tuner.replay import replay_record

    again = replay_record(_stored(found))
    notes += again.warnings
    if json:
        print_json(_replay_json(found, again, notes))
    else:
        _print(found, again, notes)
    return DONE if again.failure is None else FAILED


def _stored(record: StoredRecord) -> Stored:
    """The confirmation's samples where there are some: they were taken beside the baseline."""
    from tuner.replay import Stored

    agreed = confirmed(record)
    own_secs = record.outcome.run_secs if isinstance(record.outcome, Latency) else ()
    return Stored(
        workload=record.workload,
        target=record.target,
        trace_json=record.trace_json,
        policy=record.policy,
        seed=record.seed,
        run_secs=agreed.run_secs if agreed else own_secs,
        baseline_secs=agreed.baseline_secs if agreed else record.baseline_secs,
        is_paired=agreed is not None,
    )


def _notes(record: StoredRecord, here: str) -> tuple[str, ...]:
    notes = []
    if record.device["key"] != here:
        notes.append(f"measured on another device ({record.device['key']}, this is {here}): latencies do not compare")
    now = toolchain_versions()
    if code_versions(record.toolchain) != code_versions(now):
        changed = (f"{n} {record.toolchain.get(n)} -> {v}" for n, v in sorted(code_versions(now).items()))
        notes.append(f"made with another toolchain ({', '.join(changed)}): the record is stale")
    return tuple(notes)


def _print(record: StoredRecord, again: Replay, notes: tuple[str, ...]) -> None:
    table = new_table("", "stored", "now", title=f"{record.workload.label}, record {record.id}")
    then, now = again.then, again.now
    table.add_row("outcome", _outcome(record.outcome), _outcome(again.failure))
    table.add_row("median latency", _latency(then), _latency(now))
    table.add_row(
        "untuned", *("-" if t is None else latency_text(t.baseline_s.median, t.baseline_s.ci95) for t in (then, now))
    )
    table.add_row("speed-up over untuned", *("-" if t is None else _factor(t.speedup) for t in (then, now)))
    table.add_row("largest error", error_text(record.max_abs_error), error_text(again.max_abs_error))
    facts = [("verdict", _MEANING[again.verdict])]
    if again.ratio is not None:
        facts.insert(0, ("speed-up now / stored", _factor(again.ratio)))
    if again.failure is not None:
        facts.append(("why", again.failure.detail))
    print_out(table, "", facts_table("", [*facts, *(("note", note) for note in notes)]))


def _outcome(outcome: Latency | Failure | None) -> str:
    return outcome.kind.value if isinstance(outcome, Failure) else "ok"


def _latency(timed: Timed | None) -> str:
    return "-" if timed is None else latency_text(timed.median_s.median, timed.median_s.ci95)


def _factor(estimate: Estimate) -> str:
    return speedup_text(estimate.median, estimate.ci95)


def _replay_json(record: StoredRecord, again: Replay, notes: tuple[str, ...]) -> dict[str, Any]:
    def timed(value: Timed | None) -> dict[str, Any] | None:
        if value is None:
            return None
        return {
            "median_s": value.median_s.median,
            "ci95_s": list(value.median_s.ci95),
            "baseline": {"median_s": value.baseline_s.median, "ci95_s": list(value.baseline_s.ci95)},
            "speedup": value.speedup.median,
            "speedup_ci95": list(value.speedup.ci95),
        }

    return {
        "record_id": record.id,
        "verdict": again.verdict,
        "failure": None
        if again.failure is None
        else {"kind": again.failure.kind.value, "detail": again.failure.detail},
        "stored": timed(again.then),
        "now": timed(again.now),
        "speedup_ratio": None if again.ratio is None else again.ratio.median,
        "speedup_ratio_ci95": None if again.ratio is None else list(again.ratio.ci95),
        "max_abs_error": again.max_abs_error,
        "max_rel_error": again.max_rel_error,
        "notes": list(notes),
    }
