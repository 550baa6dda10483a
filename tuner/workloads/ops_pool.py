"""max_pool2d and avg_pool2d."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.epilogue import cast_output
from tuner.workloads.numpy_later import np
from tuner.workloads.op_def import FLOATS, STORED, Array, OpCall, Operator, Param, tensor
from tuner.workloads.windows import (
    BATCH,
    HEIGHT,
    LAYOUTS,
    PADDING,
    WIDTH,
    build_padded,
    check_windows,
    image_shape,
    output_hw,
    split_index,
)
from tuner.workloads.workload import ArgSpec

_PARAMS = (
    BATCH,
    Param("channels", "size", "channels"),
    HEIGHT,
    WIDTH,
    Param("kernel", "pair", "window, HxW", minimum=1),
    Param("stride", "pair", "step between windows, HxW; the kernel's size by default", default=None, minimum=1),
    PADDING,
)


def _complete(params: dict[str, Any]) -> None:
    if params["stride"] is None:
        params["stride"] = list(params["kernel"])
    kernel, padding = params["kernel"], params["padding"]
    if any(p >= k for p, k in zip(padding, kernel, strict=True)):
        raise WorkloadError(
            f"pooling: padding {padding[0]}x{padding[1]} must be smaller than kernel {kernel[0]}x{kernel[1]}, "
            "or windows hold nothing but padding"
        )
    check_windows("pooling", params)


def _output_shape(call: OpCall) -> tuple[int, ...]:
    return image_shape(call.layout, call["batch"], call["channels"], *output_hw(call.params))


def _args(call: OpCall) -> list[ArgSpec]:
    data = image_shape(call.layout, call["batch"], call["channels"], call["height"], call["width"])
    return [tensor("data", data, call.dtype), tensor("out", _output_shape(call), call.out_dtype, "out")]


def _build(call: OpCall) -> Any:
    from tuner.tvm_api import te, tirx

    is_max = call.op == "max_pool2d"
    data = te.placeholder(_args(call)[0].shape, call.dtype, name="data")
    padded = build_padded(call, data, tirx.min_value(call.dtype) if is_max else tirx.const(0, call.dtype))
    (kernel_h, kernel_w), (stride_h, stride_w) = call["kernel"], call["stride"]
    ry = te.reduce_axis((0, kernel_h), name="ry")
    rx = te.reduce_axis((0, kernel_w), name="rx")

    def window(*index: Any) -> Any:
        n, c, h, w = split_index(call.layout, index)
        value = padded(*image_shape(call.layout, n, c, h * stride_h + ry, w * stride_w + rx)).astype(call.acc_dtype)
        return (te.max if is_max else te.sum)(value, axis=[ry, rx])

    pooled = te.compute(_output_shape(call), window, name="pooled")
    if is_max:
        return te.create_prim_func([data, cast_output(call, pooled)])

    def mean(*index: Any) -> Any:
        _, _, h, w = split_index(call.layout, index)
        rows = _covered(call, h, 0)
        columns = _covered(call, w, 1)
        count = rows * columns
        return pooled(*index) / (tirx.const(count, "float32") if isinstance(count, int) else count.astype("float32"))

    out = te.compute(pooled.shape, mean, name="mean")
    return te.create_prim_func([data, cast_output(call, out)])


def _covered(call: OpCall, position: Any, axis: int) -> Any:
    """How many input rows (axis 0) or columns (axis 1) the window at `position` covers; all if padding counts."""
    from tuner.tvm_api import te

    kernel, stride, padding = (call[name][axis] for name in ("kernel", "stride", "padding"))
    if call["count_include_pad"] or padding == 0:
        return kernel
    start = position * stride - padding
    size = call["height" if axis == 0 else "width"]
    return te.min(start + kernel, size) - te.max(start, 0)


def _reference(call: OpCall, inputs: Mapping[str, Array]) -> Array:
    data = inputs["data"].transpose(0, 3, 1, 2) if call.layout == "NHWC" else inputs["data"]
    is_max = call.op == "max_pool2d"
    lowest = np.iinfo(np.int64).min if data.dtype.kind == "i" else -np.inf
    pads = [(0, 0), (0, 0), *((p, p) for p in call["padding"])]
    padded = np.pad(data, pads, constant_values=lowest if is_max else 0)
    (stride_h, stride_w), kernel = call["stride"], call["kernel"]
    rows, columns = output_hw(call.params)
    shape = (call["batch"], call["channels"], rows, columns)
    if math.prod(shape) == 0:
        return np.zeros(image_shape(call.layout, *shape))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))[:, :, ::stride_h, ::stride_w]
    if is_max:
        out = windows.max(axis=(4, 5))
    else:
        ones = np.pad(np.ones(data.shape[2:]), pads[2:], constant_values=1.0 if call["count_include_pad"] else 0.0)
        counts = np.lib.stride_tricks.sliding_window_view(ones, kernel)[::stride_h, ::stride_w].sum(axis=(2, 3))
        out = windows.sum(axis=(4, 5)) / counts
    result: Array = out.transpose(0, 2, 3, 1) if call.layout == "NHWC" else out
    return result


def _flop(call: OpCall) -> float:
    return float(math.prod(_output_shape(call)) * (math.prod(call["kernel"]) + (call.op == "avg_pool2d")))


MAX_POOL2D = Operator(
    name="max_pool2d",
    doc="the greatest value of each window; padding never wins",
    example="max_pool2d:channels=64,height=112,width=112,kernel=3,stride=2,padding=1",
    params=_PARAMS,
    precisions=STORED,
    layouts=LAYOUTS,
    complete=_complete,
    args=_args,
    build=_build,
    reference=_reference,
    flop=_flop,
    reduction_length=lambda call: 1,
)

AVG_POOL2D = Operator(
    name="avg_pool2d",
    doc="the mean of each window",
    example="avg_pool2d:channels=64,height=56,width=56,kernel=2",
    params=(*_PARAMS, Param("count_include_pad", "flag", "padding counts as zeros in the mean", default=False)),
    precisions=FLOATS,
    layouts=LAYOUTS,
    complete=_complete,
    args=_args,
    build=_build,
    reference=_reference,
    flop=_flop,
    reduction_length=lambda call: math.prod(call["kernel"]),
)
