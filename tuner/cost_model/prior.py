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
    "float_math_func": 16.0,
    "float_other_func": 16.0,
    "select_op": 1.0,
}
"""In units of one flop. Math functions are scalar libm calls in TVM's LLVM code, never vectorised."""
_SCALAR_CALLS = ("float_math_func", "float_other_func")
_INT_OP_COST = {"int_mul": 1.0, "int_add_sub": 1.0, "int_cmp": 1.0, "int_div_mod": 8.0, "bool_op": 1.0}
_INDEX_SHARE = 0.02
"""Beside float work integer ops are index arithmetic, which is hoisted; alone (int8, bfloat16) they are the work."""
_LINE_BYTES = 64.0
_LOOP_OVERHEAD = 1.1
_LATENCY_CHAINS = 8.0
"""FMA latency of 4 cycles on 2 ports: with fewer independent accumulations than this the units idle."""
_OUT_OF_ORDER_OPS = 128.0
"""Vector operations a core looks ahead: a reduction shorter than this overlaps with the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineModel:
    """What the prior knows of a machine. Rates are for all `n_cores` together, cache sizes for one core's share.

    `cache_bytes` and `cache_bytes_per_s` go from the first level outwards; `memory_bytes_per_s` lies behind the last.
    The defaults are a plain AVX2 core pair; a measured peak and bandwidth (tuner/targets) should replace them.
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
        rates = (self.peak_flop_per_s, self.memory_bytes_per_s, *self.cache_bytes, *self.cache_bytes_per_s)
        if self.n_cores < 1 or self.vector_bytes < 4 or self.n_vector_registers < 1:
            raise ValueError(f"need n_cores >= 1, vector_bytes >= 4, n_vector_registers >= 1, got {self}")
        if not all(np.isfinite(r) and r > 0 for r in rates) or self.parallel_launch_s < 0:
            raise ValueError(f"rates and sizes must be finite and positive, got {self}")
        if not self.cache_bytes or len(self.cache_bytes) != len(self.cache_bytes_per_s):
            raise ValueError("cache_bytes and cache_bytes_per_s must have one entry per level")

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MachineModel:
        """The inverse of dataclasses.asdict, also after JSON; ValueError or TypeError if it does not fit."""
        levels: dict[str, Any] = {n: tuple(data[n]) for n in ("cache_bytes", "cache_bytes_per_s") if n in data}
        return cls(**{**data, **levels})


@dataclass(frozen=True, slots=True)
class StoreEstimate:
    """Seconds by store, float64 [n_stores] each; `traffic_s` is [n_stores, n_levels], the first level first."""

    arithmetic_s: FloatArray
    access_s: FloatArray
    traffic_s: FloatArray
    launch_s: FloatArray

    @property
    def total_s(self) -> FloatArray:
        """The roofline: the slowest of arithmetic, load ports and each level's traffic; then the launch."""
        busiest = np.maximum(np.maximum(self.arithmetic_s, self.access_s), self.traffic_s.max(axis=1))
        return np.asarray(busiest + self.launch_s, dtype=np.float64)


class _Columns:
    """De-logged columns of one candidate's rows by name."""

    def __init__(self, rows: FloatArray) -> None:
        self.rows = rows
        self.n = rows.shape[0]
        self.plain = np.abs(unlog(rows))  # only a stride can be negative

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
        return StoreEstimate(empty, empty, np.zeros((0, len(machine.cache_bytes))), empty)
    cols = _Columns(rows)
    cores_used = _cores_used(cols, machine)
    share = cores_used / machine.n_cores
    overhead = np.where(cols["auto_unroll_max_step"] + cols["unroll.num"] > 0, 1.0, _LOOP_OVERHEAD)
    arithmetic_s, access_s = _compute_s(cols, machine)
    return StoreEstimate(
        arithmetic_s=arithmetic_s * overhead / share,
        access_s=access_s * overhead / share,
        traffic_s=_traffic_s(cols, machine, share),
        launch_s=np.where(cols["parallel.num"] > 0, machine.parallel_launch_s, 0.0),
    )


def _cores_used(cols: _Columns, machine: MachineModel) -> FloatArray:
    """Average number of busy cores when `parallel.prod` equal chunks are dealt to the cores."""
    chunks = np.maximum(cols["parallel.prod"], 1.0)
    return np.asarray(chunks / np.ceil(chunks / machine.n_cores), dtype=np.float64)


def _element_bytes(cols: _Columns) -> FloatArray:
    """Bytes per element of the most-touched buffer: its bytes count one access per innermost iteration."""
    return np.clip(cols["buffer0.bytes"] / np.maximum(cols["outer_prod"], 1.0), 1.0, 8.0)


def _used_lanes(cols: _Columns, lanes: FloatArray) -> FloatArray:
    """Elements per vector operation. A vector of 20 on 16 lanes needs two operations, so it uses 10.

    Without a vectorised loop LLVM still vectorises part of the plain loops that accumulate nothing.
    """
    vectorised = cols["vectorize.num"] > 0
    length = np.maximum(cols["vectorize.len"], 1.0)
    plain = np.where(_accumulation(cols)[0] == np.inf, lanes / 2.0, 1.0)
    return np.asarray(np.where(vectorised, length / np.ceil(length / lanes), plain), dtype=np.float64)


def _accumulation(cols: _Columns) -> tuple[FloatArray, FloatArray]:
    """Independent accumulations under the innermost reduction loop, and its extent; (inf, 1) where there is none."""
    in_flight, extent = np.full(cols.n, np.inf), np.ones(cols.n)
    for i in range(N_BUFFERS):
        accumulates = cols.flag(f"buffer{i}.is_read_write") & cols.flag(f"buffer{i}.reuse_loop")
        in_flight = np.where(accumulates, np.maximum(cols[f"buffer{i}.reuse_dis_iter"], 1.0), in_flight)
        extent = np.where(accumulates, np.maximum(cols[f"buffer{i}.reuse_ct"], 1.0), extent)
    return in_flight, extent


def _compute_s(cols: _Columns, machine: MachineModel) -> tuple[FloatArray, FloatArray]:
    """Seconds with all cores busy: of the arithmetic units, and of the load ports.

    `peak_flop_per_s` is taken as two fused multiply-adds of full vectors per cycle, beside two vector loads.
    """
    lanes = np.maximum(machine.vector_bytes / _element_bytes(cols), 1.0)
    used = _used_lanes(cols, lanes)
    scalar_rate = machine.peak_flop_per_s / lanes  # flop/s of all cores without vectors
    has_float = sum((cols[name] for name in _FLOAT_OP_COST if name != "select_op"), np.zeros(cols.n)) > 0
    vector_ops = sum((cost * cols[n] for n, cost in _FLOAT_OP_COST.items() if n not in _SCALAR_CALLS), np.zeros(cols.n))
    int_ops = sum((cost * cols[n] for n, cost in _INT_OP_COST.items()), np.zeros(cols.n))
    vector_ops = vector_ops + np.where(has_float, _INDEX_SHARE, 1.0) * int_ops
    scalar_ops = sum((_FLOAT_OP_COST[n] * cols[n] for n in _SCALAR_CALLS), np.zeros(cols.n))
    in_flight, extent = _accumulation(cols)
    chains = np.maximum(in_flight / used, _OUT_OF_ORDER_OPS / extent)
    busy = np.clip(chains / _LATENCY_CHAINS, 1.0 / _LATENCY_CHAINS, 1.0)
    arithmetic_s = vector_ops / (scalar_rate * used * busy) + scalar_ops / scalar_rate
    access_s = _accesses(cols, used, machine) / (scalar_rate / 2.0)
    return np.asarray(arithmetic_s, dtype=np.float64), np.asarray(access_s, dtype=np.float64)


def _accesses(cols: _Columns, used_lanes: FloatArray, machine: MachineModel) -> FloatArray:
    """Load and store instructions of one call. What stays in registers between two uses is loaded once.

    Neighbouring elements come as one vector; with a stride each lane needs its own load.
    """
    total = np.zeros(cols.n)
    elements = np.maximum(cols["outer_prod"], 1.0)
    for i in range(N_BUFFERS):
        here = cols[f"buffer{i}.bytes"] > 0
        in_registers = cols[f"buffer{i}.reuse_dis_iter"] / used_lanes <= 0.75 * machine.n_vector_registers
        kept = cols.flag(f"buffer{i}.reuse_loop") & in_registers
        uses = np.where(kept, np.maximum(cols[f"buffer{i}.reuse_ct"], 1.0), 1.0)
        width = np.where(cols[f"buffer{i}.stride"] == 1, used_lanes, 1.0)
        load_and_store = np.where(cols.flag(f"buffer{i}.is_read_write"), 3.0, 1.0)
        total += np.where(here, load_and_store * elements / (uses * width), 0.0)
    return total


def _traffic_s(cols: _Columns, machine: MachineModel, share: FloatArray) -> FloatArray:
    """[n_stores, n_levels] seconds of each level's traffic. One core alone gets more than its share of the last one."""
    behind = (*machine.cache_bytes_per_s[1:], machine.memory_bytes_per_s)
    by_level = []
    for level, (capacity, rate) in enumerate(zip(machine.cache_bytes, behind, strict=True)):
        reached = share if level + 1 < len(behind) else np.sqrt(share)
        by_level.append(_traffic_bytes(cols, capacity) / (rate * reached))
    return np.stack(by_level, axis=1)


def _traffic_bytes(cols: _Columns, capacity: float) -> FloatArray:
    """Bytes that cross the border of a memory of `capacity` bytes, by store.

    The larger loops are judged by the intensity curve: the biggest loop nest whose footprint fits is loaded once each
    time it runs. Tiles too small for the curve are judged by each buffer's innermost reuse: if what lies between two
    uses fits, a reuse costs nothing. Strided accesses count halfway (geometrically) between a line for each element and
    perfect reuse of each line.
    """
    by_buffer = np.zeros(cols.n)
    unique = np.zeros(cols.n)
    for i in range(N_BUFFERS):
        by_line, by_element = _LINE_BYTES * cols[f"buffer{i}.lines"], cols[f"buffer{i}.bytes"]
        moved = np.where(by_line > by_element, np.sqrt(by_line * by_element), by_line)
        moved = np.maximum(moved, cols[f"buffer{i}.unique_bytes"])
        fits = cols.flag(f"buffer{i}.reuse_loop") & (cols[f"buffer{i}.reuse_dis_bytes"] <= capacity)
        reuse = np.where(fits, np.maximum(cols[f"buffer{i}.reuse_ct"], 1.0), 1.0)
        writes = np.where(cols.flag(f"buffer{i}.is_read_write"), 2.0, 1.0)
        by_buffer += writes * np.maximum(moved / reuse, cols[f"buffer{i}.unique_bytes"])
        unique += cols[f"buffer{i}.unique_bytes"]
    flop = sum((cols[name] for name in _FLOAT_OP_COST if name != "select_op"), np.zeros(cols.n))
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
