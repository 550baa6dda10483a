"""The arguments of a kernel under test, in a child: guarded, poisoned, and checked for stray stores after a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.measure.memory import Bytes, guarded_pages, tensor_over
from tuner.workloads.inputs import numpy_dtype
from tuner.workloads.workload import ArgSpec

Values = npt.NDArray[Any]

_ALIGNMENT = 64  # what TVM lets the code generator assume of every buffer
_CANARY = 0xC5
POISONS = (0xFF, 0x7B)
"""Bytes that outputs hold before a run: NaN or -1, then a huge number (float32 1.3e36) or 123.

Two, so that an element which is never written can't pass by luck with every input set.
"""


class GuardedArray:
    """One buffer argument between two pages that end the process when touched.

    Its end lies as close to the rear page as 64-byte alignment allows. All bytes between the pages that belong to no
    element, gaps of a strided layout included, hold a canary.
    """

    def __init__(self, spec: ArgSpec) -> None:
        dtype = numpy_dtype(spec.dtype)
        strides = compact_strides(spec.shape) if spec.strides is None else spec.strides
        extent = 1 + sum((n - 1) * s for n, s in zip(spec.shape, strides, strict=True)) if 0 not in spec.shape else 0
        n_bytes = extent * dtype.itemsize
        self._pages = guarded_pages(n_bytes)
        self._pages[:] = _CANARY
        start = (self._pages.nbytes - n_bytes) // _ALIGNMENT * _ALIGNMENT
        self._storage: Bytes = self._pages[start : start + n_bytes]
        self._before: Bytes = self._pages[:start]
        self._after: Bytes = self._pages[start + n_bytes :]
        self._dense = extent == math.prod(spec.shape)
        byte_strides = [s * dtype.itemsize for s in strides]
        self.values: Values = np.ndarray(spec.shape, dtype, self._storage.data, strides=byte_strides)
        """The elements, in the argument's shape; writing here writes the kernel's memory."""
        self.tensor = tensor_over(self._storage, spec.shape, spec.dtype, tuple(strides))
        self._gaps: npt.NDArray[np.bool_] | None = None
        if not self._dense:
            self._gaps = np.ones(n_bytes, bool)
            element = np.ndarray((*spec.shape, dtype.itemsize), bool, self._gaps.data, strides=[*byte_strides, 1])
            element[...] = False

    def poison(self, byte: int) -> None:
        """Fills every element with `byte`; gaps stay."""
        if self._dense:
            self._storage[:] = byte
        else:
            self.values[...] = np.full(self.values.dtype.itemsize, byte, np.uint8).view(self.values.dtype)[0]

    def stray_store(self) -> str | None:
        """Where a canary is gone, e.g. "up to 4 bytes past its end", or None."""
        after = np.flatnonzero(self._after != _CANARY)
        if after.size:
            return f"up to {int(after[-1]) + 1} bytes past its end"
        before = np.flatnonzero(self._before != _CANARY)
        if before.size:
            return f"up to {self._before.nbytes - int(before[0])} bytes before its start"
        if self._gaps is not None:
            gap = np.flatnonzero(self._gaps & (self._storage != _CANARY))
            if gap.size:
                return f"between its rows, {int(gap[0])} bytes from its start"
        return None


class Arguments:
    """All arguments of one kernel, in call order; scalars are passed by value."""

    def __init__(self, specs: Sequence[ArgSpec]) -> None:
        self._specs = tuple(specs)
        self._arrays = [None if spec.role == "scalar" else GuardedArray(spec) for spec in specs]
        self._scalars: list[Any] = [None] * len(specs)

    def load(self, inputs: Sequence[Any], poison: int) -> None:
        """Makes ready for a run: inputs and in-out arguments get their values, outputs are poisoned."""
        for i, (spec, array) in enumerate(zip(self._specs, self._arrays, strict=True)):
            if array is None:
                self._scalars[i] = inputs[i].item()
            elif spec.role == "out":
                array.poison(poison)
            else:
                array.values[...] = inputs[i]

    def call_values(self) -> list[Any]:
        """What to call the kernel with."""
        return [s if a is None else a.tensor for a, s in zip(self._arrays, self._scalars, strict=True)]

    def outputs(self) -> list[Values]:
        """The elements of each "out" and "inout" argument, in order; views, not copies."""
        pairs = zip(self._specs, self._arrays, strict=True)
        return [a.values for spec, a in pairs if a is not None and spec.role in ("out", "inout")]

    def output_names(self) -> list[str]:
        return [spec.name for spec in self._specs if spec.role in ("out", "inout")]

    def stray_store(self) -> str | None:
        """One line that names the argument outside of which something was written, or None."""
        for spec, array in zip(self._specs, self._arrays, strict=True):
            if array is not None and (where := array.stray_store()) is not None:
                return f"out-of-bounds store: argument {spec.name!r} was written {where}"
        return None

    def modified_input(self, inputs: Sequence[Any]) -> str | None:
        """One line that names an input which no longer has its values, or None."""
        for spec, array, given in zip(self._specs, self._arrays, inputs, strict=True):
            if array is not None and spec.role == "in" and not same_bits(array.values, given):
                return f"input {spec.name!r} was modified"
        return None


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def same_bits(a: Values, b: Values) -> bool:
    """Equality of representation: NaN equals the same NaN, and 0.0 is not -0.0."""
    if a.flags.c_contiguous and b.flags.c_contiguous:
        return bool(np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)))
    return a.tobytes() == b.tobytes()
