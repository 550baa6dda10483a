"""The two models that never learn: random order, and the roofline prior alone. For ablations and first batches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tuner.cost_model import model_file
from tuner.cost_model.dataset import usable
from tuner.cost_model.features import FEATURE_VERSION, FloatArray, as_rows
from tuner.cost_model.metrics import ranking_metrics
from tuner.cost_model.prior import MachineModel, estimate_many_s
from tuner.cost_model.protocol import Features
from tuner.errors import StorageError


def check_batch(features: Features, latencies_s: Sequence[float | None]) -> None:
    """Raises ValueError where a batch's lengths differ or an array has another layout."""
    if len(features) != len(latencies_s):
        raise ValueError(f"want one latency per candidate, got {len(latencies_s)} for {len(features)}")
    for array in features:
        as_rows(array)


class RandomModel:
    """Ranks at random, repeatably for one seed and sequence of calls."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._n_total = 0

    def predict(self, features: Features) -> FloatArray:
        for array in features:
            as_rows(array)
        return self._rng.random(len(features))

    def update(self, group: str, features: Features, latencies_s: Sequence[float | None]) -> dict[str, Any]:
        """Counts only: there is no order of its own to judge."""
        check_batch(features, latencies_s)
        n_used = len(usable(latencies_s)[0])
        self._n_total += n_used
        return {"n_used": n_used, "n_skipped": len(latencies_s) - n_used, "n_total": self._n_total, "fit_s": 0.0}

    def save(self, path: Path) -> None:
        header = {"state": self._rng.bit_generator.state, "n_total": self._n_total}
        model_file.write(path, "random", FEATURE_VERSION, header, {})

    def load(self, path: Path) -> None:
        header, _ = model_file.read(path, "random", FEATURE_VERSION)
        rng = np.random.default_rng()
        try:
            rng.bit_generator.state = header["state"]
            n_total = int(header["n_total"])
        except (KeyError, ValueError, TypeError) as error:
            raise StorageError(f"{path} is damaged; delete it to start afresh") from error
        self._rng, self._n_total = rng, n_total


class PriorModel:
    """Ranks by the analytic roofline estimate; what it measures is counted and judged, not learned."""

    def __init__(self, machine: MachineModel | None = None) -> None:
        self.machine = machine or MachineModel()
        self._n_total = 0

    def predict(self, features: Features) -> FloatArray:
        return np.asarray(-np.log(estimate_many_s(features, self.machine)), dtype=np.float64)

    def update(self, group: str, features: Features, latencies_s: Sequence[float | None]) -> dict[str, Any]:
        check_batch(features, latencies_s)
        start = time.perf_counter()
        keep, latency_s = usable(latencies_s)
        metrics: dict[str, Any] = {}
        if len(keep) >= 2:
            metrics = ranking_metrics(self.predict([features[i] for i in keep]), latency_s)
        self._n_total += len(keep)
        return {
            "n_used": len(keep),
            "n_skipped": len(latencies_s) - len(keep),
            "n_total": self._n_total,
            "fit_s": time.perf_counter() - start,
            **metrics,
        }

    def save(self, path: Path) -> None:
        header = {"machine": asdict(self.machine), "n_total": self._n_total}
        model_file.write(path, "prior", FEATURE_VERSION, header, {})

    def load(self, path: Path) -> None:
        header, _ = model_file.read(path, "prior", FEATURE_VERSION)
        try:
            machine, n_total = MachineModel.from_dict(header["machine"]), int(header["n_total"])
        except (KeyError, ValueError, TypeError) as error:
            raise StorageError(f"{path} is damaged; delete it to start afresh") from error
        self.machine, self._n_total = machine, n_total
