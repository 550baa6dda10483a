"""What queries answer: plain data, detached from the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tuner.outcome import Outcome
from tuner.records import Confirmation
from tuner.workloads.workload import Workload
from tuning_db.publish import Standing

Tier = Literal["exact", "miss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One trial with all that makes it reproducible. `max_*_error` is inf where the kernel answered NaN."""

    id: str
    run_id: str
    trial: int
    workload: Workload
    spec: dict[str, Any]
    target: dict[str, Any]
    device: dict[str, Any]
    toolchain: dict[str, str]
    policy: str
    n_threads: int
    seed: int
    trace_json: str
    outcome: Outcome
    artifact_sha256: str | None
    predicted: float | None
    max_abs_error: float | None
    max_rel_error: float | None
    certificate: str
    phase_s: dict[str, float]
    baseline_secs: tuple[float, ...]
    confirmation: Confirmation | None
    """The run's, with every candidate confirmed in it; None when the run ended before."""
    standing: Standing | None
    """This record's in that confirmation; None when it was not among those re-measured."""
    measured_at_s: float
    published: Published | None
    """As what this record is served now; None when it is not a published schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """That a record is what lookups serve, and why (tuning_db/publish.py)."""

    standing: Standing
    verdict: str
    published_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupAnswer:
    """`record` is None on a miss; `reason` is one line for a person, also on a hit."""

    workload_key: str | None
    tier: Tier
    record: StoredRecord | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSummary:
    """One line of a list. `kind` is "ok" or a failure kind; `median_s` is None for failures."""

    id: str
    workload_key: str
    label: str
    target: dict[str, Any]
    device_key: str
    policy: str
    trial: int
    kind: str
    median_s: float | None
    is_published: bool
    measured_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDevice:
    key: str
    info: dict[str, Any]
    n_runs: int
    first_seen_at_s: float
    last_seen_at_s: float
