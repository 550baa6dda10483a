"""Is an output right? The tolerance by dtype and reduction length, and the comparison with what is expected.

A float element `got` is right when |got - want| <= t * (|want| + scale), where `scale` is the typical magnitude of
its output (an element near zero that was summed from large terms carries their rounding errors). Integers are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]

_CHUNK = 1 << 17  # elements compared at a time: their float64 copies stay in the cache


@dataclass(frozen=True, slots=True)
class Expected:
    """What one output must hold.

    `values` are float32 or float64 for a float output (in higher precision than the output's own where that is
    narrower), else of the output's dtype. `relative` is t of this module's docstring. `also` holds the untuned
    module's values where some of them are inf or NaN although `values` are finite: an accumulator that
    overflowed. There, its value is right too.
    """

    values: Values
    scale: float
    relative: float
    also: Values | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Errors over the finite elements. `max_rel_error` is against max(|want|, scale). `wrong` is one line, or None."""

    max_abs_error: float
    max_rel_error: float
    wrong: str | None = None


def is_float(dtype: npt.DTypeLike) -> bool:
    """Whether a dtype is floating point, bfloat16 and the 8-bit ones included."""
    kind = np.dtype(dtype)
    return kind.kind == "f" or (kind.kind == "V" and kind.name.startswith(("bfloat", "float")))


def unit_roundoff(dtype: npt.DTypeLike) -> float:
    """u: the largest relative error of rounding to the nearest number of a float dtype; 0 for others."""
    return float(ml_dtypes.finfo(dtype).eps) / 2 if is_float(dtype) else 0.0


def tolerance(dtype: npt.DTypeLike, acc_dtype: npt.DTypeLike, reduction_length: int) -> float:
    """t for a float output; 0 for others.

    Model: a few roundings to the storage dtype and library functions good to a few units (16 u, or 4 u below 32 bits,
    where functions are computed wider), and a sum of n terms. Rounding errors of n additions are bounded by n u
    and, since their signs vary, are sqrt(n) u in practice (Higham and Mary, "A new approach to probabilistic
    rounding error analysis", 2019); any order of additions keeps both bounds.
    """
    if not is_float(dtype):
        return 0.0
    u_acc = unit_roundoff(acc_dtype)
    u_store = max(unit_roundoff(dtype), u_acc)
    n_roundings = 16 if u_store <= 2.0**-24 else 4
    return n_roundings * u_store + min(4 * math.sqrt(reduction_length), reduction_length) * u_acc


def typical_magnitude(values: Values) -> float:
    """The root mean square of the finite values, but at most 30 times their median: a few huge ones don't count."""
    magnitude = np.abs(values[np.isfinite(values)].astype(np.float64))
    magnitude = magnitude[magnitude > 0]
    if magnitude.size == 0:
        return 0.0
    largest = float(magnitude.max())
    rms = largest * math.sqrt(float(np.mean(np.square(magnitude / largest))))
    return min(rms, 30 * float(np.median(magnitude)))


def normalized_error(got: Values, expected: Expected) -> float:
    """The smallest t with which `got` would be right, `also` aside; inf when none would do. 0 for right integers."""
    if not is_float(got.dtype):
        return 0.0 if compare(got, expected, "").wrong is None else math.inf
    flat, want = np.ascontiguousarray(got).reshape(-1), expected.values.reshape(-1)
    needed = 0.0
    for start in range(0, flat.size, _CHUNK):
        g = flat[start : start + _CHUNK].astype(np.float64)
        e = want[start : start + _CHUNK].astype(np.float64)
        finite = np.isfinite(g) & np.isfinite(e)
        if not (finite | ~np.isfinite(g) | (g == e)).all() or (np.isnan(g) & np.isinf(e)).any():
            return math.inf
        error = np.abs(g[finite] - e[finite])
        allowed = np.abs(e[finite]) + expected.scale
        with np.errstate(divide="ignore"):
            ratio = np.divide(error, allowed, out=np.zeros_like(error), where=error > 0)
        needed = max(needed, float(ratio.max(initial=0.0)))
    return needed


def compare(got: Values, expected: Expected, name: str) -> Comparison:
    """Compares one output, of the argument called `name`, in its own dtype and shape."""
    flat = np.ascontiguousarray(got).reshape(-1)
    want = expected.values.reshape(-1)
    if flat.shape != want.shape:
        raise ValueError(f"output {name!r} has shape {got.shape}, expected {expected.values.shape}")
    inspect = _wrong_floats if is_float(got.dtype) else _wrong_integers
    also = None if expected.also is None else expected.also.reshape(-1)
    max_abs = max_rel = 0.0
    n_wrong, first = 0, -1
    for start in range(0, flat.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        wrong, abs_error, rel_error = inspect(flat[part], want[part], None if also is None else also[part], expected)
        max_abs, max_rel = max(max_abs, abs_error), max(max_rel, rel_error)
        if wrong.size and first < 0:
            first = start + int(wrong[0])
        n_wrong += wrong.size
    if n_wrong == 0:
        return Comparison(max_abs, max_rel)
    place = ", ".join(str(int(i)) for i in np.unravel_index(first, got.shape))
    detail = (
        f"output {name!r} at [{place}]: got {_number(flat[first])}, want {_number(want[first])}"
        f" ({n_wrong} of {flat.size} elements are wrong)"
    )
    return Comparison(max_abs, max_rel, detail)


def _number(value: Any) -> str:
    return f"{float(value):.7g}" if is_float(value.dtype) else str(value)


_Found = tuple[npt.NDArray[np.intp], float, float]


def _wrong_integers(got: Values, want: Values, also: Values | None, expected: Expected) -> _Found:
    # As bits: a bool that is neither 0 nor 1 is wrong, although it counts as true.
    bits = np.dtype(f"u{got.dtype.itemsize}")
    same = got.view(bits) == want.view(bits)
    wrong = np.flatnonzero(~same)
    if wrong.size == 0:
        return wrong, 0.0, 0.0
    error = np.abs(got[wrong].astype(np.float64) - want[wrong].astype(np.float64))
    return wrong, float(error.max()), float((error / np.maximum(np.abs(want[wrong].astype(np.float64)), 1)).max())


def _wrong_floats(got: Values, want: Values, also: Values | None, expected: Expected) -> _Found:
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        g, e = got.astype(np.float64), want.astype(np.float64)
        error = np.abs(g - e)
        magnitude = np.abs(e)
        right = (error <= expected.relative * (magnitude + expected.scale)) & (error < np.inf)
        if right.all():  # no NaN and no inf among them
            return np.flatnonzero(~right), float(error.max()), _relative(error, magnitude, expected.scale)
        finite = np.isfinite(error)
        abs_error = float(error[finite].max(initial=0.0))
        rel_error = _relative(error[finite], magnitude[finite], expected.scale)
        # NaN where NaN is expected, the same infinity, or an infinity where the bound reaches past the largest number.
        largest = float(ml_dtypes.finfo(got.dtype).max)
        reach = magnitude + expected.relative * (magnitude + expected.scale)
        right |= (g == e) | (np.isnan(g) & np.isnan(e))
        right |= np.isinf(g) & (reach >= largest) & (np.sign(g) == np.sign(e))
        if also is not None:
            a = also.astype(np.float64)
            right |= ~np.isfinite(a) & ((g == a) | (np.isnan(g) & np.isnan(a)))
        return np.flatnonzero(~right), abs_error, rel_error


def _relative(error: Values, magnitude: Values, scale: float) -> float:
    if error.size == 0 or (worst := float(error.max())) == 0.0:
        return 0.0
    if scale > 0:
        return float((error / np.maximum(magnitude, scale)).max())
    return worst


def worst(comparisons: Sequence[Comparison]) -> Comparison:
    """The largest errors of several comparisons, and the first wrong one's line."""
    wrong = next((c.wrong for c in comparisons if c.wrong is not None), None)
    return Comparison(
        max((c.max_abs_error for c in comparisons), default=0.0),
        max((c.max_rel_error for c in comparisons), default=0.0),
        wrong,
    )
