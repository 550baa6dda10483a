"""Reading: each function takes an open session and answers with plain data (tuning_db/views.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from tuner.errors import NotFoundError
from tuner.outcome import Failure, FailureKind, Latency, Outcome
from tuner.records import Confirmation
from tuner.workloads.workload import Workload
from tuning_db.canonical import code_versions
from tuning_db.models import (
    ConfirmationRow,
    ConfirmedTrialRow,
    DeviceRow,
    RunRow,
    ScheduleRow,
    TargetRow,
    ToolchainRow,
    TrialRow,
    WorkloadRow,
    WorkloadSpecRow,
)
from tuning_db.publish import Standing
from tuning_db.views import LookupAnswer, Published, RecordSummary, StoredDevice, StoredRecord

_WORKLOAD_FIELDS = tuple(name for name in Workload.__dataclass_fields__)


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


def lookup(session: Session, question: Question, *, workload_key: str | None, digest: str | None) -> LookupAnswer:
    keys = [workload_key] if workload_key is not None else _keys_of_spec(session, digest or "", question.code_key)
    if not keys:
        return LookupAnswer(workload_key=None, tier="miss", record=None, reason=_never_tuned(session))
    published = session.scalars(
        select(ScheduleRow)
        .where(ScheduleRow.workload_key.in_(keys))
        .order_by(ScheduleRow.published_at_s.desc(), ScheduleRow.id.desc())
    ).all()
    served = [
        schedule
        for schedule in published
        if schedule.target_key == question.target_key
        and schedule.device_key == question.device_key
        and schedule.code_key == question.code_key
    ]
    if not served:
        reason = _miss_reason(session, keys, question, published)
        return LookupAnswer(workload_key=keys[0], tier="miss", record=None, reason=reason)
    best = next((s for s in served if s.policy == question.policy), served[0])
    return LookupAnswer(
        workload_key=best.workload_key,
        tier="exact",
        record=get_record(session, best.record_id),
        reason=f"confirmed {best.speedup:.3g}x over untuned on this device under policy {best.policy}",
    )


def _keys_of_spec(session: Session, digest: str, code_key: str) -> list[str]:
    """The workloads a spec stands for: under these code versions if it was tuned with them, else under all others."""
    rows = session.execute(
        select(WorkloadSpecRow.workload_key, WorkloadSpecRow.code_key)
        .where(WorkloadSpecRow.digest == digest)
        .order_by(WorkloadSpecRow.seen_at_s.desc())
    ).all()
    fitting = [key for key, made_with in rows if made_with == code_key]
    return fitting or list(dict.fromkeys(key for key, _ in rows))


def _never_tuned(session: Session) -> str:
    if session.scalar(select(func.count()).select_from(RunRow)) == 0:
        return "nothing was tuned into this database yet; run: tunesmith tune WORKLOAD"
    return "this workload was never tuned into this database; run: tunesmith tune WORKLOAD"


def _miss_reason(session: Session, keys: list[str], question: Question, published: Sequence[ScheduleRow]) -> str:
    """Tells what there is and why it is not served, the nearest first."""
    here = [s for s in published if s.target_key == question.target_key]
    same_device = [s for s in here if s.device_key == question.device_key]
    if same_device:
        made_with = code_versions(get_record(session, same_device[0].record_id).toolchain)
        versions = ", ".join(f"{name} {version}" for name, version in sorted(made_with.items()))
        return f"tuned with another toolchain only ({versions}); tune it again with this one"
    if here:
        devices = session.scalars(select(DeviceRow).where(DeviceRow.key.in_({s.device_key for s in here}))).all()
        names = ", ".join(f"{d.info.get('model', 'unknown')} [{d.key}]" for d in devices[:3])
        return f"tuned on another device only ({names}), and latencies do not carry over; tune it here"
    if published:
        wanted = {s.target_key for s in published}
        targets = session.scalars(select(TargetRow).where(TargetRow.key.in_(wanted))).all()
        names = "; ".join(describe_target(t.canonical) for t in targets[:3])
        return f"tuned for another target only ({names}); tune it for this one"
    runs = select(RunRow.id).where(RunRow.workload_key.in_(keys))
    n_runs = session.scalar(select(func.count()).select_from(runs.subquery())) or 0
    if n_runs == 0:
        return _never_tuned(session)
    n_trials = session.scalar(select(func.count(TrialRow.id)).where(TrialRow.run_id.in_(runs))) or 0
    return (
        f"{n_trials} trials in {n_runs} run{'s' * (n_runs != 1)}, but none was confirmed to be at least as fast as"
        " untuned; tune it with more trials"
    )


def describe_target(target: dict[str, Any]) -> str:
    """E.g. "llvm mcpu=skylake num-cores=2"."""
    settings = (f"{k}={v}" for k, v in sorted(target.items()) if k in ("mcpu", "arch", "num-cores"))
    return " ".join((str(target.get("kind", "unknown")), *settings))


def get_record(session: Session, id_or_prefix: str) -> StoredRecord:
    prefix = id_or_prefix.strip().lower()
    if not prefix or not all(c in "0123456789abcdef" for c in prefix):
        raise NotFoundError(
            f"no record {id_or_prefix!r}: ids are up to 16 hex digits; list them with: tunesmith records"
        )
    ids = session.scalars(
        select(TrialRow.id).where(TrialRow.id >= prefix, TrialRow.id < prefix + "g").order_by(TrialRow.id).limit(4)
    ).all()
    if not ids:
        raise NotFoundError(f"no record {id_or_prefix!r} in this database; list them with: tunesmith records")
    if len(ids) > 1 and prefix not in ids:
        raise NotFoundError(
            f"{id_or_prefix!r} is the start of several records ({', '.join(ids[:3])}{', ...' * (len(ids) > 3)});"
            " give more digits"
        )
    return _stored(session, session.get_one(TrialRow, ids[0]))


def _stored(session: Session, row: TrialRow) -> StoredRecord:
    run = session.get_one(RunRow, row.run_id)
    workload = session.get_one(WorkloadRow, run.workload_key)
    confirmed = session.get(ConfirmedTrialRow, (run.id, row.trial))
    return StoredRecord(
        id=row.id,
        run_id=row.run_id,
        trial=row.trial,
        workload=Workload.from_dict({name: getattr(workload, name) for name in _WORKLOAD_FIELDS}),
        spec=run.spec,
        target=session.get_one(TargetRow, run.target_key).canonical,
        device=session.get_one(DeviceRow, run.device_key).info,
        toolchain=session.get_one(ToolchainRow, run.toolchain_key).versions,
        policy=run.policy,
        n_threads=run.n_threads,
        seed=run.seed,
        trace_json=row.trace_json,
        outcome=_outcome(row),
        artifact_sha256=row.artifact_sha256,
        predicted=row.predicted,
        max_abs_error=row.max_abs_error,
        max_rel_error=row.max_rel_error,
        certificate=row.certificate,
        phase_s=row.phase_s,
        baseline_secs=tuple(run.baseline_secs),
        confirmation=_confirmation(session, run.id),
        standing=None if confirmed is None else _standing(confirmed),
        measured_at_s=row.measured_at_s,
        published=_published(session, row.id),
    )


def _outcome(row: TrialRow) -> Outcome:
    if row.run_secs is not None:
        return Latency(tuple(row.run_secs), full=bool(row.is_full))
    return Failure(FailureKind(row.kind), row.detail or "")


def _confirmation(session: Session, run_id: str) -> Confirmation | None:
    row = session.get(ConfirmationRow, run_id)
    if row is None:
        return None
    confirmed = session.scalars(
        select(ConfirmedTrialRow).where(ConfirmedTrialRow.run_id == run_id).order_by(ConfirmedTrialRow.trial)
    )
    return Confirmation(
        baseline_secs=tuple(row.baseline_secs),
        candidate_secs={c.trial: tuple(c.run_secs) for c in confirmed},
        winner=row.winner,
        verdict=row.verdict,
    )


def _published(session: Session, record_id: str) -> Published | None:
    row = session.scalars(select(ScheduleRow).where(ScheduleRow.record_id == record_id)).one_or_none()
    if row is None:
        return None
    return Published(standing=_standing(row), verdict=row.verdict, published_at_s=row.published_at_s)


def _standing(row: ScheduleRow | ConfirmedTrialRow) -> Standing:
    return Standing(**{name: getattr(row, name) for name in Standing.__dataclass_fields__})


def list_records(session: Session, wanted: Filter, limit: int) -> list[RecordSummary]:
    rows: Select[Any] = (
        select(TrialRow, RunRow, WorkloadRow.label, TargetRow.canonical, ScheduleRow.id)
        .join(RunRow, RunRow.id == TrialRow.run_id)
        .join(WorkloadRow, WorkloadRow.key == RunRow.workload_key)
        .join(TargetRow, TargetRow.key == RunRow.target_key)
        .outerjoin(ScheduleRow, ScheduleRow.record_id == TrialRow.id)
    )
    if wanted.workload_key is not None:
        rows = rows.where(RunRow.workload_key == wanted.workload_key)
    if wanted.digest is not None:
        known = select(WorkloadSpecRow.workload_key).where(WorkloadSpecRow.digest == wanted.digest)
        rows = rows.where(RunRow.workload_key.in_(known))
    if wanted.device_key is not None:
        rows = rows.where(RunRow.device_key == wanted.device_key)
    if wanted.only_published:
        rows = rows.where(ScheduleRow.id.is_not(None))
    newest = rows.order_by(TrialRow.measured_at_s.desc(), TrialRow.trial.desc(), TrialRow.id).limit(limit)
    return [
        RecordSummary(
            id=trial.id,
            workload_key=run.workload_key,
            label=label,
            target=target,
            device_key=run.device_key,
            policy=run.policy,
            trial=trial.trial,
            kind=trial.kind,
            median_s=trial.median_s,
            is_published=schedule_id is not None,
            measured_at_s=trial.measured_at_s,
        )
        for trial, run, label, target, schedule_id in session.execute(newest)
    ]


def list_devices(session: Session) -> list[StoredDevice]:
    n_runs = select(RunRow.device_key, func.count().label("n")).group_by(RunRow.device_key).subquery()
    rows = session.execute(
        select(DeviceRow, n_runs.c.n)
        .outerjoin(n_runs, n_runs.c.device_key == DeviceRow.key)
        .order_by(DeviceRow.last_seen_at_s.desc(), DeviceRow.key)
    )
    return [
        StoredDevice(
            key=device.key,
            info=device.info,
            n_runs=n or 0,
            first_seen_at_s=device.first_seen_at_s,
            last_seen_at_s=device.last_seen_at_s,
        )
        for device, n in rows
    ]
