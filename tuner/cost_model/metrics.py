"""How well predicted scores rank measured latencies of one workload. Pure functions.

`scores` are predictions [n], higher is better; `latency_s` [n] are finite and positive, in the same order. Where
nothing can be ranked (fewer than two candidates, or all latencies equal) a metric has its neutral value, never NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def _checked(scores: npt.ArrayLike, latency_s: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    s, t = np.asarray(scores, dtype=np.float64), np.asarray(latency_s, dtype=np.float64)
    if s.ndim != 1 or s.shape != t.shape:
        raise ValueError(f"want two [n] arrays, got {s.shape} and {t.shape}")
    if not np.isfinite(s).all():
        raise ValueError("scores must be finite")
    if not (np.isfinite(t).all() and (t > 0).all()):
        raise ValueError("latencies must be finite and positive")
    return s, t


def pairwise_accuracy(scores: npt.ArrayLike, latency_s: npt.ArrayLike) -> float:
    """Share of pairs with different latencies that the scores order rightly; equal scores count half.

    0.5 is chance, and the answer where there is no such pair.
    """
    s, t = _checked(scores, latency_s)
    first, second = np.triu_indices(s.size, k=1)
    order = np.sign(t[second] - t[first])  # +1: first is faster
    guess = np.sign(s[first] - s[second])
    differ = order != 0
    if not differ.any():
        return 0.5
    return float(np.mean(0.5 + 0.5 * order[differ] * guess[differ]))


def _top_k_best(s: FloatArray, t: FloatArray, k: int) -> float:
    """Expected latency of the fastest among the k best-scored, in seconds; ties in score are broken at random.

    Exact: P(the j-th fastest of m tied is the fastest of r drawn) = C(m-j-1, r-1) / C(m, r).
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    k = min(k, s.size)
    threshold = np.sort(s)[::-1][k - 1]
    sure = t[s > threshold]
    tied = np.sort(t[s == threshold])
    n_drawn = k - sure.size
    best_sure = float(sure.min()) if sure.size else np.inf
    total, left = 0.0, 1.0
    for j in range(tied.size - n_drawn + 1):
        share = left * n_drawn / (tied.size - j)
        total += share * min(best_sure, float(tied[j]))
        left -= share
    return total


def peak_at(scores: npt.ArrayLike, latency_s: npt.ArrayLike, k: int) -> float:
    """Fastest latency overall / fastest among the k best-scored, in (0, 1]; 1 for no candidates."""
    s, t = _checked(scores, latency_s)
    if s.size == 0:
        return 1.0
    return min(1.0, float(t.min()) / _top_k_best(s, t, k))


def regret_at(scores: npt.ArrayLike, latency_s: npt.ArrayLike, k: int) -> float:
    """How much slower the best of the k best-scored is than the fastest overall, as a share >= 0 (0.1 = 10 %)."""
    s, t = _checked(scores, latency_s)
    if s.size == 0:
        return 0.0
    return max(0.0, _top_k_best(s, t, k) / float(t.min()) - 1.0)


def _mean_ranks(values: FloatArray) -> FloatArray:
    """Ranks from 0, ties share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2.0)[inverse], dtype=np.float64)


def spearman(scores: npt.ArrayLike, latency_s: npt.ArrayLike) -> float:
    """Rank correlation of scores with speed in [-1, 1]; 0 where either side is constant."""
    s, t = _checked(scores, latency_s)
    if s.size < 2:
        return 0.0
    a, b = _mean_ranks(s), _mean_ranks(-t)
    a, b = a - a.mean(), b - b.mean()
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(np.clip((a @ b) / norm, -1.0, 1.0)) if norm > 0.0 else 0.0


def kendall(scores: npt.ArrayLike, latency_s: npt.ArrayLike) -> float:
    """Kendall's tau-b of scores with speed in [-1, 1]; 0 where either side is constant."""
    s, t = _checked(scores, latency_s)
    first, second = np.triu_indices(s.size, k=1)
    order, guess = np.sign(t[second] - t[first]), np.sign(s[first] - s[second])
    norm = float(np.sqrt(np.count_nonzero(order) * float(np.count_nonzero(guess))))
    return float(np.clip((order @ guess) / norm, -1.0, 1.0)) if norm > 0.0 else 0.0


def ranking_metrics(scores: npt.ArrayLike, latency_s: npt.ArrayLike) -> dict[str, Any]:
    """All of the above in one dict of floats, for the loop's report and the benchmarks."""
    return {
        "pairwise_accuracy": pairwise_accuracy(scores, latency_s),
        "peak@1": peak_at(scores, latency_s, 1),
        "peak@5": peak_at(scores, latency_s, 5),
        "regret@1": regret_at(scores, latency_s, 1),
        "regret@5": regret_at(scores, latency_s, 5),
        "spearman": spearman(scores, latency_s),
        "kendall": kendall(scores, latency_s),
    }
