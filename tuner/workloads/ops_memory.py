"""Operators that only move values: transpose and gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.numpy_later import np
from tuner.workloads.op_def import STORED, OpCall, Operator, Param, bytes_moved, tensor
from tuner.workloads.ops_norm import SHAPE
from tuner.workloads.spec_values import resolve_axes
from tuner.workloads.workload import ArgSpec


def _complete_transpose(params: dict[str, Any]) -> None:
    rank = len(params["shape"])
    params["axes"] = resolve_axes("transpose", params["axes"], rank, ordered=True)
    if len(params["axes"]) != rank:
        raise WorkloadError(
            f"transpose: axes wants all {rank} dimensions in their new order, got {len(params['axes'])}"
        )


def _transpose_args(call: OpCall) -> list[ArgSpec]:
    shape = tuple(call["shape"])
    return [
        tensor("data", shape, call.dtype),
        tensor("out", tuple(shape[axis] for axis in call["axes"]), call.out_dtype, "out"),
    ]


def _build_transpose(call: OpCall) -> Any:
    from tuner.tvm_api import te

    source, target = _transpose_args(call)
    data = te.placeholder(source.shape, call.dtype, name="data")

    def element(*index: Any) -> Any:
        return data(*(index[call["axes"].index(axis)] for axis in range(len(index))))

    return te.create_prim_func([data, te.compute(target.shape, element, name="transpose")])


def _complete_gather(params: dict[str, Any]) -> None:
    (axis,) = resolve_axes("gather", [params["axis"]], len(params["shape"]))
    params["axis"] = axis
    if params["shape"][axis] == 0 and params["indices"] > 0:
        raise WorkloadError("gather: there is nothing to choose from along an axis of size 0")


def _gather_args(call: OpCall) -> list[ArgSpec]:
    shape = tuple(call["shape"])
    out = list(shape)
    out[call["axis"]] = call["indices"]
    idx = ArgSpec(
        name="idx", shape=(call["indices"],), dtype="int32", role="in", low=0, high=max(1, shape[call["axis"]])
    )
    return [tensor("data", shape, call.dtype), idx, tensor("out", tuple(out), call.out_dtype, "out")]


def _build_gather(call: OpCall) -> Any:
    from tuner.tvm_api import te

    source, index, target = _gather_args(call)
    data = te.placeholder(source.shape, call.dtype, name="data")
    idx = te.placeholder(index.shape, index.dtype, name="idx")

    def element(*at: Any) -> Any:
        return data(*(idx[i] if axis == call["axis"] else i for axis, i in enumerate(at)))

    return te.create_prim_func([data, idx, te.compute(target.shape, element, name="gather")])


TRANSPOSE = Operator(
    name="transpose",
    doc="the same values with the dimensions in another order",
    example="transpose:shape=12x128x64,axes=1+0+2",
    params=(SHAPE, Param("axes", "axes", "the old axes in their new order, like 1+0+2")),
    precisions=STORED,
    complete=_complete_transpose,
    args=_transpose_args,
    build=_build_transpose,
    reference=lambda call, inputs: inputs["data"].transpose(call["axes"]),
    flop=lambda call: 0.0,
    reduction_length=lambda call: 1,
)


def _gather_bytes(call: OpCall, args: Sequence[ArgSpec]) -> float:
    """Only what is chosen is read: as much data as is written, and the indices."""
    data, *others = args
    return bytes_moved(others) + bytes_moved([arg for arg in others if arg.dtype == data.dtype and arg.role == "out"])


GATHER = Operator(
    name="gather",
    doc="rows of data chosen by idx along one axis, as in an embedding",
    example="gather:shape=30522x768,indices=128",
    params=(
        SHAPE,
        Param("indices", "size", "how many are chosen"),
        Param("axis", "int", "the axis that idx points into", default=0, minimum=-8),
    ),
    precisions=STORED,
    complete=_complete_gather,
    args=_gather_args,
    build=_build_gather,
    reference=lambda call, inputs: np.take(inputs["data"], inputs["idx"], axis=call["axis"]),
    flop=lambda call: 0.0,
    reduction_length=lambda call: 1,
    bytes_moved=_gather_bytes,
)
