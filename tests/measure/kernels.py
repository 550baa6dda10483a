"""Kernels that are right, and kernels that misbehave in one way each; jobs of the test zygote build them in a child."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.script import tirx as T

from tuner.measure.codegen import object_code
from tuner.tvm_api import IRModule, Schedule, te, tvm
from tuner.workloads.workload import ArgSpec, Workload

TARGET = {"kind": "llvm", "num-cores": 2}


def affine_workload(n: int) -> dict[str, Any]:
    """B[i] = 2 A[i] + 1, as a user's own module."""
    return _workload("affine", good(n), [("A", (n,), "in"), ("B", (n,), "out")], 1)


def normalised_workload() -> dict[str, Any]:
    """out[i, j] = sum_c E[i, c] / (sum_b E[i, b]) V[c, j]: a reduction inside another."""
    args = [("E", (40, 24), "in"), ("V", (24, 16), "in"), ("out", (40, 16), "out")]
    return _workload("normalised", normalised(0), args, 48, low=0.1, high=1.1)


def kernel(name: str, n: int) -> bytes:
    """Object code of one of this file's kernels."""
    make: Callable[[int], Any] = globals()[name]
    made = make(n)
    return object_code(made if isinstance(made, IRModule) else _module(made), TARGET)


def untuned(module_json: str) -> bytes:
    """Object code of any module as it is."""
    return object_code(tvm.ir.load_json(module_json), TARGET)


def _module(function: Any) -> IRModule:
    return IRModule({"main": function.with_attr("global_symbol", "main")})


def _workload(label: str, function: Any, args: list[tuple[Any, ...]], length: int, **bounds: float) -> dict[str, Any]:
    specs = [ArgSpec(name=a, shape=s, dtype="float32", role=r, **(bounds if r == "in" else {})) for a, s, r in args]
    module = function if isinstance(function, IRModule) else _module(function)
    return Workload(
        key=label,
        label=label,
        spec={"module": label},
        module_json=tvm.ir.save_json(module),
        args=tuple(specs),
        flop=1.0,
        bytes_moved=1.0,
        reduction_length=length,
        acc_dtype="float32",
        has_reference=False,
    ).to_dict()


def good(n: int) -> Any:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n):
            with T.sblock("b"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] * T.float32(2) + T.float32(1)

    return main


def parallel(n: int) -> Any:
    schedule = Schedule(_module(good(n)))
    (loop,) = schedule.get_loops(schedule.get_sblock("b"))
    schedule.parallel(loop)
    return schedule.mod


def wrong_in_one(n: int) -> Any:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n):
            with T.sblock("b"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] * T.float32(2) + T.if_then_else(v == 777777 % n, T.float32(1.001), T.float32(1))

    return main


def unwritten(n: int) -> Any:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n - 1):
            with T.sblock("b"):
                v = T.axis.spatial(n - 1, i)
                B[v] = A[v] * T.float32(2) + T.float32(1)

    return main


def modifies_input(n: int) -> Any:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n):
            with T.sblock("b"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] * T.float32(2) + T.float32(1)
                A[v] = A[v] + T.float32(1)

    return main


def _stores_at(n: int, offset: int) -> Any:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n):
            with T.sblock("b"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] * T.float32(2) + T.float32(1)
        for i in range(1):
            with T.sblock("stray"):
                v = T.axis.spatial(1, i)
                B[v + T.int64(offset)] = T.float32(0)

    return main


def right_the_first_time(n: int) -> Any:
    """Its last element counts on from what a run before left there; over the poison of an output it is right."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n - 1):
            with T.sblock("b"):
                v = T.axis.spatial(n - 1, i)
                B[v] = A[v] * T.float32(2) + T.float32(1)
        for i in range(1):
            with T.sblock("last"):
                v = T.axis.spatial(1, i)
                B[v + (n - 1)] = T.if_then_else(
                    T.float32(-1000) < B[v + (n - 1)] and B[v + (n - 1)] < T.float32(1e30),
                    B[v + (n - 1)] + T.float32(1),
                    A[v + (n - 1)] * T.float32(2) + T.float32(1),
                )

    return main


def one_past_the_end(n: int) -> Any:
    return _stores_at(n, n)


def one_before_the_start(n: int) -> Any:
    return _stores_at(n, -1)


def far_out(n: int) -> Any:
    return _stores_at(n, 1 << 40)


def calls(n: int, *statements: Any) -> Any:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        while T.call_extern("int32", "getpid") != 0:
            T.evaluate(statements[0]())
            B[0] = A[0]

    return main


def never_ends(n: int) -> Any:
    return calls(n, lambda: T.call_extern("int32", "usleep", 10))


def aborts(n: int) -> Any:
    return calls(n, lambda: T.call_extern("void", "abort"))


def exits(n: int) -> Any:
    return calls(n, lambda: T.call_extern("void", "_exit", 7))


def eats_memory(n: int) -> Any:
    size = T.uint64(64 << 20)
    private_anonymous = 0x22
    pages = T.call_extern("handle", "mmap", T.uint64(0), size, 3, private_anonymous, -1, T.int64(0))
    return calls(n, lambda: T.call_extern("handle", "memset", pages, 1, size))


def sleeps(n: int) -> Any:
    """Right, and 0.2 s long."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        T.evaluate(T.call_extern("int32", "usleep", 200000))
        for i in range(n):
            with T.sblock("b"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] * T.float32(2) + T.float32(1)

    return main


def killed(n: int) -> Any:
    """As the kernel's memory killer would do it."""
    return calls(n, lambda: T.call_extern("int32", "raise", 9))


def normalised(n: int) -> IRModule:
    e = te.placeholder((40, 24), "float32", name="E")
    v = te.placeholder((24, 16), "float32", name="V")
    b, c = te.reduce_axis((0, 24), "b"), te.reduce_axis((0, 24), "c")
    z = te.compute((40,), lambda i: te.sum(e[i, b], axis=b), name="z")
    out = te.compute((40, 16), lambda i, j: te.sum(e[i, c] / z[i] * v[c, j], axis=c), name="out")
    return _module(te.create_prim_func([e, v, out]))


def zeroing_hoisted(n: int) -> IRModule:
    """The row sum runs under the consumer's reduction loop, while its zeroing was moved above that loop."""
    schedule = Schedule(normalised(0), debug_mask="all")
    z, out = schedule.get_sblock("z"), schedule.get_sblock("out")
    i, j, c = schedule.get_loops(out)
    outer, inner = schedule.split(c, [3, None])
    schedule.reorder(i, outer, j, inner)
    schedule.compute_at(z, outer)
    schedule.decompose_reduction(out, outer)
    schedule.decompose_reduction(z, schedule.get_loops(z)[1])
    return schedule.mod


def in_lanes(n: int) -> IRModule:
    """A right schedule that adds in another order."""
    schedule = Schedule(normalised(0))
    z = schedule.get_sblock("z")
    _, b = schedule.get_loops(z)
    _, lane = schedule.split(b, [None, 8])
    schedule.rfactor(lane, 1)
    return schedule.mod
