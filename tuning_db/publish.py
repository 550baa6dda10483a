"""Which winner is published: the rule, without SQL.

Medians of two sessions do not compare: clocks, temperature and neighbours drift by tens of per cent. Each session's
winner was timed in the same rounds as the untuned module, so its speed-up over that baseline does. A stored schedule
gives way only to one whose speed-up has a higher lower bound (95 %): a noisy session has a wide interval, so luck
alone does not take the place of a solid measurement. Winners slower than untuned are kept as records, not published.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """A winner against the baseline of its own rounds. Seconds per call; `speedup` is baseline / candidate."""

    median_s: float
    baseline_median_s: float
    speedup: float
    speedup_low: float
    speedup_high: float


def standing(candidate_secs: Sequence[float], baseline_secs: Sequence[float]) -> Standing:
    """Compares samples taken pairwise in the same rounds.

    The bounds are the distribution-free interval of the median of the per-round ratios (sign test): exact, and the same
    on every machine.
    """
    if not candidate_secs or len(candidate_secs) != len(baseline_secs):
        raise ValueError(f"want one sample per round of both, got {len(candidate_secs)} and {len(baseline_secs)}")
    ratios = sorted(b / c for b, c in zip(baseline_secs, candidate_secs, strict=True))
    rank = _sign_test_rank(len(ratios))
    speedup = statistics.median(ratios)
    return Standing(
        median_s=statistics.median(candidate_secs),
        baseline_median_s=statistics.median(baseline_secs),
        speedup=speedup,
        speedup_low=ratios[rank],
        speedup_high=ratios[-1 - rank],
    )


def _sign_test_rank(n: int, confidence: float = 0.95) -> int:
    """Index of the order statistic that bounds the median from below; 0 (the smallest) when n is too small.

    The largest r with P(Binomial(n, 1/2) < r) <= (1 - confidence) / 2, as a 0-based index.
    """
    tail, rank = 0.0, 0
    for r in range(n // 2):
        tail += math.comb(n, r) / 2.0**n
        if tail > (1.0 - confidence) / 2.0:
            break
        rank = r
    return rank
