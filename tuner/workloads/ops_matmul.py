"""Matrix products: matmul, dense (a linear layer with a fused epilogue), batch_matmul."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.workloads.epilogue import build_epilogue, cast_output, epilogue_args, epilogue_flop, reference_epilogue
from tuner.workloads.numpy_later import np
from tuner.workloads.op_def import PRODUCTS, Array, OpCall, Operator, Param, tensor
from tuner.workloads.workload import ArgSpec

_M = Param("m", "size", "rows of the output")
_N = Param("n", "size", "columns of the output")
_K = Param("k", "size", "summed dimension")


def _flag(name: str, doc: str) -> Param:
    return Param(name, "flag", doc, default=False)


def exact_product(equation: str, a: Array, b: Array) -> Array:
    """einsum on float64 BLAS. For int64 inputs the result is still exact: sums of int8 products stay below 2^53."""
    out: Array = np.einsum(equation, a.astype(np.float64), b.astype(np.float64), optimize=True)
    return out.astype(np.int64) if a.dtype.kind == "i" else out


def _matmul_args(call: OpCall) -> list[ArgSpec]:
    batch = (call["batch"],) if "batch" in call.params else ()
    a = (call["k"], call["m"]) if call["transpose_a"] else (call["m"], call["k"])
    b = (call["n"], call["k"]) if call["transpose_b"] else (call["k"], call["n"])
    return [
        tensor("a", (*batch, *a), call.dtype),
        tensor("b", (*batch, *b), call.dtype),
        tensor("out", (*batch, call["m"], call["n"]), call.out_dtype, "out"),
    ]


def _build_matmul(call: OpCall) -> Any:
    from tuner.tvm_api import te

    spec_a, spec_b, spec_out = _matmul_args(call)
    a = te.placeholder(spec_a.shape, call.dtype, name="a")
    b = te.placeholder(spec_b.shape, call.dtype, name="b")
    k = te.reduce_axis((0, call["k"]), name="k")

    def element(*index: Any) -> Any:
        *batch, i, j = index
        left = a(*batch, k, i) if call["transpose_a"] else a(*batch, i, k)
        right = b(*batch, j, k) if call["transpose_b"] else b(*batch, k, j)
        return te.sum(left.astype(call.acc_dtype) * right.astype(call.acc_dtype), axis=k)

    product = te.compute(spec_out.shape, element, name=call.op)
    return te.create_prim_func([a, b, cast_output(call, product)])


def _reference_matmul(call: OpCall, inputs: Mapping[str, Array]) -> Array:
    a = "km" if call["transpose_a"] else "mk"
    b = "nk" if call["transpose_b"] else "kn"
    batch = "b" if "batch" in call.params else ""
    return exact_product(f"{batch}{a},{batch}{b}->{batch}mn", inputs["a"], inputs["b"])


def _matmul_flop(call: OpCall) -> float:
    return float(2 * call.params.get("batch", 1) * call["m"] * call["n"] * call["k"])


def _dense_args(call: OpCall) -> list[ArgSpec]:
    shape = (call["m"], call["n"])
    return [
        tensor("data", (call["m"], call["k"]), call.dtype),
        tensor("weight", (call["n"], call["k"]), call.dtype),
        *epilogue_args(call, shape, 1),
        tensor("out", shape, call.out_dtype, "out"),
    ]


def _build_dense(call: OpCall) -> Any:
    from tuner.tvm_api import te

    data = te.placeholder((call["m"], call["k"]), call.dtype, name="data")
    weight = te.placeholder((call["n"], call["k"]), call.dtype, name="weight")
    k = te.reduce_axis((0, call["k"]), name="k")
    product = te.compute(
        (call["m"], call["n"]),
        lambda i, j: te.sum(data[i, k].astype(call.acc_dtype) * weight[j, k].astype(call.acc_dtype), axis=k),
        name="dense",
    )
    out, extra = build_epilogue(call, product, channel_axis=1)
    return te.create_prim_func([data, weight, *extra, out])


def _reference_dense(call: OpCall, inputs: Mapping[str, Array]) -> Array:
    product = exact_product("mk,nk->mn", inputs["data"], inputs["weight"])
    return reference_epilogue(call, product, inputs, channel_axis=1)


MATMUL = Operator(
    name="matmul",
    doc="out[m, n] = a[m, k] @ b[k, n]",
    example="matmul:m=512,n=512,k=512",
    params=(_M, _N, _K, _flag("transpose_a", "a is stored [k, m]"), _flag("transpose_b", "b is stored [n, k]")),
    precisions=PRODUCTS,
    args=_matmul_args,
    build=_build_matmul,
    reference=_reference_matmul,
    flop=_matmul_flop,
    reduction_length=lambda call: call["k"],
)

BATCH_MATMUL = Operator(
    name="batch_matmul",
    doc="out[batch, m, n] = a[batch, m, k] @ b[batch, k, n]",
    example="batch_matmul:batch=12,m=128,n=128,k=64",
    params=(Param("batch", "size", "independent products"), *MATMUL.params),
    precisions=PRODUCTS,
    args=_matmul_args,
    build=_build_matmul,
    reference=_reference_matmul,
    flop=_matmul_flop,
    reduction_length=lambda call: call["k"],
)

DENSE = Operator(
    name="dense",
    doc="out[m, n] = epilogue(data[m, k] @ weight[n, k].T): a linear layer",
    example="dense:m=128,n=3072,k=768,epilogue=bias+gelu",
    params=(_M, _N, _K),
    precisions=PRODUCTS,
    args=_dense_args,
    build=_build_dense,
    reference=_reference_dense,
    flop=lambda call: 2.0 * call["m"] * call["n"] * call["k"] + epilogue_flop(call, (call["m"], call["n"])),
    reduction_length=lambda call: call["k"],
    epilogues=("bias", "relu", "gelu", "residual"),
)
