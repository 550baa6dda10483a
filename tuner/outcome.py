"""What one trial produced: a latency, or a failure that says whose fault it was."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from enum import StrEnum


class FailureKind(StrEnum):
    """Why a trial has no latency.

    The candidate is at fault (stored, never retried): INVALID_SCHEDULE, BUILD_ERROR, BUILD_TIMEOUT,
    RUN_ERROR, RUN_TIMEOUT, WRONG_ANSWER.
    The machine is at fault (retried, kept out of training): WORKER_LOST.
    """

    INVALID_SCHEDULE = "invalid_schedule"
    BUILD_ERROR = "build_error"
    BUILD_TIMEOUT = "build_timeout"
    RUN_ERROR = "run_error"
    RUN_TIMEOUT = "run_timeout"
    WRONG_ANSWER = "wrong_answer"
    WORKER_LOST = "worker_lost"

    @property
    def retryable(self) -> bool:
        return self is FailureKind.WORKER_LOST


@dataclass(frozen=True, slots=True)
class Latency:
    """Raw samples of one validated candidate, in seconds per call, in the order they were taken.

    `full` is False when only the short look was taken, because the candidate could no longer win.
    """

    run_secs: tuple[float, ...]
    full: bool = True

    def __post_init__(self) -> None:
        if not self.run_secs or not all(math.isfinite(s) and s > 0.0 for s in self.run_secs):
            raise ValueError(f"run_secs must be non-empty, finite and positive, got {self.run_secs}")

    @property
    def median_s(self) -> float:
        return statistics.median(self.run_secs)


@dataclass(frozen=True, slots=True)
class Failure:
    """A typed failure; `detail` is one line for a person."""

    kind: FailureKind
    detail: str


Outcome = Latency | Failure
