"""Which winner is published: the rule, without SQL.

Medians of two sessions do not compare: clocks, temperature and neighbours drift by tens of per cent. Each session's
winner was timed in the same rounds as the untuned module, so its speed-up over that baseline does. A stored schedule
gives way only to one whose speed-up has a higher lower bound (95 %): a noisy session has a wide interval, so luck
alone does not take the place of a solid measurement. Winners slower than untuned are kept as records, not published.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """A confirmed candidate against the baseline of its own rounds: seconds per call, and baseline / candidate;
    the bounds are those of the 95 % interval (tuner/measure/stats.py).
    """

    median_s: float
    baseline_median_s: float
    speedup: float
    speedup_low: float
    speedup_high: float


def standing(candidate_secs: Sequence[float], baseline_secs: Sequence[float]) -> Standing:
    """Compares samples taken pairwise in the same rounds, as the engine does when it names a winner.

    Raises:
        ValueError: not one positive finite sample per round of both.
    """
    from tuner.measure.stats import paired_speedup  # numpy: reading a database needs none

    speedup = paired_speedup(baseline_secs, candidate_secs)
    return Standing(
        median_s=statistics.median(candidate_secs),
        baseline_median_s=statistics.median(baseline_secs),
        speedup=speedup.median,
        speedup_low=speedup.low,
        speedup_high=speedup.high,
    )
