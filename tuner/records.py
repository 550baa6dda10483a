"""A trial as stored, and where the engine sends it. Plain data: `tuner` never knows SQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from tuner.outcome import Failure, Outcome
from tuner.workloads.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What all trials of one run share; together with a trial it makes a record.

    `target` is the canonical target dict, `device` the fingerprint ({"key", ...}), `toolchain` the versions.
    `baseline_secs` are the raw samples of the untuned module under the same policy.
    """

    run_id: str
    workload: Workload
    target: dict[str, Any]
    device: dict[str, Any]
    toolchain: dict[str, str]
    policy: str
    n_threads: int
    seed: int
    baseline_secs: tuple[float, ...]
    started_at: float
    """UTC epoch seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One candidate, tried once.

    `trace_json` replays onto the workload's stored module. `certificate` is "default" when the candidate
    is the default schedule rather than a searched one, else "searched". `predicted` is the cost model's score at
    proposal, None if unranked. `max_abs_error` and `max_rel_error` are against the reference, None if never compared.
    `phase_s` has the seconds spent on this candidate by phase ("build", "validate", "run").
    """

    trial: int
    trace_json: str
    outcome: Outcome
    artifact_sha256: str | None
    predicted: float | None
    max_abs_error: float | None
    max_rel_error: float | None
    certificate: str = "searched"
    phase_s: dict[str, float] = field(default_factory=dict)
    measured_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The top few re-measured interleaved with the baseline: raw samples, round by round.

    `candidate_secs[trial]` and `baseline_secs` have one sample per round, taken in the same rounds.
    """

    baseline_secs: tuple[float, ...]
    candidate_secs: dict[int, tuple[float, ...]]
    refuted: dict[int, Failure] = field(default_factory=dict)
    """Trials that were timed before and failed now, by their own fault: they lose their latency."""
    winner: int | None
    verdict: str
    """"faster", "tie" or "slower": the winner against the untuned module."""


class Recorder(Protocol):
    """Keeps what a run produced. Each call is durable when it returns.

    Raises StorageError when it can't be (locked, full, damaged); the loop then stops and says so.
    """

    def open_run(self, context: RunContext) -> None: ...

    def record(self, run_id: str, trial: TrialRecord) -> str:
        """Stores one trial; returns its record id."""

    def confirm(self, run_id: str, confirmation: Confirmation) -> str | None:
        """Stores the confirmation samples and publishes the winner; returns its record id."""

    def close_run(self, run_id: str, summary: dict[str, Any]) -> None:
        """Stores the run's final summary (tuner/result.py `to_json`)."""
