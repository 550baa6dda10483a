"""The database as the engine and the command line see it: `tuner.records.Recorder`, and questions about records."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Table, func, null, or_, select, update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import IntegrityError

from tuner.errors import StorageError
from tuner.outcome import Failure, Latency
from tuner.records import Confirmation, RunContext, TrialRecord
from tuning_db import models, queries
from tuning_db.canonical import code_versions, content_key, record_id, spec_digest
from tuning_db.engine import Database
from tuning_db.publish import standing
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
        code_key = content_key(code_versions(context.toolchain))
        run = {
            "id": context.run_id,
            "workload_key": workload.key,
            "target_key": content_key(context.target),
            "device_key": str(context.device["key"]),
            "toolchain_key": content_key(context.toolchain),
            "spec": workload.spec,
            "policy": context.policy,
            "n_threads": context.n_threads,
            "seed": context.seed,
            "started_at_s": context.started_at,
        }
        target = {"key": run["target_key"], "canonical": context.target, "created_at_s": now_s}
        toolchain = {"key": run["toolchain_key"], "code_key": code_key, "versions": context.toolchain}
        device = {"key": run["device_key"], "first_seen_at_s": now_s}
        spec = {"digest": spec_digest(workload.spec), "code_key": code_key}
        with self._writing(f"open run {context.run_id!r}") as connection:
            _keep_first(connection, models.workload, {**workload.to_dict(), "created_at_s": now_s})
            _keep_first(connection, models.target, target)
            _keep_first(connection, models.toolchain, {**toolchain, "created_at_s": now_s})
            _keep_latest(connection, models.device, device, {"info": context.device, "last_seen_at_s": now_s})
            _keep_latest(connection, models.workload_spec, spec, {"workload_key": workload.key, "seen_at_s": now_s})
            baseline = _samples(context.baseline_secs, allow_none=True)
            connection.execute(insert(models.run).values(**run, baseline_secs=baseline))

    def record(self, run_id: str, trial: TrialRecord) -> str:
        stored_id = record_id(run_id, trial.trial, trial.trace_json)
        with self._writing(f"store trial {trial.trial} of run {run_id!r}") as connection:
            connection.execute(
                insert(models.trial).values(
                    id=stored_id,
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
            )
        return stored_id

    def confirm(self, run_id: str, confirmation: Confirmation) -> str | None:
        """Also publishes the winner, when it beats what is published (tuning_db/publish.py says by which rule).

        Returns the winner's record id, published or not; None without a winner.
        """
        now_s = self._clock()
        with self._writing(f"confirm run {run_id!r}") as connection:
            baseline = _samples(confirmation.baseline_secs)
            for trial, failure in sorted(confirmation.refuted.items()):
                _take_back_latency(connection, run_id, trial, failure)
            for trial, secs in sorted(confirmation.candidate_secs.items()):
                samples = _samples(secs)
                stands = {**asdict(standing(samples, baseline)), "min_s": min(samples), "max_s": max(samples)}
                connection.execute(
                    insert(models.confirmed_trial).values(run_id=run_id, trial=trial, run_secs=samples, **stands)
                )
            connection.execute(
                insert(models.confirmation).values(
                    run_id=run_id,
                    baseline_secs=baseline,
                    winner=confirmation.winner,
                    verdict=confirmation.verdict,
                    confirmed_at_s=now_s,
                )
            )
            if confirmation.winner is None:
                return None
            of_winner = (models.trial.c.run_id == run_id) & (models.trial.c.trial == confirmation.winner)
            winner_id, kind = connection.execute(select(models.trial.c.id, models.trial.c.kind).where(of_winner)).one()
            if kind != models.OK:
                raise StorageError(
                    f"can't confirm run {run_id!r}: its winner, trial {confirmation.winner}, is a {kind}"
                )
            if confirmation.verdict != "slower":
                _publish(connection, str(winner_id), now_s)
            return str(winner_id)

    def close_run(self, run_id: str, summary: dict[str, Any]) -> None:
        is_open = (models.run.c.id == run_id) & models.run.c.closed_at_s.is_(None)
        with self._writing(f"close run {run_id!r}") as connection:
            closed = connection.execute(
                update(models.run).where(is_open).values(closed_at_s=self._clock(), summary=summary)
            )
            if closed.rowcount != 1:
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
        question = queries.Question(
            target_key=content_key(dict(target)),
            device_key=device_key,
            code_key=content_key(code_versions(toolchain)),
            policy=policy,
        )
        with self._database.read() as connection:
            return queries.lookup(connection, question, workload_key=workload_key, digest=digest)

    def get_record(self, id_or_prefix: str) -> StoredRecord:
        """
        Raises:
            NotFoundError: no record, or several, with this id or prefix.
        """
        with self._database.read() as connection:
            return queries.get_record(connection, id_or_prefix)

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
        wanted = queries.Filter(
            workload_key=workload_key, digest=digest, device_key=device_key, only_published=only_published
        )
        with self._database.read() as connection:
            return queries.list_records(connection, wanted, limit)

    def count_records(self) -> int:
        with self._database.read() as connection:
            return connection.scalar(select(func.count()).select_from(models.trial)) or 0

    def list_devices(self) -> list[StoredDevice]:
        with self._database.read() as connection:
            return queries.list_devices(connection)

    @contextmanager
    def _writing(self, doing: str) -> Iterator[Connection]:
        """A write transaction in which what the schema refuses becomes one line."""
        try:
            with self._database.write() as connection:
                try:
                    yield connection
                except IntegrityError as error:
                    why = " ".join(str(error.orig).split())
                    raise StorageError(
                        f"can't {doing}: the database {self._database.name} refuses it ({why})"
                    ) from error
        except ValueError as error:  # a sample that no column could hold
            raise StorageError(f"can't {doing}: {error}") from error


def _publish(connection: Connection, winner_id: str, now_s: float) -> None:
    """One conditional upsert: of two processes that publish at once, the better one stays."""
    place = ("workload_key", "target_key", "device_key", "policy")
    stands = ("median_s", "baseline_median_s", "speedup", "speedup_low", "speedup_high")
    source = (
        select(
            *(models.run.c[name] for name in place),
            models.toolchain.c.code_key,
            *(models.confirmed_trial.c[name] for name in stands),
            models.confirmation.c.verdict,
        )
        .join_from(models.trial, models.run, models.run.c.id == models.trial.c.run_id)
        .join(models.toolchain, models.toolchain.c.key == models.run.c.toolchain_key)
        .join(models.confirmation, models.confirmation.c.run_id == models.run.c.id)
        .join(
            models.confirmed_trial,
            (models.confirmed_trial.c.run_id == models.trial.c.run_id)
            & (models.confirmed_trial.c.trial == models.trial.c.trial),
        )
        .where(models.trial.c.id == winner_id)
    )
    row = dict(connection.execute(source).one()._mapping)
    upsert = insert(models.schedule).values(**row, record_id=winner_id, published_at_s=now_s)
    changes = {name: upsert.excluded[name] for name in (*stands, "verdict", "record_id", "published_at_s")}
    stored = models.schedule.c
    connection.execute(
        upsert.on_conflict_do_update(
            index_elements=[*place, "code_key"],
            set_=changes,
            where=or_(stored.speedup_low < upsert.excluded.speedup_low, stored.record_id == winner_id),
        )
    )


def _keep_first(connection: Connection, table: Table, row: dict[str, Any]) -> None:
    """Rows named by their content never change, so the first one stays."""
    connection.execute(insert(table).values(**row).on_conflict_do_nothing(index_elements=["key"]))


def _keep_latest(connection: Connection, table: Table, named: dict[str, Any], latest: dict[str, Any]) -> None:
    """A row that exists keeps what names it and when it was first seen; `latest` is replaced."""
    key = [column.name for column in table.primary_key]
    upsert = insert(table).values(**named, **latest)
    connection.execute(upsert.on_conflict_do_update(index_elements=key, set_=latest))


def _take_back_latency(connection: Connection, run_id: str, trial: int, failure: Failure) -> None:
    """A wrong kernel has no latency, also when it shows only in its confirmation."""
    of_trial = (models.trial.c.run_id == run_id) & (models.trial.c.trial == trial)
    nothing = dict.fromkeys(("run_secs", "is_full", "min_s", "median_s", "max_s"), null())
    connection.execute(
        update(models.trial).where(of_trial).values(kind=failure.kind.value, detail=failure.detail, **nothing)
    )


def _outcome_columns(trial: TrialRecord) -> dict[str, Any]:
    outcome = trial.outcome
    if isinstance(outcome, Latency):
        samples = _samples(outcome.run_secs)
        extremes = {"min_s": min(samples), "median_s": statistics.median(samples), "max_s": max(samples)}
        return {"kind": models.OK, "run_secs": samples, "is_full": outcome.full, **extremes}
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
