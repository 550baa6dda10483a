"""Frozen settings, checked when made, with units in their names. Nothing here reads the environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tuner.errors import UsageError


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise UsageError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a candidate is timed. Latencies compare only within one policy, so `name` spells all of it.

    The short look times one sample; a candidate slower than `look_ratio` times the best so far stops there.
    Each sample runs the kernel often enough to last `min_sample_s`.
    """

    repeats: int = 5
    min_sample_s: float = 0.002
    look_ratio: float = 1.5
    cache: str = "warm"
    confirm_rounds: int = 15

    def __post_init__(self) -> None:
        _need(self.repeats >= 3, f"policy repeats must be at least 3, got {self.repeats}")
        _need(0 < self.min_sample_s <= 1, f"min_sample_s must be in (0, 1], got {self.min_sample_s}")
        _need(self.look_ratio >= 1, f"look_ratio must be at least 1, got {self.look_ratio}")
        _need(self.cache in ("warm",), f"cache must be 'warm', got {self.cache!r}")
        _need(self.confirm_rounds >= 3, f"confirm_rounds must be at least 3, got {self.confirm_rounds}")

    @property
    def name(self) -> str:
        """E.g. "median-r5-s2ms-warm-c15"; part of a record's identity."""
        sample_ms = f"{self.min_sample_s * 1e3:g}ms"
        return f"median-r{self.repeats}-s{sample_ms}-{self.cache}-c{self.confirm_rounds}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one candidate may take before it counts as failed, and when a worker process is replaced."""

    build_timeout_s: float = 20.0
    run_timeout_s: float = 10.0
    setup_timeout_s: float = 120.0
    extra_memory_bytes: int = 1 << 30
    jobs_per_worker: int = 500

    def __post_init__(self) -> None:
        for name in ("build_timeout_s", "run_timeout_s", "setup_timeout_s"):
            _need(getattr(self, name) > 0, f"{name} must be positive, got {getattr(self, name)}")
        _need(self.jobs_per_worker >= 1, f"jobs_per_worker must be at least 1, got {self.jobs_per_worker}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """The evolutionary search: how many candidates are scored to fill one batch."""

    population: int = 96
    generations: int = 2
    random_fraction: float = 0.25
    crossover_fraction: float = 0.25
    epsilon: float = 0.1
    elites: int = 32

    def __post_init__(self) -> None:
        _need(self.population >= 2, f"population must be at least 2, got {self.population}")
        _need(self.generations >= 0, f"generations must not be negative, got {self.generations}")
        for name in ("random_fraction", "crossover_fraction", "epsilon"):
            _need(0 <= getattr(self, name) <= 1, f"{name} must be in [0, 1], got {getattr(self, name)}")
        _need(self.elites >= 0, f"elites must not be negative, got {self.elites}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneConfig:
    """One task's budget and settings. The run ends at whichever of `trials` and `seconds` comes first."""

    trials: int = 128
    seconds: float | None = None
    batch_size: int = 32
    seed: int = 0
    n_input_sets: int = 3
    cache_dir: Path | None = None
    """Where measured peaks are kept; None: the user's cache folder."""
    confirm_top: int = 4
    policy: Policy = field(default_factory=Policy)
    limits: Limits = field(default_factory=Limits)
    search: SearchConfig = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        _need(self.trials >= 1, f"trials must be at least 1, got {self.trials}")
        _need(self.seconds is None or self.seconds > 0, f"seconds must be positive, got {self.seconds}")
        _need(self.batch_size >= 1, f"batch_size must be at least 1, got {self.batch_size}")
        _need(0 <= self.seed < 2**31, f"seed must be in [0, 2^31), got {self.seed}")
        _need(self.n_input_sets >= 2, f"n_input_sets must be at least 2, got {self.n_input_sets}")
        _need(self.confirm_top >= 1, f"confirm_top must be at least 1, got {self.confirm_top}")
