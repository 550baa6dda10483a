"""What the ranker learns from: measured candidates by workload, with labels that compare across workloads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.cost_model.features import FloatArray
from tuner.cost_model.pooling import N_POOLED

Pooled = npt.NDArray[np.float32]

NOISE = 0.05
"""Relative difference of latencies below which an order means nothing."""


def throughput_scores(latency_s: FloatArray) -> FloatArray:
    """[n] scores in (0, 1] of one workload's latencies: 1 is its fastest, 0.5 takes twice as long.

    Raises:
        ValueError: a latency is not finite and positive. Failures must never come this far.
    """
    if latency_s.size == 0:
        return latency_s.astype(np.float64)
    if not (np.isfinite(latency_s).all() and (latency_s > 0).all()):
        raise ValueError("latencies must be finite and positive")
    return np.asarray(latency_s.min() / latency_s, dtype=np.float64)


def tied_within_noise(score: FloatArray) -> FloatArray:
    """[n] scores rounded to steps of 5 %: a ranking objective would learn the order of near ties, which is noise."""
    return np.asarray(np.exp(np.round(np.log(score) / NOISE) * NOISE), dtype=np.float64)


def usable(latencies_s: Sequence[float | None]) -> tuple[list[int], FloatArray]:
    """Positions and values [n_usable] of the latencies that may train: finite and positive. None is a failed trial."""
    kept = [(i, float(s)) for i, s in enumerate(latencies_s) if s is not None and math.isfinite(s) and s > 0]
    return [i for i, _ in kept], np.array([s for _, s in kept], dtype=np.float64)


@dataclass(slots=True)
class Group:
    """One workload's distinct candidates, in the order they came.

    Where two candidates have the same features, the faster measurement stands: noise only ever slows a kernel.
    """

    pooled: list[Pooled] = field(default_factory=list)
    log_prior: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    position: dict[bytes, int] = field(default_factory=dict)

    def add(self, vector: Pooled, log_prior: float, latency_s: float) -> bool:
        """Returns False for a duplicate."""
        key = vector.tobytes()
        if (known := self.position.get(key)) is not None:
            self.latency_s[known] = min(self.latency_s[known], latency_s)
            return False
        self.position[key] = len(self.latency_s)
        self.pooled.append(vector)
        self.log_prior.append(log_prior)
        self.latency_s.append(latency_s)
        return True


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Rows sorted by group: pooled [n, N_POOLED], log_prior [n], score [n] in (0, 1], sizes [n_groups]."""

    pooled: Pooled
    log_prior: FloatArray
    score: FloatArray
    sizes: npt.NDArray[np.int64]


class Dataset:
    """Measured candidates by group key (the workload's key). Holds no failures."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return sum(len(g.latency_s) for g in self._groups.values())

    def __iter__(self) -> Iterator[tuple[str, Group]]:
        return iter(self._groups.items())

    def add(self, group: str, pooled: Pooled, log_prior: FloatArray, latency_s: FloatArray) -> int:
        """Adds one batch of usable latencies; returns how many candidates were new.

        Raises:
            ValueError: a latency is not finite and positive; nothing is added.
        """
        throughput_scores(latency_s)
        if latency_s.size == 0:
            return 0
        target = self._groups.setdefault(group, Group())
        return sum(
            target.add(vector, float(prior), float(seconds))
            for vector, prior, seconds in zip(pooled, log_prior, latency_s, strict=True)
        )

    def training_set(self) -> TrainingSet | None:
        """All groups with at least two candidates (one alone ranks nothing); None if there is none."""
        groups = [g for g in self._groups.values() if len(g.latency_s) >= 2]
        if not groups:
            return None
        return TrainingSet(
            pooled=np.concatenate([np.stack(g.pooled) for g in groups]),
            log_prior=np.concatenate([np.array(g.log_prior) for g in groups]),
            score=np.concatenate([throughput_scores(np.array(g.latency_s)) for g in groups]),
            sizes=np.array([len(g.latency_s) for g in groups], dtype=np.int64),
        )

    def group_names(self) -> list[str]:
        return list(self._groups)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays, groups one after the other in the order of `group_names`."""
        groups = list(self._groups.values())
        vectors = [v for g in groups for v in g.pooled]
        return {
            "sizes": np.array([len(g.latency_s) for g in groups], dtype=np.int64),
            "pooled": np.stack(vectors) if vectors else np.zeros((0, N_POOLED), dtype=np.float32),
            "log_prior": np.array([p for g in groups for p in g.log_prior], dtype=np.float64),
            "latency_s": np.array([s for g in groups for s in g.latency_s], dtype=np.float64),
        }

    @classmethod
    def from_arrays(cls, names: Sequence[str], arrays: dict[str, npt.NDArray[Any]]) -> Dataset:
        """The inverse of `to_arrays`; ValueError or KeyError where the arrays don't fit together."""
        sizes, pooled = arrays["sizes"], arrays["pooled"].astype(np.float32)
        log_prior, latency_s = arrays["log_prior"], arrays["latency_s"]
        n = int(sizes.sum())
        if len(names) != sizes.size or pooled.shape != (n, N_POOLED) or {log_prior.shape, latency_s.shape} != {(n,)}:
            raise ValueError("arrays don't fit together")
        data, start = cls(), 0
        for name, size in zip(names, sizes, strict=True):
            part = slice(start, start + int(size))
            data.add(str(name), pooled[part], log_prior[part], latency_s[part])
            start += int(size)
        return data
