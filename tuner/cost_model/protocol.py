"""What the search needs of a cost model; the contract that every implementation keeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from tuner.cost_model.features import FloatArray

Features = Sequence[npt.NDArray[Any]]
"""Per candidate one float [n_stores, 164] array (tuner/cost_model/features.py)."""


class Model(Protocol):
    """Ranks candidates of one workload. tests/cost_model/test_contract.py holds for every implementation."""

    def predict(self, features: Features) -> FloatArray:
        """float64 [n] finite scores, higher is better; they compare within one workload only.

        Raises:
            ValueError: an array has another layout than [n_stores, 164].
        """

    def update(self, group: str, features: Features, latencies_s: Sequence[float | None]) -> dict[str, Any]:
        """Learns from one measured batch of workload `group`; never raises for a bad latency.

        Failed trials come as None (or not at all); None, NaN, infinite and non-positive latencies are skipped and
        counted. A batch without a usable latency leaves the model as it was.

        Returns:
            "n_used" and "n_skipped" of this batch, "n_total" candidates known, "fit_s" seconds spent. Where the batch
            could be ranked, also how well the model ranked it before it learned from it (tuner/cost_model/metrics.py).

        Raises:
            ValueError: lengths differ, or an array has another layout than [n_stores, 164].
        """

    def save(self, path: Path) -> None:
        """Writes the whole model to one file, at once or not at all.

        Raises:
            StorageError: the file can't be written.
        """

    def load(self, path: Path) -> None:
        """Becomes the model that was saved; the present one stays if that fails.

        Raises:
            StorageError: the file is missing, damaged, of another kind of model, or made for other features.
        """
