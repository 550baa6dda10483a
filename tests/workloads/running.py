"""Runs a workload's untuned module in this process, as the reference implementation that tests compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray

from tuner.workloads.inputs import numpy_dtype
from tuner.workloads.resolve import load_module
from tuner.workloads.workload import Workload


def run_untuned(workload: Workload, inputs: Sequence[Any]) -> list[NDArray[Any]]:
    """The values of all "out" and "inout" arguments after one call; outputs start out poisoned."""
    values: list[Any] = []
    for arg, value in zip(workload.args, inputs, strict=True):
        if arg.role == "scalar":
            values.append(value.item())
            continue
        dtype = numpy_dtype(arg.dtype)
        if value is None:
            value = np.full(arg.shape, 77 if dtype.kind in "iub" else np.nan, dtype)
        values.append(_tensor(value, arg.strides))
    tvm.compile(load_module(workload), target={"kind": "llvm"})["main"](*values)
    roles = [arg.role for arg in workload.args]
    return [v.numpy() for v, role in zip(values, roles, strict=True) if role in ("out", "inout")]


def _tensor(value: NDArray[Any], strides: tuple[int, ...] | None) -> Any:
    """A TVM tensor of a copy, laid out with strides in elements."""
    if strides is None:
        return tvm.runtime.tensor(value)
    extent = 1 + sum((n - 1) * s for n, s in zip(value.shape, strides, strict=True))
    memory = np.zeros(extent * value.itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    aligned = memory[start : start + extent * value.itemsize].view(value.dtype)
    view = np.lib.stride_tricks.as_strided(aligned, value.shape, [s * value.itemsize for s in strides])
    view[...] = value
    return tvm_ffi.from_dlpack(view, require_alignment=64, require_contiguous=False)
