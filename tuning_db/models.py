"""The tables. What must hold is in the schema: kinds, positive finite seconds, who belongs to whom.

All times are UTC epoch seconds (`_at_s`). Sample lists are JSON arrays in the order taken; their extremes are columns,
so that CHECKs can refuse zero, infinity and the 1e10 that other tuners store for a failed candidate. Plain tables, no
object mapper: it would take a third of the time that a lookup takes.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)

from tuner.outcome import FailureKind

SCHEMA_VERSION = 1
MAX_SECONDS = 1e9

OK = "ok"
KINDS = (OK, *(kind.value for kind in FailureKind))
VERDICTS = ("faster", "tie", "slower")
CERTIFICATES = ("searched", "default")

metadata = MetaData()


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(v) for v in values)})"


def _key(name: str = "key") -> Column[Any]:
    return Column(name, String, primary_key=True)


def _refer(name: str, to: str) -> Column[Any]:
    return Column(name, String, ForeignKey(to), nullable=False)


def _need(name: str, kind: type[Any]) -> Column[Any]:
    return Column(name, kind, nullable=False)


def _maybe(name: str, kind: type[Any]) -> Column[Any]:
    return Column(name, JSON(none_as_null=True) if kind is JSON else kind, nullable=True)


# One row. A newer version than SCHEMA_VERSION is refused at opening.
schema_version = Table(
    "schema_version",
    metadata,
    Column("id", Integer, primary_key=True),
    _need("version", Integer),
    _need("created_at_s", Float),
    CheckConstraint("id = 1", name="only_one_row"),
)

# tuner.workloads.workload.Workload, as resolved. `key` is the sha256 of the canonical module.
workload = Table(
    "workload",
    metadata,
    _key(),
    _need("label", String),
    _need("spec", JSON),
    _need("module_json", String),
    _need("args", JSON),
    _need("flop", Float),
    _need("bytes_moved", Float),
    _need("reduction_length", Integer),
    _need("acc_dtype", String),
    _need("has_reference", Boolean),
    _maybe("nothing_to_tune", String),
    _need("warnings", JSON),
    _need("created_at_s", Float),
    CheckConstraint("length(key) > 0 AND length(module_json) > 0", name="workload_is_named"),
    CheckConstraint("flop >= 0 AND bytes_moved >= 0 AND reduction_length >= 1", name="workload_counts"),
)

target = Table(
    "target",
    metadata,
    _key(),
    _need("canonical", JSON),
    _need("created_at_s", Float),
)

# `info` is the fingerprint as last seen; its key never changes.
device = Table(
    "device",
    metadata,
    _key(),
    _need("info", JSON),
    _need("first_seen_at_s", Float),
    _need("last_seen_at_s", Float),
)

# `code_key` is the key of the versions that decide what code is made (tuning_db/canonical.py).
toolchain = Table(
    "toolchain",
    metadata,
    _key(),
    _need("code_key", String),
    _need("versions", JSON),
    _need("created_at_s", Float),
)

# What module a spec stands for under a toolchain's code versions: lookups of catalogue operators need no TVM.
workload_spec = Table(
    "workload_spec",
    metadata,
    _key("digest"),
    _key("code_key"),
    _refer("workload_key", "workload.key"),
    _need("seen_at_s", Float),
)

# One tuning run. `closed_at_s` is NULL while it runs, and for ever when its process was killed.
run = Table(
    "run",
    metadata,
    _key("id"),
    _refer("workload_key", "workload.key"),
    _refer("target_key", "target.key"),
    _refer("device_key", "device.key"),
    _refer("toolchain_key", "toolchain.key"),
    _need("spec", JSON),
    _need("policy", String),
    _need("n_threads", Integer),
    _need("seed", Integer),
    _need("baseline_secs", JSON),
    _need("started_at_s", Float),
    _maybe("closed_at_s", Float),
    _maybe("summary", JSON),
    CheckConstraint("n_threads >= 1", name="run_threads"),
    CheckConstraint("seed >= 0", name="run_seed"),
    CheckConstraint("(summary IS NULL) = (closed_at_s IS NULL)", name="run_closed_with_summary"),
    Index("run_by_workload", "workload_key", "target_key", "device_key"),
)

# A record. `kind` is "ok" or a failure kind; only "ok" has samples, and only validated candidates are "ok".
trial = Table(
    "trial",
    metadata,
    _key("id"),
    _refer("run_id", "run.id"),
    _need("trial", Integer),
    _need("trace_json", String),
    _need("kind", String),
    _maybe("detail", String),
    _maybe("run_secs", JSON),
    _maybe("is_full", Boolean),
    _maybe("min_s", Float),
    _maybe("median_s", Float),
    _maybe("max_s", Float),
    _maybe("artifact_sha256", String),
    _maybe("predicted", Float),
    _maybe("max_abs_error", Float),
    _maybe("max_rel_error", Float),
    _need("certificate", String),
    _need("phase_s", JSON),
    _need("measured_at_s", Float),
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
    Index("trial_by_time", "measured_at_s"),
)

# One of the few candidates re-measured side by side: one sample per round, in the baseline's rounds.
confirmed_trial = Table(
    "confirmed_trial",
    metadata,
    _key("run_id"),
    Column("trial", Integer, primary_key=True),
    _need("run_secs", JSON),
    _need("min_s", Float),
    _need("median_s", Float),
    _need("max_s", Float),
    _need("baseline_median_s", Float),
    _need("speedup", Float),
    _need("speedup_low", Float),
    _need("speedup_high", Float),
    ForeignKeyConstraint(["run_id", "trial"], ["trial.run_id", "trial.trial"], name="confirmed_is_a_trial"),
    CheckConstraint(
        f"min_s > 0 AND min_s <= median_s AND median_s <= max_s AND max_s < {MAX_SECONDS:.0f}",
        name="confirmed_latency",
    ),
    CheckConstraint("speedup_low > 0 AND speedup > 0 AND speedup_high > 0", name="confirmed_speedup"),
    CheckConstraint("baseline_median_s > 0", name="confirmed_baseline"),
)

# One per run. The winner is one of its confirmed trials, or NULL when nothing could be confirmed.
confirmation = Table(
    "confirmation",
    metadata,
    Column("run_id", String, ForeignKey("run.id"), primary_key=True),
    _need("baseline_secs", JSON),
    _maybe("winner", Integer),
    _need("verdict", String),
    _need("confirmed_at_s", Float),
    ForeignKeyConstraint(
        ["run_id", "winner"], ["confirmed_trial.run_id", "confirmed_trial.trial"], name="winner_is_confirmed"
    ),
    CheckConstraint(_one_of("verdict", VERDICTS), name="confirmation_verdict"),
)

# What a lookup serves: one per workload, target, device, policy and code versions (tuning_db/publish.py).
schedule = Table(
    "schedule",
    metadata,
    Column("id", Integer, primary_key=True),
    _refer("workload_key", "workload.key"),
    _refer("target_key", "target.key"),
    _refer("device_key", "device.key"),
    _need("code_key", String),
    _need("policy", String),
    Column("record_id", String, ForeignKey("trial.id"), nullable=False, unique=True),
    _need("median_s", Float),
    _need("baseline_median_s", Float),
    _need("speedup", Float),
    _need("speedup_low", Float),
    _need("speedup_high", Float),
    _need("verdict", String),
    _need("published_at_s", Float),
    UniqueConstraint("workload_key", "target_key", "device_key", "policy", "code_key", name="one_best_schedule"),
    CheckConstraint(f"median_s > 0 AND median_s < {MAX_SECONDS:.0f}", name="schedule_latency"),
    CheckConstraint("speedup > 0 AND speedup_low > 0", name="schedule_speedup"),
    # Slower than untuned is never published.
    CheckConstraint(_one_of("verdict", ("faster", "tie")), name="schedule_verdict"),
)
