"""Small modules for the search's tests, as JSON, the way a task carries them."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from tuner.tvm_api import IRModule, te, tvm

TARGET = {"kind": "llvm", "num-cores": 2}


def task(mod: IRModule, level: str = "rules", key: str = "test") -> dict[str, Any]:
    return {"key": key, "module_json": tvm.ir.save_json(mod), "target": TARGET, "level": level}


def module(func: Any) -> IRModule:
    return IRModule({"main": func.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)})


def matmul(m: int = 32, n: int = 48, k: int = 64) -> IRModule:
    a = te.placeholder((m, k), "float32", name="A")
    b = te.placeholder((k, n), "float32", name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return module(te.create_prim_func([a, b, c]))


def scatter_add() -> IRModule:
    """Opaque stores with repeated indices: no rule applies, and running its loop in parallel loses updates."""

    @T.prim_func(s_tir=True)
    def main(values: T.Buffer((256,), "float32"), idx: T.Buffer((256,), "int32"), out: T.Buffer((5,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(5):
            with T.sblock("clear"):
                vi = T.axis.spatial(5, i)
                out[vi] = T.float32(0)
        for i in range(256):
            with T.sblock("add"):
                vi = T.axis.opaque(256, i)
                T.reads(values[vi], idx[vi], out[0:5])
                T.writes(out[0:5])
                out[idx[vi]] = out[idx[vi]] + values[vi]

    return IRModule({"main": main})


def triangular_sum() -> IRModule:
    """The extent of the reduction depends on the row."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((24, 24), "float32"), out: T.Buffer((24,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(24):
            for k in range(i + 1):
                with T.sblock("row"):
                    vi = T.axis.spatial(24, i)
                    vk = T.axis.reduce((0, vi + 1), k)
                    with T.init():
                        out[vi] = T.float32(0)
                    out[vi] = out[vi] + x[vi, vk]

    return IRModule({"main": main})


def accumulate_in_place() -> IRModule:
    """A reduction by hand into an argument that is read and written: no init, every store opaque."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((16, 12), "float32"), b: T.Buffer((12, 8), "float32"), y: T.Buffer((16, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j, k in T.grid(16, 8, 12):
            with T.sblock("acc"):
                y[i, j] = y[i, j] + a[i, k] * b[k, j]

    return IRModule({"main": main})
