"""Normalisations over rows: softmax, log_softmax, layer_norm, rms_norm. Low precision is storage only, sums float32."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.epilogue import cast_output
from tuner.workloads.numpy_later import np
from tuner.workloads.op_def import FLOATS, Array, OpCall, Operator, Param, n_elements, tensor
from tuner.workloads.spec_values import resolve_axes
from tuner.workloads.workload import ArgSpec

SHAPE = Param("shape", "shape", "sizes of the input, like 1536x128")


def complete_axes(params: dict[str, Any]) -> None:
    """Axes counted from the front, sorted."""
    params["axis"] = resolve_axes("axis", params["axis"], len(params["shape"]))


def _complete_one_axis(params: dict[str, Any]) -> None:
    complete_axes(params)
    if len(params["axis"]) != 1:
        raise WorkloadError(f"axis wants one axis, got {'+'.join(map(str, params['axis']))}")


def reduced_extents(call: OpCall) -> tuple[int, ...]:
    return tuple(call["shape"][axis] for axis in call["axis"])


def reduction_length(call: OpCall) -> int:
    return math.prod(reduced_extents(call))


def kept_shape(call: OpCall) -> tuple[int, ...]:
    return tuple(size for axis, size in enumerate(call["shape"]) if axis not in call["axis"])


def insert_axes(kept: Sequence[Any], axes: Sequence[int], inserted: Sequence[Any]) -> list[Any]:
    """The full index from the indices of kept dimensions and of the reduced ones."""
    index = list(kept)
    for axis, value in zip(axes, inserted, strict=True):
        index.insert(axis, value)
    return index


def drop_axes(index: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    return [value for axis, value in enumerate(index) if axis not in axes]


def reduce_rows(call: OpCall, name: str, reducer: Any, value: Any) -> Any:
    """A stage that reduces `value(index)` over `axis`; its shape is (1,) where nothing is kept."""
    from tuner.tvm_api import te

    ks = [te.reduce_axis((0, extent), name=f"k{i}") for i, extent in enumerate(reduced_extents(call))]
    shape = kept_shape(call) or (1,)

    def element(*kept: Any) -> Any:
        return reducer(value(insert_axes(kept if kept_shape(call) else (), call["axis"], ks)), axis=ks)

    return te.compute(shape, element, name=name)


def row_of(call: OpCall, index: Sequence[Any]) -> list[Any]:
    """Where the stage of `reduce_rows` keeps the row that `index` belongs to."""
    return drop_axes(index, call["axis"]) or [0]


def _softmax_args(call: OpCall) -> list[ArgSpec]:
    shape = tuple(call["shape"])
    return [tensor("data", shape, call.dtype), tensor("out", shape, call.out_dtype, "out")]


def _build_softmax(call: OpCall) -> Any:
    from tuner.tvm_api import te

    data = te.placeholder(call["shape"], call.dtype, name="data")

    def x(index: Sequence[Any]) -> Any:
        return data(*index).astype(call.acc_dtype)

    peak = reduce_rows(call, "peak", te.max, x)
    if call.op == "log_softmax":
        total = reduce_rows(call, "total", te.sum, lambda i: te.exp(x(i) - peak(*row_of(call, i))))
        out = te.compute(
            call["shape"],
            lambda *i: x(i) - peak(*row_of(call, i)) - te.log(total(*row_of(call, i))),
            name="log_softmax",
        )
    else:
        power = te.compute(call["shape"], lambda *i: te.exp(x(i) - peak(*row_of(call, i))), name="power")
        total = reduce_rows(call, "total", te.sum, lambda i: power(*i))
        out = te.compute(call["shape"], lambda *i: power(*i) / total(*row_of(call, i)), name="softmax")
    return te.create_prim_func([data, cast_output(call, out)])


def _reference_softmax(call: OpCall, inputs: Mapping[str, Array]) -> Array:
    x = inputs["data"]
    if x.size == 0:
        return x
    axis = tuple(call["axis"])
    x = x - x.max(axis=axis, keepdims=True)
    power = np.exp(x)
    total = power.sum(axis=axis, keepdims=True)
    out: Array = x - np.log(total) if call.op == "log_softmax" else power / total
    return out


def _layer_norm_args(call: OpCall) -> list[ArgSpec]:
    shape, row = tuple(call["shape"]), reduced_extents(call)
    scales = [tensor("gamma", row, call.dtype)]
    if call.op == "layer_norm":
        scales.append(tensor("beta", row, call.dtype))
    return [tensor("data", shape, call.dtype), *scales, tensor("out", shape, call.out_dtype, "out")]


def _build_layer_norm(call: OpCall) -> Any:
    """Two passes, the mean first: the sum of squares less the square of the sum cancels badly in float32."""
    from tuner.tvm_api import te, tirx

    specs = _layer_norm_args(call)[:-1]
    data, *scales = (te.placeholder(s.shape, s.dtype, name=s.name) for s in specs)
    count = tirx.const(float(max(1, reduction_length(call))), "float32")
    epsilon = tirx.const(call["epsilon"], "float32")
    centred = call.op == "layer_norm"

    def x(index: Sequence[Any]) -> Any:
        return data(*index).astype("float32")

    total = reduce_rows(call, "total", te.sum, x) if centred else None

    def off_centre(index: Sequence[Any]) -> Any:
        return x(index) - total(*row_of(call, index)) / count if total is not None else x(index)

    squares = reduce_rows(call, "squares", te.sum, lambda i: off_centre(i) * off_centre(i))

    def element(*index: Any) -> Any:
        scale = [s(*(index[axis] for axis in call["axis"])).astype("float32") for s in scales]
        value = off_centre(index) * tirx.rsqrt(squares(*row_of(call, index)) / count + epsilon) * scale[0]
        return value + scale[1] if centred else value

    out = te.compute(call["shape"], element, name=call.op)
    return te.create_prim_func([data, *scales, cast_output(call, out)])


def _reference_layer_norm(call: OpCall, inputs: Mapping[str, Array]) -> Array:
    x, axis = inputs["data"], tuple(call["axis"])
    if x.size == 0:
        return x
    broadcast = [size if a in axis else 1 for a, size in enumerate(x.shape)]
    if call.op == "layer_norm":
        x = x - x.mean(axis=axis, keepdims=True)
    scale = np.sqrt((x * x).mean(axis=axis, keepdims=True) + call["epsilon"])
    out: Array = x / scale * inputs["gamma"].reshape(broadcast)
    return out + inputs["beta"].reshape(broadcast) if call.op == "layer_norm" else out


def _softmax(name: str, doc: str) -> Operator:
    return Operator(
        name=name,
        doc=doc,
        example=f"{name}:shape=1536x128",
        params=(SHAPE, Param("axis", "axes", "the axis that sums to one", default=[-1])),
        precisions=FLOATS,
        complete=_complete_one_axis,
        args=_softmax_args,
        build=_build_softmax,
        reference=_reference_softmax,
        flop=lambda call: 5.0 * n_elements(call["shape"]),
        reduction_length=reduction_length,
    )


def _layer_norm(name: str, doc: str, flop_per_element: int) -> Operator:
    return Operator(
        name=name,
        doc=doc,
        example=f"{name}:shape=128x768",
        params=(
            SHAPE,
            Param("axis", "axes", "the axes that are normalised together", default=[-1]),
            Param("epsilon", "float", "added to the variance", default=1e-5),
        ),
        precisions=FLOATS,
        complete=complete_axes,
        args=_layer_norm_args,
        build=_build_layer_norm,
        reference=_reference_layer_norm,
        flop=lambda call: float(flop_per_element * n_elements(call["shape"])),
        reduction_length=reduction_length,
    )


SOFTMAX = _softmax("softmax", "exp(x - max) / sum(exp(x - max)) over one axis")
LOG_SOFTMAX = _softmax("log_softmax", "x - max - log(sum(exp(x - max))) over one axis")
LAYER_NORM = _layer_norm("layer_norm", "(x - mean) / sqrt(variance + epsilon) * gamma + beta", 8)
RMS_NORM = _layer_norm("rms_norm", "x / sqrt(mean(x * x) + epsilon) * gamma", 5)
