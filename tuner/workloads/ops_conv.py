"""conv2d: NCHW and NHWC, stride, padding, dilation, groups; depthwise is groups == in_channels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.epilogue import build_epilogue, epilogue_args, epilogue_flop, reference_epilogue
from tuner.workloads.numpy_later import np
from tuner.workloads.op_def import PRODUCTS, Array, OpCall, Operator, Param, tensor
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


def _complete(params: dict[str, Any]) -> None:
    for name in ("in_channels", "out_channels"):
        if params[name] % params["groups"]:
            raise WorkloadError(
                f"conv2d: groups={params['groups']} does not divide {name}={params[name]}; choose a divisor"
            )
    check_windows("conv2d", params)


def _channel_axis(call: OpCall) -> int:
    return 3 if call.layout == "NHWC" else 1


def _output_shape(call: OpCall) -> tuple[int, ...]:
    return image_shape(call.layout, call["batch"], call["out_channels"], *output_hw(call.params))


def _weight_shape(call: OpCall) -> tuple[int, ...]:
    """OIHW beside NCHW, HWIO beside NHWC; I counts the input channels of one group."""
    group_in = call["in_channels"] // call["groups"]
    if call.layout == "NHWC":
        return (*call["kernel"], group_in, call["out_channels"])
    return (call["out_channels"], group_in, *call["kernel"])


def _args(call: OpCall) -> list[ArgSpec]:
    data = image_shape(call.layout, call["batch"], call["in_channels"], call["height"], call["width"])
    out = _output_shape(call)
    return [
        tensor("data", data, call.dtype),
        tensor("weight", _weight_shape(call), call.dtype),
        *epilogue_args(call, out, _channel_axis(call)),
        tensor("out", out, call.out_dtype, "out"),
    ]


def _build(call: OpCall) -> Any:
    from tuner.tvm_api import te, tirx

    spec_data, spec_weight = _args(call)[:2]
    data = te.placeholder(spec_data.shape, call.dtype, name="data")
    weight = te.placeholder(spec_weight.shape, call.dtype, name="weight")
    padded = build_padded(call, data, tirx.const(0, call.dtype))
    (kernel_h, kernel_w), (stride_h, stride_w), (dil_h, dil_w) = call["kernel"], call["stride"], call["dilation"]
    group_in = call["in_channels"] // call["groups"]
    group_out = call["out_channels"] // call["groups"]
    rc = te.reduce_axis((0, group_in), name="rc")
    ry = te.reduce_axis((0, kernel_h), name="ry")
    rx = te.reduce_axis((0, kernel_w), name="rx")
    depthwise = group_in == 1 and call["groups"] > 1
    axes = [ry, rx] if depthwise else [ry, rx, rc] if call.layout == "NHWC" else [rc, ry, rx]

    def element(*index: Any) -> Any:
        n, c, h, w = split_index(call.layout, index)
        local = 0 if depthwise else rc
        group = c if group_out == 1 else c // group_out
        channel = rc if call["groups"] == 1 else group if depthwise else group * group_in + rc
        image = image_shape(call.layout, n, channel, h * stride_h + ry * dil_h, w * stride_w + rx * dil_w)
        tap = (ry, rx, local, c) if call.layout == "NHWC" else (c, local, ry, rx)
        return te.sum(padded(*image).astype(call.acc_dtype) * weight(*tap).astype(call.acc_dtype), axis=axes)

    product = te.compute(_output_shape(call), element, name="conv2d")
    out, extra = build_epilogue(call, product, _channel_axis(call))
    return te.create_prim_func([data, weight, *extra, out])


def _reference(call: OpCall, inputs: Mapping[str, Array]) -> Array:
    """Sums one matrix product per kernel tap; float64 is exact for int8 (sums stay below 2^53)."""
    data, weight = inputs["data"].astype(np.float64), inputs["weight"].astype(np.float64)
    if call.layout == "NHWC":
        data, weight = data.transpose(0, 3, 1, 2), weight.transpose(3, 2, 0, 1)
    groups, (rows, columns) = call["groups"], output_hw(call.params)
    (pad_h, pad_w), (stride_h, stride_w), (dil_h, dil_w) = call["padding"], call["stride"], call["dilation"]
    data = np.pad(data, ((0, 0), (0, 0), (pad_h, pad_h), (pad_w, pad_w)))
    data = data.reshape(data.shape[0], groups, -1, *data.shape[2:]) if data.size else np.zeros((0,) * 5)
    weight = weight.reshape(groups, -1, *weight.shape[1:])
    out = np.zeros((call["batch"], groups, call["out_channels"] // groups, rows, columns))
    if data.size:
        for y in range(call["kernel"][0]):
            for x in range(call["kernel"][1]):
                top, left = y * dil_h, x * dil_w
                bottom, right = top + stride_h * (rows - 1) + 1, left + stride_w * (columns - 1) + 1
                window = data[..., top:bottom:stride_h, left:right:stride_w]
                out += np.einsum("ngchw,goc->ngohw", window, weight[..., y, x], optimize=True)
    product = out.reshape(call["batch"], call["out_channels"], rows, columns)
    if inputs["data"].dtype.kind == "i":
        product = product.astype(np.int64)
    if call.layout == "NHWC":
        product = product.transpose(0, 2, 3, 1)
    return reference_epilogue(call, product, inputs, _channel_axis(call))


def _reduction_length(call: OpCall) -> int:
    return math.prod((call["in_channels"] // call["groups"], *call["kernel"]))


CONV2D = Operator(
    name="conv2d",
    doc="2-d convolution, then an epilogue; weight is OIHW with NCHW, HWIO with NHWC; depthwise: groups=in_channels",
    example="conv2d:in_channels=64,out_channels=64,height=56,width=56,kernel=3,padding=1",
    params=(
        BATCH,
        Param("in_channels", "size", "channels of the input", minimum=1),
        Param("out_channels", "size", "channels of the output", minimum=1),
        HEIGHT,
        WIDTH,
        Param("kernel", "pair", "window, HxW", minimum=1),
        Param("stride", "pair", "step between windows, HxW", default=[1, 1], minimum=1),
        PADDING,
        Param("dilation", "pair", "step within a window, HxW", default=[1, 1], minimum=1),
        Param("groups", "int", "channel groups that don't mix", default=1, minimum=1),
    ),
    precisions=PRODUCTS,
    layouts=LAYOUTS,
    epilogues=("bias", "relu", "gelu", "residual"),
    complete=_complete,
    args=_args,
    build=_build,
    reference=_reference,
    flop=lambda call: (
        2.0 * math.prod(_output_shape(call)) * _reduction_length(call) + epilogue_flop(call, _output_shape(call))
    ),
    reduction_length=_reduction_length,
)
