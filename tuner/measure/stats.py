"""What samples say: median with its interval, paired speed-up, and which confirmed candidate wins. Pure functions.

Intervals are 95 % percentile bootstrap intervals (Efron and Tibshirani, 1993), with a fixed seed: equal samples give
equal intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Verdict = Literal["faster", "tie", "slower"]
FloatArray = npt.NDArray[np.float64]

_N_RESAMPLES = 2000
_LEVELS = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median and its 95 % interval, low <= median <= high, in the unit of the samples."""

    median: float
    low: float
    high: float

    @property
    def ci95(self) -> tuple[float, float]:
        return (self.low, self.high)


def median_with_ci(samples: Sequence[float], seed: int = 0) -> Estimate:
    """The median of at least one finite sample; the interval is a point for a single one.

    Raises:
        ValueError: no samples, or one that is not finite.
    """
    values = np.asarray(samples, np.float64)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"want at least one finite sample, got {samples}")
    median = float(np.median(values))
    picks = np.random.default_rng(seed).integers(0, values.size, (_N_RESAMPLES, values.size))
    low, high = np.percentile(np.median(values[picks], axis=1), _LEVELS)
    return Estimate(median, min(float(low), median), max(float(high), median))


def paired_speedup(baseline_secs: Sequence[float], candidate_secs: Sequence[float], seed: int = 0) -> Estimate:
    """How many times faster the candidate is: the median of the per-round ratios baseline / candidate.

    Both have one sample per round of the same rounds, so what slows a round slows both and cancels.
    """
    baseline, candidate = _positive(baseline_secs), _positive(candidate_secs)
    if baseline.shape != candidate.shape:
        raise ValueError(f"want as many samples of each, got {baseline.size} and {candidate.size}")
    return median_with_ci((baseline / candidate).tolist(), seed)


def verdict(speedup: Estimate) -> Verdict:
    """ "faster" or "slower" when the whole interval says so, else "tie"."""
    if speedup.low > 1.0:
        return "faster"
    return "slower" if speedup.high < 1.0 else "tie"


def choose_winner(candidate_secs: Mapping[int, Sequence[float]]) -> int | None:
    """The candidate to publish among those confirmed in the same rounds; None when there are none.

    The fastest by the median over rounds of its ratio to that round's fastest candidate: a candidate must be good
    in most rounds, and one lucky sample wins nothing. Ties go to the lower median latency, then the lower trial.
    """
    if not candidate_secs:
        return None
    trials = sorted(candidate_secs)
    table = np.stack([_positive(candidate_secs[trial]) for trial in trials])
    ratios = np.median(table / table.min(axis=0), axis=1)
    medians = np.median(table, axis=1)
    return min(zip(ratios.tolist(), medians.tolist(), trials, strict=True))[2]


def _positive(samples: Sequence[float]) -> FloatArray:
    values = np.asarray(samples, np.float64)
    if values.ndim != 1 or values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"want positive finite samples, got {samples}")
    return values
