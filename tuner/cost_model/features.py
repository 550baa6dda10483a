"""The layout of MetaSchedule's per-store features: column names, groups, and arrays checked at the border.

One candidate is a float [n_stores, 164] array, one row per written buffer (several stores to one buffer: the last
wins; stores of constants are left out). Layout and meaning: TVM 0.27, per_store_feature.cc. Counts and sizes are
stored as log2(x + 1) for x >= 0, mirrored for x < 0; `unlog` undoes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

FEATURE_VERSION = "per-store/tvm-0.27/164"
N_BUFFERS = 5
N_CURVE = 10

_OPS = ("mad", "add_sub", "mul", "div_mod", "cmp", "math_func", "other_func")
_ARITHMETIC = (*(f"float_{o}" for o in _OPS), *(f"int_{o}" for o in _OPS), "bool_op", "select_op")
_POSITIONS = (
    "none",
    "inner_spatial",
    "middle_spatial",
    "outer_spatial",
    "inner_reduce",
    "middle_reduce",
    "outer_reduce",
    "mixed",
)
_LOOP_KINDS = ("vectorize", "unroll", "parallel")
_LOOP_KIND = ("num", "prod", "len", *(f"pos_{p}" for p in _POSITIONS))
_THREADS = (
    "is_gpu",
    *(f"blockIdx_{a}_len" for a in "xyz"),
    *(f"threadIdx_{a}_len" for a in "xyz"),
    "vthread_len",
)
BUFFER_FIELDS = (
    "is_read",
    "is_write",
    "is_read_write",
    "bytes",
    "unique_bytes",
    "lines",
    "unique_lines",
    "reuse_loop",
    "reuse_serial",
    "reuse_none",
    "reuse_dis_iter",
    "reuse_dis_bytes",
    "reuse_ct",
    "bytes_d_reuse_ct",
    "unique_bytes_d_reuse_ct",
    "lines_d_reuse_ct",
    "unique_lines_d_reuse_ct",
    "stride",
)
_ALLOCATION = ("alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_ratio")
_NEST = ("outer_prod", "num_loops", "auto_unroll_max_step")

COLUMNS: tuple[str, ...] = (
    *_ARITHMETIC,
    *(f"{kind}.{field}" for kind in _LOOP_KINDS for field in _LOOP_KIND),
    *_THREADS,
    *(f"buffer{i}.{field}" for i in range(N_BUFFERS) for field in BUFFER_FIELDS),
    *(f"intensity{i}" for i in range(N_CURVE)),
    *_ALLOCATION,
    *_NEST,
)
"""Names by position. `buffer0` is the buffer of the store that touches most cache lines."""

N_COLUMNS = len(COLUMNS)


def _groups() -> dict[str, slice]:
    sizes = {"arithmetic": len(_ARITHMETIC)}
    sizes |= {kind: len(_LOOP_KIND) for kind in _LOOP_KINDS}
    sizes |= {"threads": len(_THREADS)}
    sizes |= {f"buffer{i}": len(BUFFER_FIELDS) for i in range(N_BUFFERS)}
    sizes |= {"intensity": N_CURVE, "allocation": len(_ALLOCATION), "nest": len(_NEST)}
    groups, start = {}, 0
    for name, size in sizes.items():
        groups[name] = slice(start, start + size)
        start += size
    return groups


GROUPS: dict[str, slice] = _groups()
_POSITION_OF = {name: i for i, name in enumerate(COLUMNS)}
_LINEAR = frozenset(
    i
    for i, name in enumerate(COLUMNS)
    if ".pos_" in name or name.rsplit(".", 1)[-1].startswith(("is_", "reuse_loop", "reuse_serial", "reuse_none"))
)
IS_LOG: npt.NDArray[np.bool_] = np.array([i not in _LINEAR for i in range(N_COLUMNS)])
"""[164] True where the column is log2-scaled, False where it is a 0/1 flag."""


def column(name: str) -> int:
    """Index of a column, e.g. column("vectorize.len"); KeyError if there is none by that name."""
    return _POSITION_OF[name]


def unlog(value: FloatArray) -> FloatArray:
    """Undoes TVM's scaling sign(x) * log2(|x| + 1); what would overflow is capped at 2**200."""
    return np.sign(value) * (np.exp2(np.minimum(np.abs(value), 200.0)) - 1.0)


def as_rows(features: npt.NDArray[Any]) -> FloatArray:
    """One candidate's features as float64 [n_stores, 164], with non-finite entries set to 0.

    A candidate that writes only constants has no rows; that is allowed.

    Raises:
        ValueError: another shape, as from another feature extractor or TVM version.
    """
    rows = np.asarray(features, dtype=np.float64)
    if rows.size == 0:
        return np.zeros((0, N_COLUMNS))
    if rows.ndim != 2 or rows.shape[1] != N_COLUMNS:
        raise ValueError(f"want features [n_stores, {N_COLUMNS}] ({FEATURE_VERSION}), got {rows.shape}")
    return np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
