"""The learned cost model: XGBoost ranks pooled features, starting from the roofline prior as its base margin."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb

from tuner.cost_model import model_file
from tuner.cost_model.baselines import check_batch
from tuner.cost_model.dataset import Dataset, TrainingSet, tied_within_noise, usable
from tuner.cost_model.features import FloatArray
from tuner.cost_model.machine import MachineModel
from tuner.cost_model.metrics import ranking_metrics
from tuner.cost_model.pooling import N_POOLED, POOLED_VERSION, pool
from tuner.cost_model.protocol import Features
from tuner.errors import StorageError


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerConfig:
    """Sizes chosen so that a batch costs under 0.5 s with 1,000 records on one thread.

    More threads are slower wherever cores are shared: OpenMP's threads wait for each other, up to seconds a batch.
    A refit grows `refit_trees` trees on all data; it is due when the data grew by `refit_growth` since the last one.
    In between, each batch adds `warm_trees` trees fitted on all data.
    """

    refit_trees: int = 60
    warm_trees: int = 8
    refit_growth: float = 0.1
    max_depth: int = 6
    eta: float = 0.1
    pairs_per_candidate: int = 32

    def __post_init__(self) -> None:
        if min(self.refit_trees, self.warm_trees, self.max_depth, self.pairs_per_candidate) < 1:
            raise ValueError(f"counts must be at least 1, got {self}")
        if not (0 < self.eta <= 1 and self.refit_growth >= 0):
            raise ValueError(f"want 0 < eta <= 1 and refit_growth >= 0, got {self}")


class CostModel:
    """Before the first measurement it is the roofline prior; each batch moves it from there towards the data.

    The prior's log estimate is the base margin, so the trees learn only what it gets wrong, and where they know
    nothing the prior still decides. Same seed, thread count and sequence of calls: same scores.
    """

    def __init__(
        self,
        machine: MachineModel | None = None,
        *,
        seed: int = 0,
        n_threads: int = 1,
        config: RankerConfig | None = None,
    ) -> None:
        if n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {n_threads}")
        self.machine = machine or MachineModel()
        self.config = config or RankerConfig()
        self._seed = seed
        self._n_threads = n_threads
        self._data = Dataset()
        self._booster: xgb.Booster | None = None
        self._n_at_refit = 0

    @property
    def n_records(self) -> int:
        """Distinct candidates learned from."""
        return len(self._data)

    def predict(self, features: Features) -> FloatArray:
        pooled, log_prior = pool(features, self.machine)
        return self._score(pooled, log_prior)

    def update(self, group: str, features: Features, latencies_s: Sequence[float | None]) -> dict[str, Any]:
        check_batch(features, latencies_s)
        start = time.perf_counter()
        keep, latency_s = usable(latencies_s)
        pooled, log_prior = pool([features[i] for i in keep], self.machine)
        metrics: dict[str, Any] = {}
        if len(keep) >= 2:
            metrics = ranking_metrics(self._score(pooled, log_prior), latency_s)
        n_new = self._data.add(group, pooled, log_prior, latency_s)
        if keep:
            self._fit()
        return {
            "n_used": len(keep),
            "n_skipped": len(latencies_s) - len(keep),
            "n_duplicate": len(keep) - n_new,
            "n_total": self.n_records,
            "n_trees": 0 if self._booster is None else self._booster.num_boosted_rounds(),
            "fit_s": time.perf_counter() - start,
            **metrics,
        }

    def save(self, path: Path) -> None:
        header = {"machine": asdict(self.machine), "n_at_refit": self._n_at_refit, "groups": self._data.group_names()}
        arrays = self._data.to_arrays()
        if self._booster is not None:
            arrays["booster"] = np.frombuffer(self._booster.save_raw("ubj"), dtype=np.uint8)
        model_file.write(path, "xgboost", POOLED_VERSION, header, arrays)

    def load(self, path: Path) -> None:
        """The seed, thread count and config stay this object's own; machine, data and trees come from the file."""
        header, arrays = model_file.read(path, "xgboost", POOLED_VERSION)
        try:
            machine = MachineModel.from_dict(header["machine"])
            n_at_refit = int(header["n_at_refit"])
            data = Dataset.from_arrays(header["groups"], arrays)
            booster = None
            if "booster" in arrays:
                booster = xgb.Booster(self._parameters())
                booster.load_model(bytearray(arrays["booster"].tobytes()))
                booster.set_param(self._parameters())
                if booster.num_features() != N_POOLED:
                    raise ValueError(f"trees for {booster.num_features()} features")
        except (KeyError, ValueError, TypeError, xgb.core.XGBoostError) as error:
            raise StorageError(f"{path} is damaged; delete it to start afresh") from error
        self.machine, self._n_at_refit, self._data, self._booster = machine, n_at_refit, data, booster

    def _score(self, pooled: Any, log_prior: FloatArray) -> FloatArray:
        if self._booster is None or log_prior.size == 0:
            return -log_prior
        matrix = xgb.DMatrix(pooled, base_margin=-log_prior, nthread=self._n_threads)
        return np.asarray(self._booster.predict(matrix, output_margin=True), dtype=np.float64)

    def _fit(self) -> None:
        training = self._data.training_set()
        if training is None:
            return
        booster = self._booster
        refit = booster is None or len(self._data) >= (1.0 + self.config.refit_growth) * self._n_at_refit
        n_trees = self.config.refit_trees if refit else self.config.warm_trees
        # XGBoost reseeds only where the seed changes; else what a batch draws would depend on what ran before it.
        n_grown = 0 if refit or booster is None else booster.num_boosted_rounds()
        self._booster = xgb.train(
            {**self._parameters(), "seed": self._seed + n_grown},
            self._matrix(training),
            num_boost_round=n_trees,
            xgb_model=None if refit else booster,
        )
        if refit:
            self._n_at_refit = len(self._data)

    def _matrix(self, training: TrainingSet) -> xgb.DMatrix:
        label = tied_within_noise(training.score)
        matrix = xgb.DMatrix(training.pooled, label=label, base_margin=-training.log_prior, nthread=self._n_threads)
        matrix.set_group(training.sizes)
        return matrix

    def _parameters(self) -> dict[str, Any]:
        return {
            "objective": "rank:pairwise",
            "lambdarank_pair_method": "mean",
            "lambdarank_num_pair_per_sample": self.config.pairs_per_candidate,
            "tree_method": "hist",
            "max_bin": 64,
            "max_depth": self.config.max_depth,
            "eta": self.config.eta,
            "subsample": 0.8,
            "colsample_bynode": 0.5,
            "base_score": 0.0,
            "nthread": self._n_threads,
            "seed": self._seed,
            "verbosity": 0,
        }
