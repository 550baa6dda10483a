"""An analytic roofline estimate in seconds from per-store features alone: ranks before the first measurement.

Coarse on purpose: it must know that vectors beat scalars, all cores beat one, and cache-sized tiles beat streaming.
What it gets wrong the trained model corrects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.cost_model.features import GROUPS, N_BUFFERS, FloatArray, as_rows, column, unlog

_FLOAT_OP_COST = {
    "float_mad": 1.0,
    "float_add_sub": 1.0,
    "float_mul": 1.0,
    "float_cmp": 1.0,
    "float_div_mod": 8.0,
    "float_math_func": 40.0,
    "float_other_func": 40.0,
    "select_op": 1.0,
}
"""In units of one vectorisable flop. Math functions are scalar libm calls in TVM's LLVM code (never vectorised)."""
_INT_OP_COST = {"int_mul": 0.25, "int_add_sub": 0.25, "int_cmp": 0.25, "int_div_mod": 2.0, "bool_op": 0.5}
"""Mostly index arithmetic, which the compiler hoists out of inner loops."""
_SCALAR_CALLS = ("float_math_func", "float_other_func")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineModel:
    """What the prior knows of a machine. Rates are for all `n_cores` together, cache sizes for one core's share.

    `cache_bytes` and `cache_bytes_per_s` go from the first level outwards; `memory_bytes_per_s` lies behind the last.
    The defaults are a plain AVX2 core pair; a measured peak and bandwidth (tuner/targets) should replace them.
    """

    n_cores: int = 2
    peak_flop_per_s: float = 1e11
    memory_bytes_per_s: float = 2e10
    cache_bytes: tuple[float, ...] = (32e3, 1e6)
    cache_bytes_per_s: tuple[float, ...] = (4e11, 1.5e11)
    vector_bytes: int = 32
    n_vector_registers: int = 16
    parallel_launch_s: float = 5e-6

    def __post_init__(self) -> None:
        rates = (self.peak_flop_per_s, self.memory_bytes_per_s, *self.cache_bytes, *self.cache_bytes_per_s)
        if self.n_cores < 1 or self.vector_bytes < 4 or self.n_vector_registers < 1:
            raise ValueError(f"need n_cores >= 1, vector_bytes >= 4, n_vector_registers >= 1, got {self}")
        if not all(np.isfinite(r) and r > 0 for r in rates) or self.parallel_launch_s < 0:
            raise ValueError(f"rates and sizes must be finite and positive, got {self}")
        if len(self.cache_bytes) != len(self.cache_bytes_per_s):
            raise ValueError("cache_bytes and cache_bytes_per_s must have one entry per level")

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MachineModel:
        """The inverse of dataclasses.asdict, also after JSON; ValueError or TypeError if it does not fit."""
        levels: dict[str, Any] = {n: tuple(data[n]) for n in ("cache_bytes", "cache_bytes_per_s") if n in data}
        return cls(**{**data, **levels})


@dataclass(frozen=True, slots=True)
class StoreEstimate:
    """Seconds by store, each float64 [n_stores]. `total_s` = max(compute_s, memory_s) + launch_s."""

    compute_s: FloatArray
    memory_s: FloatArray
    launch_s: FloatArray

    @property
    def total_s(self) -> FloatArray:
        return np.maximum(self.compute_s, self.memory_s) + self.launch_s


class _Columns:
    """De-logged columns of one candidate's rows by name."""

    def __init__(self, rows: FloatArray) -> None:
        self.rows = rows
        self.plain = unlog(rows)

    def __getitem__(self, name: str) -> FloatArray:
        return self.plain[:, column(name)]

    def flag(self, name: str) -> npt.NDArray[np.bool_]:
        flags: npt.NDArray[np.bool_] = self.rows[:, column(name)] > 0.5
        return flags


def estimate_stores(features: npt.NDArray[Any], machine: MachineModel) -> StoreEstimate:
    """Estimates each store of one candidate on its own; a candidate's stages run one after the other."""
    rows = as_rows(features)
    if rows.shape[0] == 0:
        empty = np.zeros(0)
        return StoreEstimate(empty, empty, empty)
    cols = _Columns(rows)
    cores_used = _cores_used(cols, machine)
    share = cores_used / machine.n_cores
    launch_s = np.where(cols["parallel.num"] > 0, machine.parallel_launch_s, 0.0)
    return StoreEstimate(
        compute_s=_compute_s(cols, machine) / share,
        memory_s=_memory_s(cols, machine, share),
        launch_s=launch_s,
    )


def _cores_used(cols: _Columns, machine: MachineModel) -> FloatArray:
    """Average number of busy cores when `parallel.prod` equal chunks are dealt to the cores."""
    chunks = np.maximum(cols["parallel.prod"], 1.0)
    return np.asarray(chunks / np.ceil(chunks / machine.n_cores), dtype=np.float64)


def _element_bytes(cols: _Columns) -> FloatArray:
    """Bytes per element of the most-touched buffer: its bytes count one access per innermost iteration."""
    return np.clip(cols["buffer0.bytes"] / np.maximum(cols["outer_prod"], 1.0), 1.0, 8.0)


def _lanes(cols: _Columns, machine: MachineModel) -> FloatArray:
    return np.maximum(machine.vector_bytes / np.maximum(_element_bytes(cols), 1.0), 1.0)


def _compute_s(cols: _Columns, machine: MachineModel) -> FloatArray:
    """Seconds with all cores busy: op counts over the peak, scaled by how much of the vector units is used."""
    lanes = _lanes(cols, machine)
    vector_len = np.where(cols["vectorize.num"] > 0, np.maximum(cols["vectorize.len"], 1.0), 1.0)
    used_lanes = vector_len / np.ceil(vector_len / lanes)  # a vector of 20 needs two registers of 16
    scalar_rate = machine.peak_flop_per_s / lanes  # flop/s of all cores without vectors
    vector_ops = np.zeros(cols.rows.shape[0])
    scalar_ops = np.zeros(cols.rows.shape[0])
    for table in (_FLOAT_OP_COST, _INT_OP_COST):
        for name, cost in table.items():
            target = scalar_ops if name in _SCALAR_CALLS else vector_ops
            target += cost * cols[name]
    vector_ops = np.maximum(vector_ops, cols["outer_prod"])  # a plain copy still issues one move per element
    in_flight = _accumulators_in_flight(cols) / np.maximum(used_lanes, 1.0)
    chains = np.clip(in_flight / 8.0, 1.0 / 8.0, 1.0)  # FMA latency 4 cycles x 2 ports hides behind 8 chains
    loop_overhead = np.where(cols["auto_unroll_max_step"] + cols["unroll.num"] > 0, 1.0, 1.15)
    return np.asarray(
        (vector_ops / (scalar_rate * used_lanes * chains) + scalar_ops / scalar_rate) * loop_overhead, dtype=np.float64
    )


def _accumulators_in_flight(cols: _Columns) -> FloatArray:
    """Independent accumulations under the reduction loop; plenty (1e9) where nothing is accumulated."""
    found = np.full(cols.rows.shape[0], 1e9)
    for i in range(N_BUFFERS):
        accumulates = cols.flag(f"buffer{i}.is_read_write") & cols.flag(f"buffer{i}.reuse_loop")
        found = np.where(accumulates, np.maximum(cols[f"buffer{i}.reuse_dis_iter"], 1.0), found)
    return found


def _memory_s(cols: _Columns, machine: MachineModel, share: FloatArray) -> FloatArray:
    """The slowest level's traffic over its bandwidth."""
    worst = _traffic_bytes(cols, _register_bytes(machine)) / (machine.cache_bytes_per_s[0] * share)
    behind = (*machine.cache_bytes_per_s[1:], machine.memory_bytes_per_s)
    for capacity, rate in zip(machine.cache_bytes, behind, strict=True):
        level_share = share if rate is not machine.memory_bytes_per_s else np.sqrt(share)
        worst = np.maximum(worst, _traffic_bytes(cols, capacity) / (rate * level_share))
    return worst


def _register_bytes(machine: MachineModel) -> float:
    return float(machine.vector_bytes * machine.n_vector_registers)


def _traffic_bytes(cols: _Columns, capacity: float) -> FloatArray:
    """Bytes that cross the border of a memory of `capacity` bytes, by store.

    The larger loops are judged by the intensity curve: the biggest loop nest whose footprint fits is loaded once each
    time it runs. Tiles too small for the curve are judged by each buffer's innermost reuse: if what lies between two
    uses fits, a reuse costs nothing.
    """
    by_buffer = np.zeros(cols.rows.shape[0])
    unique = np.zeros(cols.rows.shape[0])
    for i in range(N_BUFFERS):
        moved = np.minimum(cols[f"buffer{i}.bytes"], 64.0 * cols[f"buffer{i}.lines"])
        moved = np.maximum(moved, cols[f"buffer{i}.unique_bytes"])
        fits = cols.flag(f"buffer{i}.reuse_loop") & (cols[f"buffer{i}.reuse_dis_bytes"] <= capacity)
        reuse = np.where(fits, np.maximum(cols[f"buffer{i}.reuse_ct"], 1.0), 1.0)
        writes = np.where(cols.flag(f"buffer{i}.is_read_write"), 2.0, 1.0)
        by_buffer += writes * np.maximum(moved / reuse, cols[f"buffer{i}.unique_bytes"])
        unique += cols[f"buffer{i}.unique_bytes"]
    flop = sum((cols[name] for name in _FLOAT_OP_COST if name != "select_op"), np.zeros(cols.rows.shape[0]))
    intensity = np.maximum(cols.plain[:, GROUPS["intensity"]], 1e-9)  # flop per byte, by tenth of the work
    tenths = np.arange(1, intensity.shape[1] + 1) / intensity.shape[1]
    footprint = flop[:, None] * tenths / intensity
    by_tile = np.where((footprint <= capacity) & (flop[:, None] > 0), flop[:, None] / intensity, np.inf).min(axis=1)
    compulsory = np.where(unique > capacity, unique, 0.0)
    return np.asarray(np.maximum(np.minimum(by_buffer, by_tile), compulsory), dtype=np.float64)


def estimate_s(features: npt.NDArray[Any], machine: MachineModel) -> float:
    """Estimated seconds per call of one candidate; a nanosecond where nothing is written."""
    return max(float(estimate_stores(features, machine).total_s.sum()), 1e-9)


def estimate_many_s(features: Sequence[npt.NDArray[Any]], machine: MachineModel) -> FloatArray:
    """float64 [n] estimated seconds, one per candidate."""
    if not features:
        return np.zeros(0)
    arrays = [as_rows(f) for f in features]
    counts = [a.shape[0] for a in arrays]
    per_row = estimate_stores(np.concatenate(arrays), machine).total_s
    owner = np.repeat(np.arange(len(arrays)), counts)
    return np.maximum(np.bincount(owner, weights=per_row, minlength=len(arrays)), 1e-9)
