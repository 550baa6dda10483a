"""The tables. What must hold is in the schema: kinds, positive finite seconds, who belongs to whom.

All times are UTC epoch seconds (`_at_s`). Sample lists are JSON arrays in the order taken; their extremes are columns,
so that CHECKs can refuse zero, infinity and the 1e10 that other tuners store for a failed candidate.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tuner.outcome import FailureKind

SCHEMA_VERSION = 1
MAX_SECONDS = 1e9

OK = "ok"
KINDS = (OK, *(kind.value for kind in FailureKind))
VERDICTS = ("faster", "tie", "slower")
CERTIFICATES = ("searched", "default")


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(v) for v in values)})"


class Base(DeclarativeBase):
    type_annotation_map = {dict[str, Any]: JSON, list[float]: JSON, list[Any]: JSON}  # noqa: RUF012


class SchemaVersion(Base):
    """One row. A newer version than SCHEMA_VERSION is refused at opening."""

    __tablename__ = "schema_version"
    __table_args__ = (CheckConstraint("id = 1", name="only_one_row"),)

    id: Mapped[int] = mapped_column(primary_key=True, default=1)
    version: Mapped[int]
    created_at_s: Mapped[float]


class WorkloadRow(Base):
    """tuner.workloads.workload.Workload, as resolved. `key` is the sha256 of the canonical module."""

    __tablename__ = "workload"
    __table_args__ = (
        CheckConstraint("length(key) > 0 AND length(module_json) > 0", name="workload_is_named"),
        CheckConstraint("flop >= 0 AND bytes_moved >= 0 AND reduction_length >= 1", name="workload_counts"),
    )

    key: Mapped[str] = mapped_column(primary_key=True)
    label: Mapped[str]
    spec: Mapped[dict[str, Any]]
    module_json: Mapped[str]
    args: Mapped[list[Any]]
    flop: Mapped[float]
    bytes_moved: Mapped[float]
    reduction_length: Mapped[int]
    acc_dtype: Mapped[str]
    has_reference: Mapped[bool]
    nothing_to_tune: Mapped[str | None]
    warnings: Mapped[list[Any]]
    created_at_s: Mapped[float]


class TargetRow(Base):
    __tablename__ = "target"

    key: Mapped[str] = mapped_column(primary_key=True)
    canonical: Mapped[dict[str, Any]]
    created_at_s: Mapped[float]


class DeviceRow(Base):
    """`info` is the fingerprint as last seen; its key never changes."""

    __tablename__ = "device"

    key: Mapped[str] = mapped_column(primary_key=True)
    info: Mapped[dict[str, Any]]
    first_seen_at_s: Mapped[float]
    last_seen_at_s: Mapped[float]


class ToolchainRow(Base):
    """`code_key` is the key of the versions that decide what code is made (tuning_db/canonical.py)."""

    __tablename__ = "toolchain"

    key: Mapped[str] = mapped_column(primary_key=True)
    code_key: Mapped[str]
    versions: Mapped[dict[str, Any]]
    created_at_s: Mapped[float]


class WorkloadSpecRow(Base):
    """What module a spec stands for under a toolchain's code versions: lookups of catalogue operators need no TVM."""

    __tablename__ = "workload_spec"

    digest: Mapped[str] = mapped_column(primary_key=True)
    code_key: Mapped[str] = mapped_column(primary_key=True)
    workload_key: Mapped[str] = mapped_column(ForeignKey("workload.key"))
    seen_at_s: Mapped[float]


class RunRow(Base):
    """One tuning run. `closed_at_s` is None while it runs, and for ever when its process was killed."""

    __tablename__ = "run"
    __table_args__ = (
        CheckConstraint("n_threads >= 1", name="run_threads"),
        CheckConstraint("seed >= 0", name="run_seed"),
        CheckConstraint("(summary IS NULL) = (closed_at_s IS NULL)", name="run_closed_with_summary"),
        Index("run_by_workload", "workload_key", "target_key", "device_key"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    workload_key: Mapped[str] = mapped_column(ForeignKey("workload.key"))
    target_key: Mapped[str] = mapped_column(ForeignKey("target.key"))
    device_key: Mapped[str] = mapped_column(ForeignKey("device.key"))
    toolchain_key: Mapped[str] = mapped_column(ForeignKey("toolchain.key"))
    spec: Mapped[dict[str, Any]]
    policy: Mapped[str]
    n_threads: Mapped[int]
    seed: Mapped[int]
    baseline_secs: Mapped[list[float]]
    started_at_s: Mapped[float]
    closed_at_s: Mapped[float | None]
    summary: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class TrialRow(Base):
    """A record. `kind` is "ok" or a failure kind; only "ok" has samples, and only validated candidates are "ok"."""

    __tablename__ = "trial"
    __table_args__ = (
        UniqueConstraint("run_id", "trial", name="trial_once_per_run"),
        CheckConstraint("trial >= 0", name="trial_number"),
        CheckConstraint(_one_of("kind", KINDS), name="trial_kind"),
        CheckConstraint(_one_of("certificate", CERTIFICATES), name="trial_certificate"),
        CheckConstraint(
            f"(kind = '{OK}' AND run_secs IS NOT NULL AND is_full IS NOT NULL AND detail IS NULL AND min_s > 0"
            f" AND min_s <= median_s AND median_s <= max_s AND max_s < {MAX_SECONDS:.0f})"
            f" OR (kind <> '{OK}' AND run_secs IS NULL AND is_full IS NULL AND detail IS NOT NULL"
            " AND min_s IS NULL AND median_s IS NULL AND max_s IS NULL)",
            name="trial_latency_xor_failure",
        ),
        # NULL comparisons are unknown, which a CHECK accepts: say NOT NULL for "ok" by itself.
        CheckConstraint(
            f"kind <> '{OK}' OR (min_s IS NOT NULL AND median_s IS NOT NULL AND max_s IS NOT NULL)",
            name="trial_latency_known",
        ),
        Index("trial_by_run_and_speed", "run_id", "kind", "median_s"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("run.id"))
    trial: Mapped[int]
    trace_json: Mapped[str]
    kind: Mapped[str]
    detail: Mapped[str | None]
    run_secs: Mapped[list[float] | None] = mapped_column(JSON(none_as_null=True))
    is_full: Mapped[bool | None]
    min_s: Mapped[float | None]
    median_s: Mapped[float | None]
    max_s: Mapped[float | None]
    artifact_sha256: Mapped[str | None]
    predicted: Mapped[float | None]
    max_abs_error: Mapped[float | None]
    max_rel_error: Mapped[float | None]
    certificate: Mapped[str]
    phase_s: Mapped[dict[str, Any]]
    measured_at_s: Mapped[float]


class ConfirmedTrialRow(Base):
    """One of the few candidates re-measured side by side: one sample per round, in the baseline's rounds."""

    __tablename__ = "confirmed_trial"
    __table_args__ = (
        ForeignKeyConstraint(["run_id", "trial"], ["trial.run_id", "trial.trial"], name="confirmed_is_a_trial"),
        CheckConstraint(
            f"min_s > 0 AND min_s <= median_s AND median_s <= max_s AND max_s < {MAX_SECONDS:.0f}",
            name="confirmed_latency",
        ),
        CheckConstraint("speedup_low > 0 AND speedup > 0 AND speedup_high > 0", name="confirmed_speedup"),
        CheckConstraint("baseline_median_s > 0", name="confirmed_baseline"),
    )

    run_id: Mapped[str] = mapped_column(primary_key=True)
    trial: Mapped[int] = mapped_column(primary_key=True)
    run_secs: Mapped[list[float]]
    min_s: Mapped[float]
    median_s: Mapped[float]
    max_s: Mapped[float]
    baseline_median_s: Mapped[float]
    speedup: Mapped[float]
    speedup_low: Mapped[float]
    speedup_high: Mapped[float]


class ConfirmationRow(Base):
    """One per run. The winner is one of its confirmed trials, or None when nothing could be confirmed."""

    __tablename__ = "confirmation"
    __table_args__ = (
        ForeignKeyConstraint(
            ["run_id", "winner"], ["confirmed_trial.run_id", "confirmed_trial.trial"], name="winner_is_confirmed"
        ),
        CheckConstraint(_one_of("verdict", VERDICTS), name="confirmation_verdict"),
    )

    run_id: Mapped[str] = mapped_column(ForeignKey("run.id"), primary_key=True)
    baseline_secs: Mapped[list[float]]
    winner: Mapped[int | None]
    verdict: Mapped[str]
    confirmed_at_s: Mapped[float]


class ScheduleRow(Base):
    """What a lookup serves: one per workload, target, device, policy and code versions (tuning_db/publish.py)."""

    __tablename__ = "schedule"
    __table_args__ = (
        UniqueConstraint("workload_key", "target_key", "device_key", "policy", "code_key", name="one_best_schedule"),
        CheckConstraint(f"median_s > 0 AND median_s < {MAX_SECONDS:.0f}", name="schedule_latency"),
        CheckConstraint("speedup > 0 AND speedup_low > 0", name="schedule_speedup"),
        # Slower than untuned is never published.
        CheckConstraint(_one_of("verdict", ("faster", "tie")), name="schedule_verdict"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    workload_key: Mapped[str] = mapped_column(ForeignKey("workload.key"))
    target_key: Mapped[str] = mapped_column(ForeignKey("target.key"))
    device_key: Mapped[str] = mapped_column(ForeignKey("device.key"))
    code_key: Mapped[str]
    policy: Mapped[str]
    record_id: Mapped[str] = mapped_column(ForeignKey("trial.id"), unique=True)
    median_s: Mapped[float]
    baseline_median_s: Mapped[float]
    speedup: Mapped[float]
    speedup_low: Mapped[float]
    speedup_high: Mapped[float]
    verdict: Mapped[str]
    published_at_s: Mapped[float]
