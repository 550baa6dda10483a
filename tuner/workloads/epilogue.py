"""What may follow a product before it is stored: bias, relu, gelu, residual, in the order they are named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.numpy_later import np
from tuner.workloads.op_def import Array, OpCall, n_elements, tensor
from tuner.workloads.workload import ArgSpec

BIAS = "bias"
RESIDUAL = "residual"
ACTIVATIONS = ("relu", "gelu")
INT32_BOUND = 1 << 20
"""Keeps accumulator plus bias far from the end of int32."""


def check_epilogue(op: str, dtype: str, epilogue: list[str]) -> None:
    """Refuses an epilogue that repeats a step, has two activations, or needs reals where there are integers.

    Raises:
        WorkloadError: what is wrong with it.
    """
    twice = [step for step in epilogue if epilogue.count(step) > 1]
    if twice:
        raise WorkloadError(
            f"{op}: epilogue {'+'.join(epilogue)} names {twice[0]!r} more than once; name each step once"
        )
    if all(step in epilogue for step in ACTIVATIONS):
        raise WorkloadError(f"{op}: epilogue {'+'.join(epilogue)} has two activations; keep one of relu, gelu")
    if "gelu" in epilogue and dtype == "int8":
        raise WorkloadError(f"{op}: epilogue gelu needs a float dtype, got int8; use relu, or dtype=float32")


def epilogue_args(call: OpCall, shape: tuple[int, ...], channel_axis: int) -> list[ArgSpec]:
    """The extra inputs, bias first: bias has the accumulator's dtype for integers, else the storage dtype."""
    is_int = call.acc_dtype == "int32"
    dtype = "int32" if is_int else call.dtype
    bound = INT32_BOUND if is_int else None
    extra = []
    if BIAS in call.epilogue:
        extra.append(tensor(BIAS, (shape[channel_axis],), dtype, bound=bound))
    if RESIDUAL in call.epilogue:
        extra.append(tensor(RESIDUAL, shape, dtype, bound=bound))
    return extra


def epilogue_flop(call: OpCall, shape: tuple[int, ...]) -> float:
    """bias, relu and residual are 1 a element; gelu is 5 (two multiplies, a divide, erf, an add)."""
    return float(n_elements(shape) * sum(5 if step == "gelu" else 1 for step in call.epilogue))


def build_epilogue(call: OpCall, product: Any, channel_axis: int) -> tuple[Any, list[Any]]:
    """Adds the steps and the final cast to a TE tensor in the accumulator's dtype.

    Float steps are computed in float32, whatever was accumulated in. Returns the output and the extra placeholders.
    """
    from tuner.tvm_api import te

    shape = tuple(int(n) for n in product.shape)
    extra = {a.name: te.placeholder(a.shape, a.dtype, name=a.name) for a in epilogue_args(call, shape, channel_axis)}
    step_dtype = "int32" if call.acc_dtype == "int32" else "float32"
    out = product
    for step in call.epilogue:
        out = _build_step(step, out, extra.get(step), channel_axis, step_dtype)
    return cast_output(call, out), list(extra.values())


def _build_step(step: str, previous: Any, operand: Any, channel_axis: int, dtype: str) -> Any:
    from tuner.tvm_api import te, tirx

    def element(*index: Any) -> Any:
        x = previous(*index).astype(dtype)
        if step == BIAS:
            return x + operand[index[channel_axis]].astype(dtype)
        if step == RESIDUAL:
            return x + operand(*index).astype(dtype)
        return tirx.max(x, tirx.const(0, dtype)) if step == "relu" else build_gelu(x)

    return te.compute(previous.shape, element, name=step)


def build_gelu(x: Any) -> Any:
    """The exact form with erf, of a float32 expression."""
    from tuner.tvm_api import tirx

    half, one, root = (tirx.const(c, "float32") for c in (0.5, 1.0, 0.5**0.5))
    return half * x * (one + tirx.erf(x * root))


def cast_output(call: OpCall, out: Any) -> Any:
    """The last stage: storage dtype, unless it is already right."""
    from tuner.tvm_api import te

    if str(out.dtype) == call.out_dtype:
        return out
    return te.compute(out.shape, lambda *index: out(*index).astype(call.out_dtype), name="cast")


def reference_epilogue(call: OpCall, product: Array, inputs: Mapping[str, Array], channel_axis: int) -> Array:
    out = product
    for step in call.epilogue:
        if step == BIAS:
            broadcast = [1] * out.ndim
            broadcast[channel_axis] = -1
            out = out + inputs[BIAS].reshape(broadcast)
        elif step == RESIDUAL:
            out = out + inputs[RESIDUAL]
        elif step == "relu":
            out = np.maximum(out, 0)
        else:
            out = gelu(out)
    return out


def gelu(x: Array) -> Array:
    """x * Phi(x), the exact form with erf (Hendrycks and Gimpel, 2016), in float64."""
    from scipy.special import erf  # 0.2 s: the command line reads this catalogue and needs no reference

    result: Array = 0.5 * x * (1.0 + erf(x * 0.5**0.5))
    return result
