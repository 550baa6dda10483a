"""What the roofline prior knows of a machine: few numbers, measured ones where there are any."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tuner.targets.peaks import Roofline

_LEVELS = ("L1d", "L2", "L3")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineModel:
    """Rates are for all `n_cores` together, cache sizes for one core's share, from the first level outwards.

    `memory_bytes_per_s` is the rate of what lies behind the last cache. The defaults are two plain AVX2 cores;
    `machine_model` puts measured numbers in their place.
    """

    n_cores: int = 2
    peak_flop_per_s: float = 1e11
    memory_bytes_per_s: float = 2e10
    cache_bytes: tuple[float, ...] = (32e3, 1e6, 8e6)
    cache_bytes_per_s: tuple[float, ...] = (4e11, 1.5e11, 6e10)
    vector_bytes: int = 32
    n_vector_registers: int = 16
    parallel_launch_s: float = 5e-6

    def __post_init__(self) -> None:
        numbers = (self.peak_flop_per_s, self.memory_bytes_per_s, *self.cache_bytes, *self.cache_bytes_per_s)
        if self.n_cores < 1 or self.vector_bytes < 4 or self.n_vector_registers < 1:
            raise ValueError(f"need n_cores >= 1, vector_bytes >= 4, n_vector_registers >= 1, got {self}")
        if not all(math.isfinite(x) and x > 0 for x in numbers) or not 0 <= self.parallel_launch_s < math.inf:
            raise ValueError(f"rates and sizes must be finite and positive, got {self}")
        if not self.cache_bytes or len(self.cache_bytes) != len(self.cache_bytes_per_s):
            raise ValueError(f"cache_bytes and cache_bytes_per_s need one entry per level, got {self}")

    @property
    def refill_bytes_per_s(self) -> tuple[float, ...]:
        """By cache, the rate at which what misses in it arrives: the next level's, at last main memory's."""
        return (*self.cache_bytes_per_s[1:], self.memory_bytes_per_s)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MachineModel:
        """The inverse of dataclasses.asdict, also after JSON; ValueError or TypeError if it does not fit."""
        levels: dict[str, Any] = {n: tuple(data[n]) for n in ("cache_bytes", "cache_bytes_per_s") if n in data}
        return cls(**{**data, **levels})


def machine_model(roofline: Roofline, isa: Collection[str], dtype: str = "float32") -> MachineModel:
    """From measured peaks; `isa` has LLVM's feature names (Target.isa), `dtype` is the one that is multiplied."""
    caches = [roofline.caches[name] for name in _LEVELS if roofline.caches.get(name)]
    if not caches:
        caches = [int(size) * roofline.n_threads for size in MachineModel().cache_bytes]
    wide = "avx512f" in isa
    return MachineModel(
        n_cores=roofline.n_threads,
        peak_flop_per_s=roofline.peak_flop_per_s(dtype),
        memory_bytes_per_s=roofline.bytes_per_s(4 * caches[-1]),
        cache_bytes=tuple(size / roofline.n_threads for size in caches),
        cache_bytes_per_s=tuple(roofline.bytes_per_s(size) for size in caches),
        vector_bytes=64 if wide else 32 if "avx" in isa else 16,
        n_vector_registers=32 if wide or "neon" in isa else 16,
    )
