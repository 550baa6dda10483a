"""The database as the engine and the command line see it: `tuner.records.Recorder`, and questions about records."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tuner.errors import StorageError
from tuner.outcome import Latency
from tuner.records import Confirmation, RunContext, TrialRecord
from tuning_db import queries
from tuning_db.canonical import code_versions, content_key, record_id, spec_digest
from tuning_db.engine import Database
from tuning_db.models import (
    OK,
    Base,
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
from tuning_db.publish import Standing, standing
from tuning_db.views import LookupAnswer, RecordSummary, StoredDevice, StoredRecord


class Repository:
    """Records of one database. Each writing call is one transaction, on the disk when it returns.

    All methods raise StorageError when the database can't be read or written, or refuses what it was given.
    `clock` gives UTC epoch seconds.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    # Recorder

    def open_run(self, context: RunContext) -> None:
        now_s = self._clock()
        workload = context.workload
        keys = {
            "workload_key": workload.key,
            "target_key": content_key(context.target),
            "device_key": str(context.device["key"]),
            "toolchain_key": content_key(context.toolchain),
        }
        code_key = content_key(code_versions(context.toolchain))
        described = workload.to_dict()
        described["args"] = list(described["args"])
        described["warnings"] = list(described["warnings"])
        with self._writing(f"open run {context.run_id!r}") as session:
            _keep_first(session, WorkloadRow, {**described, "created_at_s": now_s})
            _keep_first(
                session, TargetRow, {"key": keys["target_key"], "canonical": context.target, "created_at_s": now_s}
            )
            _keep_first(
                session,
                ToolchainRow,
                {
                    "key": keys["toolchain_key"],
                    "code_key": code_key,
                    "versions": context.toolchain,
                    "created_at_s": now_s,
                },
            )
            seen: dict[str, Any] = {"info": context.device, "last_seen_at_s": now_s}
            session.execute(
                insert(DeviceRow)
                .values(key=keys["device_key"], first_seen_at_s=now_s, **seen)
                .on_conflict_do_update(index_elements=["key"], set_=seen)
            )
            names: dict[str, Any] = {"workload_key": workload.key, "seen_at_s": now_s}
            session.execute(
                insert(WorkloadSpecRow)
                .values(digest=spec_digest(workload.spec), code_key=code_key, **names)
                .on_conflict_do_update(index_elements=["digest", "code_key"], set_=names)
            )
            session.add(
                RunRow(
                    id=context.run_id,
                    **keys,
                    spec=workload.spec,
                    policy=context.policy,
                    n_threads=context.n_threads,
                    seed=context.seed,
                    baseline_secs=_samples(context.baseline_secs, allow_none=True),
                    started_at_s=context.started_at,
                )
            )

    def record(self, run_id: str, trial: TrialRecord) -> str:
        row = TrialRow(
            id=record_id(run_id, trial.trial, trial.trace_json),
            run_id=run_id,
            trial=trial.trial,
            trace_json=trial.trace_json,
            artifact_sha256=trial.artifact_sha256,
            predicted=_finite_or_none(trial.predicted),
            max_abs_error=_error_or_inf(trial.max_abs_error),
            max_rel_error=_error_or_inf(trial.max_rel_error),
            certificate=trial.certificate,
            phase_s=trial.phase_s,
            measured_at_s=trial.measured_at or self._clock(),
            **_outcome_columns(trial),
        )
        stored_id = row.id
        with self._writing(f"store trial {trial.trial} of run {run_id!r}") as session:
            session.add(row)
        return stored_id

    def confirm(self, run_id: str, confirmation: Confirmation) -> str | None:
        """Also publishes the winner, when it beats what is published (tuning_db/publish.py says by which rule).

        Returns the winner's record id, published or not; None without a winner.
        """
        now_s = self._clock()
        baseline = _samples(confirmation.baseline_secs)
        with self._writing(f"confirm run {run_id!r}") as session:
            for trial, secs in sorted(confirmation.candidate_secs.items()):
                samples = _samples(secs)
                session.add(
                    ConfirmedTrialRow(
                        run_id=run_id,
                        trial=trial,
                        run_secs=samples,
                        min_s=min(samples),
                        max_s=max(samples),
                        **asdict(standing(samples, baseline)),
                    )
                )
            session.flush()
            session.add(
                ConfirmationRow(
                    run_id=run_id,
                    baseline_secs=baseline,
                    winner=confirmation.winner,
                    verdict=confirmation.verdict,
                    confirmed_at_s=now_s,
                )
            )
            session.flush()
            if confirmation.winner is None:
                return None
            winner = session.scalars(
                select(TrialRow).where(TrialRow.run_id == run_id, TrialRow.trial == confirmation.winner)
            ).one()
            if winner.kind != OK:
                raise StorageError(
                    f"can't confirm run {run_id!r}: its winner, trial {winner.trial}, is a {winner.kind}"
                )
            if confirmation.verdict != "slower":
                _publish(session, winner, confirmation, now_s)
            return winner.id

    def close_run(self, run_id: str, summary: dict[str, Any]) -> None:
        with self._writing(f"close run {run_id!r}") as session:
            closed = session.execute(
                update(RunRow)
                .where(RunRow.id == run_id, RunRow.closed_at_s.is_(None))
                .values(closed_at_s=self._clock(), summary=summary)
            )
            if closed.rowcount != 1:  # type: ignore[attr-defined]
                raise StorageError(f"can't close run {run_id!r}: it was never opened, or is closed already")

    # Questions

    def lookup(
        self,
        *,
        target: Mapping[str, Any],
        device_key: str,
        toolchain: Mapping[str, str],
        workload_key: str | None = None,
        digest: str | None = None,
        policy: str | None = None,
    ) -> LookupAnswer:
        """The published schedule of a workload, named by its key or by its spec's digest (`canonical.spec_digest`).

        Of `toolchain` the versions that decide what code is made must be the record's (`canonical.code_versions`).
        `policy` is preferred where several have a schedule; without it, or without one under it, the latest is served.
        Records of another target, device or toolchain are never served; the reason tells of them.
        """
        with self._database.read() as session:
            question = queries.Question(
                target_key=content_key(dict(target)),
                device_key=device_key,
                code_key=content_key(code_versions(toolchain)),
                policy=policy,
            )
            return queries.lookup(session, question, workload_key=workload_key, digest=digest)

    def get_record(self, id_or_prefix: str) -> StoredRecord:
        """
        Raises:
            NotFoundError: no record, or several, with this id or prefix.
        """
        with self._database.read() as session:
            return queries.get_record(session, id_or_prefix)

    def list_records(
        self,
        *,
        workload_key: str | None = None,
        digest: str | None = None,
        device_key: str | None = None,
        only_published: bool = False,
        limit: int = 50,
    ) -> list[RecordSummary]:
        """The newest first."""
        with self._database.read() as session:
            wanted = queries.Filter(
                workload_key=workload_key, digest=digest, device_key=device_key, only_published=only_published
            )
            return queries.list_records(session, wanted, limit)

    def list_devices(self) -> list[StoredDevice]:
        with self._database.read() as session:
            return queries.list_devices(session)

    @contextmanager
    def _writing(self, doing: str) -> Iterator[Session]:
        """A write transaction in which what the schema refuses becomes one line."""
        try:
            with self._database.write() as session:
                try:
                    yield session
                    session.flush()
                except IntegrityError as error:
                    why = " ".join(str(error.orig).split())
                    raise StorageError(
                        f"can't {doing}: the database {self._database.name} refuses it ({why})"
                    ) from error
        except ValueError as error:  # a sample that no column could hold
            raise StorageError(f"can't {doing}: {error}") from error


def _publish(session: Session, winner: TrialRow, confirmation: Confirmation, now_s: float) -> None:
    """One conditional upsert: of two processes that publish at once, the better one stays."""
    run = session.get_one(RunRow, winner.run_id)
    stands = session.get_one(ConfirmedTrialRow, (winner.run_id, winner.trial))
    what: dict[str, Any] = {
        **{name: getattr(stands, name) for name in Standing.__dataclass_fields__},
        "record_id": winner.id,
        "verdict": confirmation.verdict,
        "published_at_s": now_s,
    }
    place = {
        **{name: getattr(run, name) for name in ("workload_key", "target_key", "device_key", "policy")},
        "code_key": session.get_one(ToolchainRow, run.toolchain_key).code_key,
    }
    upsert = insert(ScheduleRow).values(**place, **what)
    session.execute(
        upsert.on_conflict_do_update(
            index_elements=list(place),
            set_=what,
            where=or_(ScheduleRow.speedup_low < upsert.excluded.speedup_low, ScheduleRow.record_id == winner.id),
        )
    )


def _keep_first(session: Session, table: type[Base], values: dict[str, Any]) -> None:
    """Rows named by their content never change, so the first one stays."""
    session.execute(insert(table).values(**values).on_conflict_do_nothing(index_elements=["key"]))


def _outcome_columns(trial: TrialRecord) -> dict[str, Any]:
    outcome = trial.outcome
    if isinstance(outcome, Latency):
        samples = _samples(outcome.run_secs)
        extremes = {"min_s": min(samples), "median_s": statistics.median(samples), "max_s": max(samples)}
        return {"kind": OK, "run_secs": samples, "is_full": outcome.full, **extremes}
    return {"kind": outcome.kind.value, "detail": outcome.detail}


def _samples(secs: Sequence[float], *, allow_none: bool = False) -> list[float]:
    samples = [float(s) for s in secs]
    if not samples and not allow_none:
        raise ValueError("no samples")
    if not all(math.isfinite(s) and s > 0.0 for s in samples):
        raise ValueError(f"samples must be finite and positive, got {samples}")
    return samples


def _finite_or_none(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _error_or_inf(value: float | None) -> float | None:
    """SQL has no NaN: an answer that is not a number is infinitely wrong."""
    return None if value is None else (math.inf if math.isnan(value) else float(value))
