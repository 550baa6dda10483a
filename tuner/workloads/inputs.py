"""Draws input values that expose errors: no constants, the full range of integers, indices that stay within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tuner.errors import WorkloadError
from tuner.workloads.op_def import FLOAT_DTYPES, INT_RANGE, Array
from tuner.workloads.workload import ArgSpec

_CLIP = 6.0
"""Normal values beyond six sigma would dominate a sum; clipping keeps tolerances meaningful."""


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of a TVM dtype name; bfloat16 comes from ml_dtypes.

    Raises:
        WorkloadError: numpy has no such dtype.
    """
    if dtype == "bfloat16":
        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    if dtype in INT_RANGE or dtype in FLOAT_DTYPES:
        return np.dtype(dtype)
    raise WorkloadError(f"dtype {dtype!r} is not supported; use one of {', '.join((*FLOAT_DTYPES, *INT_RANGE))}")


def draw_inputs(args: Sequence[ArgSpec], rng: np.random.Generator) -> list[Array | np.generic | None]:
    """One value per argument, in call order: None for "out", a numpy scalar for "scalar", else a compact array.

    Floats are standard normal (within their bounds: uniform), integers uniform over the dtype or their bounds. The
    caller lays out strides. The same generator state gives the same values.
    """
    return [None if arg.role == "out" else _draw(arg, rng) for arg in args]


def _draw(arg: ArgSpec, rng: np.random.Generator) -> Array | np.generic:
    dtype = numpy_dtype(arg.dtype)
    if arg.dtype in INT_RANGE:
        values = _integers(arg, rng)
    elif arg.low is not None and arg.high is not None:
        values = rng.uniform(arg.low, arg.high, arg.shape)
    else:
        values = np.clip(rng.standard_normal(arg.shape), -_CLIP, _CLIP)
    drawn: Array = np.asarray(values).astype(dtype)
    return drawn[()] if arg.role == "scalar" else drawn


def _integers(arg: ArgSpec, rng: np.random.Generator) -> Array:
    """Uniform in [low, high), with both ends present where there is room: faults sit at the edges."""
    least, most = INT_RANGE[arg.dtype]
    low = least if arg.low is None else int(arg.low)
    high = most + 1 if arg.high is None else int(arg.high)
    wide = np.uint64 if low >= 0 else np.int64
    values: Array = np.asarray(rng.integers(low, high - 1, arg.shape, dtype=wide, endpoint=True))
    if values.size >= 2:
        first, last = rng.choice(values.size, 2, replace=False)
        values.flat[first] = low
        values.flat[last] = high - 1
    return values
