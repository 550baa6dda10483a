"""What convolutions and poolings share: window sizes, the padded input, NCHW or NHWC indexing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.op_def import OpCall, Param

LAYOUTS = ("NCHW", "NHWC")
BATCH = Param("batch", "size", "images", default=1)
HEIGHT = Param("height", "size", "rows of the input")
WIDTH = Param("width", "size", "columns of the input")
PADDING = Param("padding", "pair", "zeros added on each side, HxW", default=[0, 0])


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    """Windows that fit; 0 or less means none."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def output_hw(params: Any) -> tuple[int, int]:
    """(rows, columns) of the output; `params` has height, width, kernel, stride, padding and perhaps dilation."""
    dilation = params.get("dilation", [1, 1])
    sizes = [
        output_size(params[name], params["kernel"][i], params["stride"][i], params["padding"][i], dilation[i])
        for i, name in enumerate(("height", "width"))
    ]
    return sizes[0], sizes[1]


def check_windows(op: str, params: dict[str, Any]) -> None:
    """Refuses a window larger than the padded input.

    Raises:
        WorkloadError: names the sizes.
    """
    rows, columns = output_hw(params)
    if rows < 1 or columns < 1:
        size, kernel, padding = f"{params['height']}x{params['width']}", params["kernel"], params["padding"]
        raise WorkloadError(
            f"{op}: kernel {kernel[0]}x{kernel[1]} does not fit into {size} with padding {padding[0]}x{padding[1]}; "
            "use a smaller kernel or dilation, or more padding"
        )


def image_shape(layout: str | None, n: int, c: int, h: int, w: int) -> tuple[int, int, int, int]:
    return (n, h, w, c) if layout == "NHWC" else (n, c, h, w)


def split_index(layout: str | None, index: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """(n, c, h, w) of an index in the given layout."""
    if layout == "NHWC":
        n, h, w, c = index
    else:
        n, c, h, w = index
    return n, c, h, w


def build_padded(call: OpCall, data: Any, pad_value: Any) -> Any:
    """The padded image as a stage of its own; `data` itself where nothing is padded."""
    from tuner.tvm_api import te, tirx

    pad_h, pad_w = call["padding"]
    if pad_h == 0 and pad_w == 0:
        return data
    height, width = call["height"], call["width"]
    n, c, _, _ = split_index(call.layout, [int(s) for s in data.shape])
    shape = image_shape(call.layout, n, c, height + 2 * pad_h, width + 2 * pad_w)

    def element(*index: Any) -> Any:
        n, c, h, w = split_index(call.layout, index)
        inside = tirx.all(h >= pad_h, h < height + pad_h, w >= pad_w, w < width + pad_w)
        return tirx.if_then_else(inside, data(*image_shape(call.layout, n, c, h - pad_h, w - pad_w)), pad_value)

    return te.compute(shape, element, name="padded")
