"""What tuning one task ended with, in the form that `tune --json` and the REST API print."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The confirmed winner. Intervals are 95 % bootstrap intervals of the median (tuner/measure/stats.py)."""

    record_id: str
    trial: int
    median_s: float
    ci95_s: tuple[float, float]
    flop_per_s: float
    roofline_fraction: float
    bound: str
    """"compute" or "memory"."""
    speedup: float
    speedup_ci95: tuple[float, float]
    verdict: str
    validated: bool
    max_abs_error: float
    certificate: str = "measured"
    schedule: str = "searched"
    """"searched", or "default" when no searched schedule was legal and the default one is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """`stopped` says why the run ended: "trials", "seconds", "space_exhausted", "interrupted", "nothing_to_tune".

    `notes` are lines for a person: exhausted spaces, default schedules, overflowing references.
    `seconds` has search, model, build, validate, run, confirm, setup and total.
    """

    workload: dict[str, Any]
    target: dict[str, Any]
    device: dict[str, Any]
    policy: str
    seed: int
    best: Best | None
    baseline_median_s: float | None
    baseline_ci95_s: tuple[float, float] | None
    trials_ok: int
    failed: dict[str, int]
    seconds: dict[str, float]
    stopped: str
    n_threads: int
    toolchain: dict[str, str]
    notes: tuple[str, ...] = ()
    run_id: str = ""
    started_at: float = 0.0
    """UTC epoch seconds."""
    first_trial_s: float | None = None
    """From the start until the first searched candidate had its outcome."""
    model: dict[str, Any] = field(default_factory=dict)

    @property
    def trials_total(self) -> int:
        return self.trials_ok + sum(self.failed.values())

    def to_json(self) -> dict[str, Any]:
        """The contract of design.md, "Command line"; keys may be added, never taken away."""
        baseline = None
        if self.baseline_median_s is not None and self.baseline_ci95_s is not None:
            baseline = {"median_s": self.baseline_median_s, "ci95_s": list(self.baseline_ci95_s)}
        best = None
        if self.best is not None:
            best = {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in ((n, getattr(self.best, n)) for n in self.best.__dataclass_fields__)
            }
        return {
            "workload": self.workload,
            "target": self.target,
            "device": self.device,
            "policy": self.policy,
            "seed": self.seed,
            "threads": self.n_threads,
            "toolchain": self.toolchain,
            "best": best,
            "baseline": baseline,
            "trials": {"total": self.trials_total, "ok": self.trials_ok, "failed": dict(self.failed)},
            "seconds": dict(self.seconds),
            "started_at": self.started_at,
            "first_trial_s": self.first_trial_s,
            "stopped": self.stopped,
            "notes": list(self.notes),
            "model": self.model,
            "run_id": self.run_id,
        }
