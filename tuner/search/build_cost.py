"""What a candidate costs to build, learned as the run goes: of two that look equally fast, the cheaper one is tried.

Code that LLVM needs seconds for (wide tiles, unrolled) is most of a run's time, and rarely much faster.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xgboost as xgb

from tuner.search.evolution import Ranker

Features = Sequence[npt.NDArray[np.float32]]
LEAST_BUILDS = 16
N_TREES = 30
PENALTY = 0.1  # of a score for each doubling of the build time over the median; scores are about log latency
MOST_DOUBLINGS = 4.0


class CostAwareRanker:
    """Ranks as `model` does, less a small penalty for what is expected to be slow to build."""

    def __init__(self, model: Ranker, *, seed: int) -> None:
        self._model = model
        self._seed = seed
        self._rows: list[npt.NDArray[np.float64]] = []
        self._log2_s: list[float] = []
        self._booster: xgb.Booster | None = None

    def predict(self, features: Features) -> npt.NDArray[np.float64]:
        """Higher is better; float64 [n]."""
        scores = np.asarray(self._model.predict(features), np.float64)
        if self._booster is None or not len(features):
            return scores
        expected = self._booster.predict(xgb.DMatrix(np.stack([_summary(f) for f in features]), nthread=1))
        doublings = np.clip(expected - float(np.median(self._log2_s)), 0.0, MOST_DOUBLINGS)
        return np.asarray(scores - PENALTY * doublings, np.float64)

    def observe_builds(self, features: Features, seconds: Sequence[float]) -> None:
        """Learns from a batch's build times; those of builds that failed at once (0 s) say nothing."""
        for array, taken_s in zip(features, seconds, strict=True):
            if taken_s > 0:
                self._rows.append(_summary(array))
                self._log2_s.append(float(np.log2(taken_s)))
        if len(self._rows) < LEAST_BUILDS:
            return
        data = xgb.DMatrix(np.stack(self._rows), label=np.array(self._log2_s), nthread=1)
        settings = {"max_depth": 4, "eta": 0.2, "nthread": 1, "seed": self._seed, "objective": "reg:squarederror"}
        self._booster = xgb.train(settings, data, num_boost_round=N_TREES)


def _summary(features: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Sums and maxima over the stores, and their number: float64 [2 * n_columns + 1]."""
    rows = np.asarray(features, np.float64)
    return np.concatenate([rows.sum(axis=0), rows.max(axis=0), [float(len(rows))]])
