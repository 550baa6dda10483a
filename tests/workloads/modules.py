"""Modules of the kinds that break tuners, as their users would write them."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import te, tirx
from tvm.script import tirx as T


def save(*functions: Any, names: tuple[str, ...] = ("main",)) -> str:
    """The JSON of a module of these functions."""
    pairs = zip(names, functions, strict=True)
    return str(tvm.ir.save_json(tvm.IRModule({n: f.with_attr("global_symbol", n) for n, f in pairs})))


def scale(rows: int = 8, columns: int = 12, factor: float = 3.0, dtype: str = "float32", name: str = "scaled") -> Any:
    x = te.placeholder((rows, columns), dtype, name="x")
    return te.create_prim_func(
        [x, te.compute((rows, columns), lambda i, j: x[i, j] * tirx.const(factor, dtype), name=name)]
    )


def accumulate_in_place() -> Any:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((10, 14), "float32"), y: T.Buffer((10, 6), "float32"), b: T.Buffer((14, 6), "float32")):
        for i, j, k in T.grid(10, 6, 14):
            with T.sblock("acc"):
                y[i, j] = y[i, j] + a[i, k] * b[k, j]

    return main


def gather_rows() -> Any:
    d = te.placeholder((4, 9, 5), "float32", name="d")
    idx = te.placeholder((4, 7), "int64", name="idx")
    return te.create_prim_func([d, idx, te.compute((4, 7, 5), lambda a, b, c: d[a, idx[a, b], c], name="rows")])


def gather_indirect() -> Any:
    """The index is one more than a loaded value, kept in a stage of its own; a second one is clamped, a third wraps."""
    d = te.placeholder((20,), "float32", name="d")
    near, free, signed = (te.placeholder((6,), "int32", name=name) for name in ("near", "free", "signed"))
    moved = te.compute((6,), lambda i: near[i] + 1, name="moved")
    out = te.compute(
        (6,),
        lambda i: (
            d[moved[i] * 2]
            + d[te.max(te.min(free[i], 19), 0)]
            + d[tirx.Select(signed[i] < 0, signed[i] + 20, signed[i])]
        ),
        name="out",
    )
    return te.create_prim_func([d, near, free, signed, out])


def scatter_add() -> Any:
    @T.prim_func(s_tir=True)
    def main(v: T.Buffer((500,), "float32"), at: T.Buffer((500,), "int32"), out: T.Buffer((9,), "float32")):
        for i in range(9):
            with T.sblock("zero"):
                vi = T.axis.spatial(9, i)
                out[vi] = T.float32(0)
        for i in range(500):
            with T.sblock("add"):
                vi = T.axis.opaque(500, i)
                T.reads(v[vi], at[vi], out[0:9])
                T.writes(out[0:9])
                out[at[vi]] = out[at[vi]] + v[vi]

    return main


def triangular_sum() -> Any:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((24, 24), "float32"), out: T.Buffer((24,), "float32")):
        for i in range(24):
            for k in range(i + 1):
                with T.sblock("row"):
                    vi = T.axis.spatial(24, i)
                    vk = T.axis.reduce((0, vi + 1), k)
                    with T.init():
                        out[vi] = T.float32(0)
                    out[vi] = out[vi] + x[vi, vk]

    return main


def argmin_pair() -> Any:
    x = te.placeholder((11, 40), "float32", name="x")
    k = te.reduce_axis((0, 40), "k")

    def pick(a: Any, b: Any) -> Any:
        first = a[1] <= b[1]
        return tirx.Select(first, a[0], b[0]), tirx.Select(first, a[1], b[1])

    best = te.comm_reducer(pick, lambda ti, tv: (tirx.const(-1, ti), tirx.max_value(tv)), name="best")
    index, value = te.compute((11,), lambda i: best((k.var, x[i, k]), axis=k), name="am")
    return te.create_prim_func([x, index, value])


def axpy_scalar() -> Any:
    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((33,), "float32"),
        a: T.float32,
        shift: T.int32,
        y: T.Buffer((40,), "float32"),
        o: T.Buffer((33,), "float32"),
    ):
        for i in range(33):
            with T.sblock("axpy"):
                vi = T.axis.spatial(33, i)
                o[vi] = a * x[vi] + y[vi + shift]

    return main


def strided_input() -> Any:
    @T.prim_func(s_tir=True)
    def main(x_handle: T.handle, o: T.Buffer((6, 5), "float32")):
        x = T.match_buffer(x_handle, (6, 5), "float32", strides=(9, 1))
        for i, j in T.grid(6, 5):
            with T.sblock("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                o[vi, vj] = x[vi, vj] * T.float32(2)

    return main


def symbolic_matmul() -> Any:
    m = te.var("m", "int64")
    a = te.placeholder((m, 16), "float32", name="a")
    b = te.placeholder((16, 12), "float32", name="b")
    k = te.reduce_axis((0, 16), "k")
    return te.create_prim_func([a, b, te.compute((m, 12), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")])


def half_written() -> Any:
    """Writes only the even elements: the others keep their old values."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((8,), "float32"), o: T.Buffer((16,), "float32")):
        for i in range(8):
            with T.sblock("even"):
                vi = T.axis.spatial(8, i)
                o[vi * 2] = x[vi]

    return main


def running_sum() -> Any:
    """Reads the element before the one it writes: needs its own order, and the first old value."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((16,), "float32"), o: T.Buffer((17,), "float32")):
        for i in range(16):
            with T.sblock("scan"):
                vi = T.axis.opaque(16, i)
                T.reads(x[vi], o[vi])
                T.writes(o[vi + 1])
                o[vi + 1] = o[vi] + x[vi]

    return main


def mirrored() -> Any:
    """Within one loop the second block reads elements that the first has not written yet."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((8,), "float32"), t: T.Buffer((8,), "float32"), o: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("copy"):
                vi = T.axis.spatial(8, i)
                t[vi] = x[vi]
            with T.sblock("mirror"):
                vi = T.axis.spatial(8, i)
                o[vi] = t[7 - vi]

    return main


def lower_half() -> Any:
    """Writes below the diagonal only, the diagonal of another, and the first rows of a third."""

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((8, 8), "float32"),
        low: T.Buffer((8, 8), "float32"),
        diagonal: T.Buffer((8, 8), "float32"),
        top: T.Buffer((8, 8), "float32"),
        folded: T.Buffer((8, 8), "float32"),
        all_of_it: T.Buffer((8, 8), "float32"),
    ):
        for i in range(8):
            for j in range(i + 1):
                with T.sblock("low"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    low[vi, vj] = x[vi, vj]
        for i in range(8):
            with T.sblock("diagonal"):
                vi = T.axis.spatial(8, i)
                diagonal[vi, vi] = x[vi, vi]
        for i, j in T.grid(4, 8):
            with T.sblock("top"):
                vi, vj = T.axis.remap("SS", [i, j])
                top[vi, vj] = x[vi, vj]
        for i, j in T.grid(8, 8):
            with T.sblock("folded"):
                vi = T.axis.spatial(8, i // 2)
                vj = T.axis.spatial(8, j)
                folded[vi, vj] = x[vi, vj]
        for i, j in T.grid(8, 8):
            with T.sblock("all"):
                vi, vj = T.axis.remap("SS", [i, j])
                all_of_it[vi, vj] = x[vj, vi]

    return main


def offset_argument() -> Any:
    """Declares where the argument starts as a variable; arguments start at 0."""

    @T.prim_func(s_tir=True)
    def main(x_handle: T.handle, o: T.Buffer((6,), "float32")):
        start = T.int32()
        x = T.match_buffer(x_handle, (6,), "float32", elem_offset=start)
        for i in range(6):
            with T.sblock("copy"):
                vi = T.axis.spatial(6, i)
                o[vi] = x[vi] * T.float32(2)

    return main


def weighted_starts() -> Any:
    """A reduction whose start is computed, and an index of three times a value less two."""

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((5, 20), "float32"),
        at: T.Buffer((4,), "int32"),
        bias: T.Buffer((5,), "float32"),
        o: T.Buffer((5,), "float32"),
    ):
        for i, k in T.grid(5, 4):
            with T.sblock("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    o[vi] = bias[vi] * T.float32(2) + T.float32(1)
                o[vi] = o[vi] + x[vi, at[vk] * 3 - 2]

    return main


def two_stages() -> Any:
    """Two outputs, the second computed from the first."""
    x = te.placeholder((5, 6), "float16", name="x")
    k = te.reduce_axis((0, 6), "k")
    total = te.compute((5,), lambda i: te.sum(x[i, k].astype("float32"), axis=k), name="total")
    return te.create_prim_func(
        [x, total, te.compute((5, 6), lambda i, j: x[i, j].astype("float32") / total[i], name="share")]
    )


def whole_sum() -> Any:
    x = te.placeholder((7,), "float32", name="x")
    k = te.reduce_axis((0, 7), "k")
    return te.create_prim_func([x, te.compute((), lambda: te.sum(x[k], axis=k), name="total")])


def bounded_loop() -> Any:
    """The number of rounds is a scalar argument."""

    @T.prim_func(s_tir=True)
    def main(n: T.int32, x: T.Buffer((32,), "float32"), o: T.Buffer((32,), "float32")):
        for i in range(n):
            with T.sblock("copy"):
                vi = T.axis.spatial(n, i)
                o[vi] = x[vi] + T.float32(1)

    return main


def endless_loop() -> Any:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((4,), "float32")):
        with T.sblock("spin"):
            T.reads(x[0:4])
            T.writes(x[0:4])
            while x[0] < T.float32(1):
                x[0] = x[0] + x[1]

    return main


def calls_out() -> Any:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((4,), "float32"), o: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("call"):
                vi = T.axis.spatial(4, i)
                o[vi] = T.call_extern("float32", "system", x[vi])

    return main


def no_blocks() -> Any:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((4,), "float32"), o: T.Buffer((4,), "float32")):
        for i in range(4):
            o[i] = x[i] + T.float32(1)

    return main
