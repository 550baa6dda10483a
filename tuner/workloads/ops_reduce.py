"""Reductions over axes: sum, mean, max, min, argmax. The reduced axes disappear; reducing all leaves shape (1,)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tuner.workloads.epilogue import cast_output
from tuner.workloads.numpy_later import np
from tuner.workloads.op_def import FLOATS, STORED, Array, OpCall, Operator, Param, Precision, n_elements, tensor
from tuner.workloads.ops_norm import (
    SHAPE,
    complete_axes,
    kept_shape,
    reduce_rows,
    reduction_length,
)
from tuner.workloads.workload import ArgSpec

_SUMMED: Mapping[str, Precision] = {**FLOATS, "int8": Precision(("int32",), ("int32",))}


def _args(call: OpCall) -> list[ArgSpec]:
    return [
        tensor("data", tuple(call["shape"]), call.dtype),
        tensor("out", kept_shape(call) or (1,), call.out_dtype, "out"),
    ]


def _build(call: OpCall) -> Any:
    from tuner.tvm_api import te, tirx

    reducer = {"max": te.max, "min": te.min}.get(call.op, te.sum)
    data = te.placeholder(call["shape"], call.dtype, name="data")
    out = reduce_rows(call, call.op, reducer, lambda index: data(*index).astype(call.acc_dtype))
    if call.op == "mean":
        total, count = out, tirx.const(float(max(1, reduction_length(call))), "float32")
        out = te.compute(total.shape, lambda *index: total(*index) / count, name="scaled")
    return te.create_prim_func([data, cast_output(call, out)])


def _reference(call: OpCall, inputs: Mapping[str, Array]) -> Array:
    x, axis = inputs["data"], tuple(call["axis"])
    shape = kept_shape(call) or (1,)
    if x.size == 0:
        return np.zeros(shape, x.dtype)
    out: Array = np.asarray(getattr(x, call.op)(axis=axis))
    return out.reshape(shape)


def _reduction(name: str, doc: str, precisions: Mapping[str, Precision], length: Callable[[OpCall], int]) -> Operator:
    return Operator(
        name=name,
        doc=doc,
        example=f"{name}:shape=1024x1024,axis=1",
        params=(SHAPE, Param("axis", "axes", "the axes that are reduced, like 1, 0+2 or all", default=[-1])),
        precisions=precisions,
        complete=complete_axes,
        args=_args,
        build=_build,
        reference=_reference,
        flop=lambda call: float(n_elements(call["shape"]) + (math.prod(kept_shape(call)) if name == "mean" else 0)),
        reduction_length=length,
    )


SUM = _reduction("sum", "the sum over axes; int8 adds up in int32", _SUMMED, reduction_length)
MEAN = _reduction("mean", "the mean over axes", FLOATS, reduction_length)
MAX = _reduction("max", "the greatest value over axes", STORED, lambda call: 1)
MIN = _reduction("min", "the least value over axes", STORED, lambda call: 1)
