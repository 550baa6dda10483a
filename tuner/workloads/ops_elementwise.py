"""Chains of elementwise steps, each a stage of its own: `elementwise:shape=1024x1024,chain=mul+add+gelu`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.epilogue import build_gelu, cast_output, gelu
from tuner.workloads.numpy_later import np
from tuner.workloads.op_def import FLOATS, Array, OpCall, Operator, Param, n_elements, tensor
from tuner.workloads.ops_norm import SHAPE
from tuner.workloads.workload import ArgSpec

_BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": lambda a, b: np.add(a, b),
    "sub": lambda a, b: np.subtract(a, b),
    "mul": lambda a, b: np.multiply(a, b),
    "maximum": lambda a, b: np.maximum(a, b),
    "minimum": lambda a, b: np.minimum(a, b),
}
_UNARY: Mapping[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "silu": lambda x: x / (1.0 + np.exp(-x)),
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "tanh": lambda x: np.tanh(x),
    "exp": lambda x: np.exp(x),
    "abs": lambda x: np.abs(x),
    "neg": lambda x: np.negative(x),
    "square": lambda x: np.square(x),
}
_FLOP = {"gelu": 5, "silu": 4, "sigmoid": 3}
_STEPS = (*_BINARY, *_UNARY)


def _complete(params: dict[str, Any]) -> None:
    if not params["chain"]:
        raise WorkloadError(f"elementwise: chain wants at least one step of {', '.join(_STEPS)}")


def _operands(call: OpCall) -> list[str | None]:
    """For each step the name of its second operand, if it has one."""
    counter = 0
    names: list[str | None] = []
    for step in call["chain"]:
        counter += step in _BINARY
        names.append(f"operand{counter}" if step in _BINARY else None)
    return names


def _args(call: OpCall) -> list[ArgSpec]:
    shape = tuple(call["shape"])
    extra = [tensor(name, shape, call.dtype) for name in _operands(call) if name]
    return [tensor("data", shape, call.dtype), *extra, tensor("out", shape, call.out_dtype, "out")]


def _build(call: OpCall) -> Any:
    from tuner.tvm_api import te

    data, *operands = (te.placeholder(s.shape, s.dtype, name=s.name) for s in _args(call)[:-1])
    by_name = {operand.op.name: operand for operand in operands}
    out = data
    for step, name in zip(call["chain"], _operands(call), strict=True):
        out = _build_step(step, out, by_name[name] if name else None)
    return te.create_prim_func([data, *operands, cast_output(call, out)])


def _build_step(step: str, previous: Any, operand: Any) -> Any:
    from tuner.tvm_api import te, tirx

    one, zero = tirx.const(1.0, "float32"), tirx.const(0.0, "float32")
    steps: dict[str, Callable[[Any, Any], Any]] = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "maximum": te.max,
        "minimum": te.min,
        "relu": lambda x, _: te.max(x, zero),
        "gelu": lambda x, _: build_gelu(x),
        "silu": lambda x, _: x / (one + te.exp(-x)),
        "sigmoid": lambda x, _: one / (one + te.exp(-x)),
        "tanh": lambda x, _: te.tanh(x),
        "exp": lambda x, _: te.exp(x),
        "abs": lambda x, _: te.abs(x),
        "neg": lambda x, _: zero - x,
        "square": lambda x, _: x * x,
    }

    def element(*index: Any) -> Any:
        second = operand(*index).astype("float32") if operand is not None else None
        return steps[step](previous(*index).astype("float32"), second)

    return te.compute(previous.shape, element, name=step)


def _reference(call: OpCall, inputs: Mapping[str, Array]) -> Array:
    out = inputs["data"]
    for step, name in zip(call["chain"], _operands(call), strict=True):
        out = _BINARY[step](out, inputs[name]) if name else _UNARY[step](out)
    return out


ELEMENTWISE = Operator(
    name="elementwise",
    doc="a chain of steps on each element; add, sub, mul, maximum, minimum each take a further input",
    example="elementwise:shape=1024x1024,chain=mul+add+gelu",
    params=(SHAPE, Param("chain", "names", "the steps, joined by +", choices=_STEPS)),
    precisions=FLOATS,
    complete=_complete,
    args=_args,
    build=_build,
    reference=_reference,
    flop=lambda call: float(n_elements(call["shape"]) * sum(_FLOP.get(step, 1) for step in call["chain"])),
    reduction_length=lambda call: 1,
)
