"""Reading: each function takes an open connection and answers with plain data (tuning_db/views.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Table, func, select

from tuner.errors import NotFoundError
from tuner.outcome import Failure, FailureKind, Latency, Outcome
from tuner.records import Confirmation
from tuner.workloads.workload import Workload
from tuning_db.canonical import code_versions
from tuning_db.models import (
    confirmation,
    confirmed_trial,
    device,
    run,
    schedule,
    target,
    toolchain,
    trial,
    workload,
    workload_spec,
)
from tuning_db.publish import Standing
from tuning_db.views import LookupAnswer, Published, RecordSummary, StoredDevice, StoredRecord

_STANDING = tuple(Standing.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """For what a schedule is wanted."""

    target_key: str
    device_key: str
    code_key: str
    policy: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    workload_key: str | None = None
    digest: str | None = None
    device_key: str | None = None
    only_published: bool = False


def lookup(connection: Connection, question: Question, *, workload_key: str | None, digest: str | None) -> LookupAnswer:
    keys = [workload_key] if workload_key is not None else _keys_of_spec(connection, digest or "", question.code_key)
    if not keys:
        return LookupAnswer(workload_key=None, tier="miss", record=None, reason=_never_tuned(connection))
    published = connection.execute(
        select(schedule)
        .where(schedule.c.workload_key.in_(keys))
        .order_by(schedule.c.published_at_s.desc(), schedule.c.id.desc())
    ).all()
    served = [
        row
        for row in published
        if row.target_key == question.target_key
        and row.device_key == question.device_key
        and row.code_key == question.code_key
    ]
    if not served:
        reason = _miss_reason(connection, keys, question, published)
        return LookupAnswer(workload_key=keys[0], tier="miss", record=None, reason=reason)
    best = next((row for row in served if row.policy == question.policy), served[0])
    return LookupAnswer(
        workload_key=best.workload_key,
        tier="exact",
        record=get_record(connection, best.record_id),
        reason=f"{_standing_text(best)} on this device under policy {best.policy}",
    )


def _standing_text(best: Row[Any]) -> str:
    if best.verdict == "tie":
        return "confirmed right, and a tie: its speed can't be told from untuned"
    return f"confirmed {best.speedup:.3g}x over untuned"


def _keys_of_spec(connection: Connection, digest: str, code_key: str) -> list[str]:
    """The workloads a spec stands for: under these code versions if it was tuned with them, else under all others."""
    rows = connection.execute(
        select(workload_spec.c.workload_key, workload_spec.c.code_key)
        .where(workload_spec.c.digest == digest)
        .order_by(workload_spec.c.seen_at_s.desc())
    ).all()
    fitting = [key for key, made_with in rows if made_with == code_key]
    return fitting or list(dict.fromkeys(key for key, _ in rows))


def _never_tuned(connection: Connection) -> str:
    if connection.scalar(select(run.c.id).limit(1)) is None:
        return "nothing was tuned into this database yet; run: tunesmith tune WORKLOAD"
    return "this workload was never tuned into this database; run: tunesmith tune WORKLOAD"


def _miss_reason(connection: Connection, keys: list[str], question: Question, published: Sequence[Row[Any]]) -> str:
    """Tells what there is and why it is not served, the nearest first."""
    here = [row for row in published if row.target_key == question.target_key]
    same_device = [row for row in here if row.device_key == question.device_key]
    if same_device:
        made_with = code_versions(get_record(connection, same_device[0].record_id).toolchain)
        versions = ", ".join(f"{name} {version}" for name, version in sorted(made_with.items()))
        return f"tuned with another toolchain only ({versions}); tune it again with this one"
    if here:
        others = [_by_key(connection, device, key) for key in dict.fromkeys(row.device_key for row in here)]
        names = ", ".join(f"{d.info.get('model', 'unknown')} [{d.key}]" for d in others[:3])
        return f"tuned on another device only ({names}), and latencies do not carry over; tune it here"
    if published:
        known = [_by_key(connection, target, key) for key in dict.fromkeys(row.target_key for row in published)]
        names = "; ".join(describe_target(t.canonical) for t in known[:3])
        return f"tuned for another target only ({names}); tune it for this one"
    runs = select(run.c.id).where(run.c.workload_key.in_(keys))
    n_runs = connection.scalar(select(func.count()).select_from(runs.subquery())) or 0
    if n_runs == 0:
        return _never_tuned(connection)
    n_trials = connection.scalar(select(func.count()).select_from(trial).where(trial.c.run_id.in_(runs))) or 0
    return (
        f"{n_trials} trials in {n_runs} run{'s' * (n_runs != 1)}, but none was confirmed to be at least as fast as"
        " untuned; tune it with more trials"
    )


def describe_target(attrs: dict[str, Any]) -> str:
    """E.g. "llvm mcpu=skylake num-cores=2"."""
    settings = (f"{k}={v}" for k, v in sorted(attrs.items()) if k in ("mcpu", "arch", "num-cores"))
    return " ".join((str(attrs.get("kind", "unknown")), *settings))


def get_record(connection: Connection, id_or_prefix: str) -> StoredRecord:
    prefix = id_or_prefix.strip().lower()
    if not prefix or not all(c in "0123456789abcdef" for c in prefix):
        raise NotFoundError(
            f"no record {id_or_prefix!r}: ids are up to 16 hex digits; list them with: tunesmith records"
        )
    # "g" follows the last hex digit: a range, so that the index serves it.
    starting = (trial.c.id >= prefix) & (trial.c.id < prefix + "g")
    rows = connection.execute(select(trial).where(starting).order_by(trial.c.id).limit(4)).all()
    if not rows:
        raise NotFoundError(f"no record {id_or_prefix!r} in this database; list them with: tunesmith records")
    if len(rows) > 1 and prefix != rows[0].id:
        some = ", ".join(row.id for row in rows[:3]) + ", ..." * (len(rows) > 3)
        raise NotFoundError(f"{id_or_prefix!r} is the start of several records ({some}); give more digits")
    return _stored(connection, rows[0])


def _stored(connection: Connection, row: Row[Any]) -> StoredRecord:
    of_run = connection.execute(select(run).where(run.c.id == row.run_id)).one()
    module = _by_key(connection, workload, of_run.workload_key)
    confirmed = connection.execute(
        select(confirmed_trial).where(confirmed_trial.c.run_id == row.run_id, confirmed_trial.c.trial == row.trial)
    ).one_or_none()
    return StoredRecord(
        id=row.id,
        run_id=row.run_id,
        trial=row.trial,
        workload=Workload.from_dict({name: getattr(module, name) for name in Workload.__dataclass_fields__}),
        spec=of_run.spec,
        target=_by_key(connection, target, of_run.target_key).canonical,
        device=_by_key(connection, device, of_run.device_key).info,
        toolchain=_by_key(connection, toolchain, of_run.toolchain_key).versions,
        policy=of_run.policy,
        n_threads=of_run.n_threads,
        seed=of_run.seed,
        trace_json=row.trace_json,
        outcome=_outcome(row),
        artifact_sha256=row.artifact_sha256,
        predicted=row.predicted,
        max_abs_error=row.max_abs_error,
        max_rel_error=row.max_rel_error,
        certificate=row.certificate,
        phase_s=row.phase_s,
        baseline_secs=tuple(of_run.baseline_secs),
        confirmation=_confirmation(connection, row.run_id),
        standing=None if confirmed is None else _standing(confirmed),
        measured_at_s=row.measured_at_s,
        published=_published(connection, row.id),
    )


def _by_key(connection: Connection, table: Table, key: str) -> Row[Any]:
    """A row that a foreign key names."""
    return connection.execute(select(table).where(table.c.key == key)).one()


def _outcome(row: Row[Any]) -> Outcome:
    if row.run_secs is not None:
        return Latency(tuple(row.run_secs), full=bool(row.is_full))
    return Failure(FailureKind(row.kind), row.detail or "")


def _confirmation(connection: Connection, run_id: str) -> Confirmation | None:
    row = connection.execute(select(confirmation).where(confirmation.c.run_id == run_id)).one_or_none()
    if row is None:
        return None
    confirmed = connection.execute(
        select(confirmed_trial.c.trial, confirmed_trial.c.run_secs)
        .where(confirmed_trial.c.run_id == run_id)
        .order_by(confirmed_trial.c.trial)
    )
    return Confirmation(
        baseline_secs=tuple(row.baseline_secs),
        candidate_secs={number: tuple(secs) for number, secs in confirmed},
        winner=row.winner,
        verdict=row.verdict,
    )


def _published(connection: Connection, record_id: str) -> Published | None:
    row = connection.execute(select(schedule).where(schedule.c.record_id == record_id)).one_or_none()
    if row is None:
        return None
    return Published(standing=_standing(row), verdict=row.verdict, published_at_s=row.published_at_s)


def _standing(row: Row[Any]) -> Standing:
    return Standing(**{name: getattr(row, name) for name in _STANDING})


def list_records(connection: Connection, wanted: Filter, limit: int) -> list[RecordSummary]:
    rows = (
        select(
            *(trial.c[name] for name in ("id", "trial", "kind", "median_s", "measured_at_s")),
            *(run.c[name] for name in ("workload_key", "device_key", "policy")),
            workload.c.label,
            target.c.canonical,
            schedule.c.id.is_not(None).label("is_published"),
        )
        .join_from(trial, run, run.c.id == trial.c.run_id)
        .join(workload, workload.c.key == run.c.workload_key)
        .join(target, target.c.key == run.c.target_key)
        .outerjoin(schedule, schedule.c.record_id == trial.c.id)
    )
    if wanted.workload_key is not None:
        rows = rows.where(run.c.workload_key == wanted.workload_key)
    if wanted.digest is not None:
        known = select(workload_spec.c.workload_key).where(workload_spec.c.digest == wanted.digest)
        rows = rows.where(run.c.workload_key.in_(known))
    if wanted.device_key is not None:
        rows = rows.where(run.c.device_key == wanted.device_key)
    if wanted.only_published:
        rows = rows.where(schedule.c.id.is_not(None))
    newest = rows.order_by(trial.c.measured_at_s.desc(), trial.c.trial.desc(), trial.c.id).limit(limit)
    return [
        RecordSummary(
            id=row.id,
            workload_key=row.workload_key,
            label=row.label,
            target=row.canonical,
            device_key=row.device_key,
            policy=row.policy,
            trial=row.trial,
            kind=row.kind,
            median_s=row.median_s,
            is_published=row.is_published,
            measured_at_s=row.measured_at_s,
        )
        for row in connection.execute(newest)
    ]


def list_devices(connection: Connection) -> list[StoredDevice]:
    n_runs = select(run.c.device_key, func.count().label("n")).group_by(run.c.device_key).subquery()
    rows = connection.execute(
        select(device, n_runs.c.n)
        .outerjoin(n_runs, n_runs.c.device_key == device.c.key)
        .order_by(device.c.last_seen_at_s.desc(), device.c.key)
    )
    return [
        StoredDevice(
            key=row.key,
            info=row.info,
            n_runs=row.n or 0,
            first_seen_at_s=row.first_seen_at_s,
            last_seen_at_s=row.last_seen_at_s,
        )
        for row in rows
    ]
