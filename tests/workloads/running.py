"""Runs a workload's untuned module in this process, as the reference implementation that tests compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
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
        if arg.strides is not None:
            extent = 1 + sum((n - 1) * s for n, s in zip(arg.shape, arg.strides, strict=True))
            wide = np.zeros(extent, dtype)
            strides = [s * dtype.itemsize for s in arg.strides]
            view = np.lib.stride_tricks.as_strided(wide, arg.shape, strides)
            view[...] = value
            values.append(tvm.runtime.from_dlpack(view))
        else:
            values.append(tvm.runtime.tensor(value))
    tvm.compile(load_module(workload), target={"kind": "llvm"})["main"](*values)
    roles = [arg.role for arg in workload.args]
    return [v.numpy() for v, role in zip(values, roles, strict=True) if role in ("out", "inout")]
