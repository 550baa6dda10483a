"""Users' modules with unusual arguments or values, and a wrong variant of each; a job of the tests builds them."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from tuner.measure.codegen import object_code
from tuner.tvm_api import IRModule, te, tvm
from tuner.workloads.workload import ArgSpec, Workload

TARGET = {"kind": "llvm", "num-cores": 2}


def odd_module(name: str) -> dict[str, Any]:
    """{"workload": Workload.to_dict(), "right": object code, "wrong": object code of a slightly different module}."""
    make = globals()[name]
    right, args, fields = make(False)
    wrong, _, _ = make(True)
    module = _module(right)
    workload = Workload(
        key=name,
        label=name,
        spec={"module": name},
        module_json=tvm.ir.save_json(module),
        args=args,
        **{
            "flop": 1.0,
            "bytes_moved": 1.0,
            "reduction_length": 1,
            "acc_dtype": "float32",
            "has_reference": False,
            **fields,
        },
    )
    return {
        "workload": workload.to_dict(),
        "right": object_code(module, TARGET),
        "wrong": object_code(_module(wrong), TARGET),
    }


def _module(function: Any) -> IRModule:
    return IRModule({"main": function.with_attr("global_symbol", "main")})


def arg(name: str, shape: tuple[int, ...], role: str, dtype: str = "float32", **more: Any) -> ArgSpec:
    return ArgSpec(name=name, shape=shape, role=role, dtype=dtype, **more)


def in_place(wrong: bool) -> Any:
    step = 2 if wrong else 1

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32")):
        for i in range(100):
            with T.sblock("add"):
                v = T.axis.opaque(100, i)
                T.reads(A[v], B[v])
                T.writes(B[v])
                B[v] = B[v] + A[v] * T.float32(step)

    return main, (arg("A", (100,), "in"), arg("B", (100,), "inout")), {}


def scalar(wrong: bool) -> Any:
    shift = 1 if wrong else 0

    @T.prim_func(s_tir=True)
    def main(a: T.float32, X: T.Buffer((100,), "float32"), k: T.int32, Out: T.Buffer((100,), "float32")):
        for i in range(100):
            with T.sblock("axpy"):
                v = T.axis.spatial(100, i)
                Out[v] = a * X[v] + T.Cast("float32", k + shift)

    args = (arg("a", (), "scalar"), arg("X", (100,), "in"), arg("k", (), "scalar", "int32", low=0, high=9))
    return main, (*args, arg("Out", (100,), "out")), {}


def strided(wrong: bool) -> Any:
    """The wrong one also stores into the gaps behind its rows."""
    rows, n = (31, 25) if wrong else (32, 24)

    @T.prim_func(s_tir=True)
    def main(x: T.handle, o: T.handle):
        X = T.match_buffer(x, (32, 24), "float32", strides=(40, 1))
        Out = T.match_buffer(o, (32, 24), "float32", strides=(28, 1))
        for i in range(rows):
            for j in range(n):
                with T.sblock("copy"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Out[vi, vj] = X[vi, vj % 24] + T.float32(1)

    args = (arg("X", (32, 24), "in", strides=(40, 1)), arg("Out", (32, 24), "out", strides=(28, 1)))
    return main, args, {}


def half_sum_overflows(wrong: bool) -> Any:
    """Row 0 sums to far more than float16 can hold, the others don't."""
    a = te.placeholder((16, 512), "float16", name="A")
    k = te.reduce_axis((0, 512), "k")
    big = te.compute(
        (16, 512), lambda i, j: tvm.tirx.if_then_else(i == 0, a[i, j] * te.const(1000, "float16"), a[i, j])
    )
    row = 1 if wrong else 0
    c = te.compute((16,), lambda i: te.sum(big[(i + row) % 16, k], axis=k), name="C")
    args = (arg("A", (16, 512), "in", "float16", low=0.5, high=1.5), arg("C", (16,), "out", "float16"))
    return te.create_prim_func([a, c]), args, {"acc_dtype": "float16", "reduction_length": 512}


def half_accumulator_overflows(wrong: bool) -> Any:
    """The sum is more than float16 can hold, a thousandth of it is not: right are inf and what float64 gives."""
    a = te.placeholder((16, 512), "float16", name="A")
    k = te.reduce_axis((0, 512), "k")
    thousand = te.const(1000, "float16")
    s = te.compute((16,), lambda i: te.sum(a[i, k] * thousand, axis=k), name="s")
    c = te.compute((16,), lambda i: te.const(7, "float16") if wrong else s[i] / thousand, name="C")
    args = (arg("A", (16, 512), "in", "float16", low=0.5, high=1.5), arg("C", (16,), "out", "float16"))
    return te.create_prim_func([a, c]), args, {"acc_dtype": "float16", "reduction_length": 512}


def masked_row(wrong: bool) -> Any:
    """Row 3 is fully masked: 0/0. The wrong one computes 0 there."""
    x = te.placeholder((8, 16), "float32", name="X")
    k = te.reduce_axis((0, 16), "k")
    e = te.compute(
        (8, 16), lambda i, j: tvm.tirx.if_then_else(i == 3, te.const(0, "float32"), te.exp(x[i, j])), name="e"
    )
    s = te.compute((8,), lambda i: te.sum(e[i, k], axis=k), name="s")
    floor = te.const(1e-30 if wrong else 0.0, "float32")
    o = te.compute((8, 16), lambda i, j: e[i, j] / (s[i] + floor), name="o")
    return te.create_prim_func([x, o]), (arg("X", (8, 16), "in"), arg("o", (8, 16), "out")), {"reduction_length": 16}


def int8_matmul(wrong: bool) -> Any:
    """The wrong one accumulates in 8 bits."""
    a, b = te.placeholder((8, 64), "int8", name="A"), te.placeholder((64, 8), "int8", name="B")
    k = te.reduce_axis((0, 64), "k")

    def product(i: Any, j: Any) -> Any:
        if wrong:
            return (a[i, k] * b[k, j]).astype("int32")
        return a[i, k].astype("int32") * b[k, j].astype("int32")

    c = te.compute((8, 8), lambda i, j: te.sum(product(i, j), axis=k), name="C")
    args = (arg("A", (8, 64), "in", "int8"), arg("B", (64, 8), "in", "int8"), arg("C", (8, 8), "out", "int32"))
    return te.create_prim_func([a, b, c]), args, {"acc_dtype": "int32", "reduction_length": 64}


def half_bits(wrong: bool) -> Any:
    """Takes a float32 apart: the same in float64 can't be built. The wrong one loses a bit."""
    mask = 0x7FFFFFFE if wrong else 0x7FFFFFFF
    a = te.placeholder((64,), "float32", name="A")
    c = te.compute((64,), lambda i: tvm.tirx.reinterpret("int32", a[i]) & mask, name="C")
    return te.create_prim_func([a, c]), (arg("A", (64,), "in"), arg("C", (64,), "out", "int32")), {}


def sum_of_many(wrong: bool) -> Any:
    """A float32 sum of 4096 terms; the wrong one leaves out the last."""
    a = te.placeholder((64, 4096), "float32", name="A")
    k = te.reduce_axis((0, 4095 if wrong else 4096), "k")
    c = te.compute((64,), lambda i: te.sum(a[i, k], axis=k), name="C")
    args = (arg("A", (64, 4096), "in"), arg("C", (64,), "out"))
    return te.create_prim_func([a, c]), args, {"reduction_length": 4096}


def part_written(wrong: bool) -> Any:
    """Half of the output is left as it was, by the module's own definition; the wrong one writes there."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((128,), "float32")):
        for i in range(65 if wrong else 64):
            with T.sblock("b"):
                v = T.axis.spatial(64, i)
                B[v] = A[v % 64]

    return main, (arg("A", (64,), "in"), arg("B", (128,), "out")), {}
