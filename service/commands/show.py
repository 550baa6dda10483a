"""`tunesmith show`: one record in full; its IR and assembly are made again in a child."""

from __future__ import annotations

import difflib
import json as jsonlib
import statistics
from enum import StrEnum
from typing import Annotated, Any

import typer

from service.child import run_jobs
from service.exits import DONE
from service.options import DbOption, JsonOption, open_repository
from service.record_json import Confirmed, certificate, confirmed, record_json
from service.render import (
    error_text,
    facts_table,
    print_code,
    print_json,
    print_out,
    seconds_text,
    speedup_text,
    utc_text,
)
from tuner.outcome import Latency
from tuner.targets.toolchain import toolchain_versions
from tuning_db.queries import describe_target
from tuning_db.views import StoredRecord


class Ir(StrEnum):
    BEFORE = "before"
    AFTER = "after"
    DIFF = "diff"


def show(
    record: Annotated[str, typer.Argument(metavar="RECORD", help="A record's id, or its first digits.")],
    ir: Annotated[Ir | None, typer.Option("--ir", help="TVMScript as given, as scheduled, or what changed.")] = None,
    source: Annotated[bool, typer.Option("--source", help="The assembly it compiles to.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="The decisions that make the schedule.")] = False,
    db: DbOption = None,
    json: JsonOption = False,
) -> int:
    """Show a record: samples, errors, baseline, where it comes from; or its IR, assembly and trace."""
    found = open_repository(db).get_record(record)
    texts = _texts(found, ir, source)
    decisions = jsonlib.loads(found.trace_json)
    if json:
        print_json({**record_json(found, toolchain_versions()), **texts})
        return DONE
    if not texts and not trace:
        print_out(facts_table(found.workload.label, _facts(found)))
        return DONE
    for name, text in texts.items():
        print_code(text, {"ir_diff": "diff", "source": "gas"}.get(name, "python"))
    if trace:
        print_code("\n".join(jsonlib.dumps(step) for part in decisions for step in part), "json")
    return DONE


def _texts(record: StoredRecord, ir: Ir | None, source: bool) -> dict[str, str]:
    """What was asked for, by name: "ir_before", "ir_after", "ir_diff", "source"."""
    wanted = {Ir.BEFORE: ["before"], Ir.AFTER: ["after"], Ir.DIFF: ["before", "after"], None: []}[ir]
    parts = [*wanted, *(["source"] if source else [])]
    if not parts:
        return {}
    jobs = [("ir.show", _show_arguments(record, what)) for what in parts]
    answers = run_jobs(jobs, n_threads=record.n_threads, doing=_doing(record))
    texts = {what: str(answer["text"]) for what, answer in zip(parts, answers, strict=True)}
    if ir is Ir.DIFF:
        return {"ir_diff": _diff(texts["before"], texts["after"]), **({"source": texts["source"]} if source else {})}
    return {name if name == "source" else f"ir_{name}": text for name, text in texts.items()}


def _show_arguments(record: StoredRecord, what: str) -> dict[str, Any]:
    task = {
        "key": record.workload.key,
        "module_json": record.workload.module_json,
        "target": record.target,
        "level": "rules",
    }
    return {"task": task, "trace_json": record.trace_json, "what": what}


def _doing(record: StoredRecord) -> str:
    made_with, here = record.toolchain.get("tvm"), toolchain_versions()["tvm"]
    other = "" if made_with == here else f" (made with tvm {made_with}, this is {here})"
    return f"rebuild record {record.id}{other}"


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=3)
    return "\n".join(lines)


def _facts(record: StoredRecord) -> list[tuple[str, str]]:
    agreed = confirmed(record)
    facts = [("record", record.id), ("outcome", _outcome_text(record))]
    if isinstance(record.outcome, Latency):
        samples = record.outcome.run_secs
        spread = (max(samples) - min(samples)) / statistics.median(samples)
        looks = "" if record.outcome.full else " (a short look: it could no longer win)"
        facts.append(("samples", f"{len(samples)}, spread {100 * spread:.1f} %{looks}"))
        facts.append(("", "  ".join(seconds_text(s) for s in samples)))
    facts += [
        ("largest error", f"{error_text(record.max_abs_error)} absolute, {error_text(record.max_rel_error)} relative"),
        ("untuned", seconds_text(statistics.median(record.baseline_secs)) if record.baseline_secs else "not measured"),
        ("confirmed", _confirmed_text(agreed)),
        ("certificate", certificate(record, toolchain_versions()) or "none: not confirmed"),
        ("published", "yes: lookups serve it" if record.published else "no"),
        ("schedule", record.certificate),
        ("target", describe_target(record.target)),
        ("device", f"{record.device.get('label') or record.device.get('model', 'unknown')} [{record.device['key']}]"),
        ("toolchain", ", ".join(f"{k} {v}" for k, v in sorted(record.toolchain.items()))),
        ("policy", f"{record.policy}, {record.n_threads} thread{'s' * (record.n_threads != 1)}"),
        ("run", f"{record.run_id}, trial {record.trial}, seed {record.seed}, {utc_text(record.measured_at_s)}"),
        ("predicted score", "unranked" if record.predicted is None else f"{record.predicted:.3f}"),
        ("seconds", ", ".join(f"{phase} {seconds_text(s)}" for phase, s in record.phase_s.items()) or "unknown"),
        ("artifact", record.artifact_sha256 or "none"),
        ("workload key", record.workload.key),
    ]
    return facts


def _outcome_text(record: StoredRecord) -> str:
    if isinstance(record.outcome, Latency):
        return f"{seconds_text(record.outcome.median_s)} (median)"
    return f"{record.outcome.kind.value}: {record.outcome.detail}"


def _confirmed_text(agreed: Confirmed | None) -> str:
    if agreed is None:
        return "no"
    now = agreed.standing
    speedup = speedup_text(now.speedup, (now.speedup_low, now.speedup_high))
    role = f"winner, {agreed.verdict}" if agreed.is_winner else "not the winner"
    return f"{seconds_text(now.median_s)}, {speedup} over untuned in {len(agreed.run_secs)} rounds ({role})"
