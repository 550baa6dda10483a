"""What a foreign function may contain: one clear line for everything that can't be tuned, or would run foreign code."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from tuner.errors import WorkloadError
from tuner.workloads.graph import Graph, Node
from tuner.workloads.graph_check import check_node
from tuner.workloads.op_def import FLOAT_DTYPES, INT_RANGE
from tuner.workloads.spec_values import near, show

_MATH = (
    "abs fabs exp exp2 exp10 erf tanh sigmoid log log2 log10 log1p sin cos tan sinh cosh asin acos atan asinh acosh "
    "atanh atan2 sqrt rsqrt pow power floor ceil trunc round nearbyint fmod hypot copysign nextafter ldexp isnan isinf "
    "isfinite "
    "popcount ctpop clz fma if_then_else likely q_multiply_shift q_multiply_shift_per_axis reinterpret"
)
PURE_CALLS = frozenset(f"{dialect}.{name}" for dialect in ("tirx", "prim") for name in _MATH.split())
"""Calls without effect or access to memory. Everything else may run any code, so it is refused."""
CONDITIONALS = frozenset({"tirx.if_then_else", "prim.if_then_else"})
_STATEMENTS = frozenset(
    f"tirx.{name}"
    for name in ("SeqStmt", "For", "BufferStore", "IfThenElse", "Bind", "Evaluate", "AssertStmt", "AllocBuffer")
) | {"s_tir.SBlock", "s_tir.SBlockRealize", "s_tir.MatchBufferRegion", "tirx.PrimFunc", "tirx.IterVar"}
_VALUES = re.compile(
    r"None|int|bool|float|ffi\.(String|Array|Map)|prim\.\w+|tirx\.(BufferType|BufferRegionType)|"
    r"ir\.(Type|PrimType|PointerType|TupleType|Expr|Var|IntImm|FloatImm|StringImm|TensorLoad|TensorRegion|Call|Op|Range|"
    r"DictAttrs|Span|SourceName)|relax\.(TensorType|ShapeType|FuncType|expr\.ShapeExpr)"
)
_REFUSED = {
    "tirx.While": "a while loop; only loops with fixed extents can be scheduled",
    "tirx.Break": "break; only loops with fixed extents can be scheduled",
    "tirx.Continue": "continue; only loops with fixed extents can be scheduled",
    "tirx.Return": "return; results go to buffer parameters",
    "tirx.DeclBuffer": "a buffer declared on the memory of another; use T.match_buffer within a block, or a parameter",
    "tirx.AttrStmt": "an attribute on a statement, as scheduled functions have; give it as it was before",
    "ir.GlobalVar": "a call of another function; only self-contained functions can be tuned",
}
_SERIAL, _THREAD_BINDING = 0, 4


def choose_function(graph: Graph, wanted: str | None) -> int:
    """The PrimFunc to tune.

    Raises:
        WorkloadError: there is none, or several and none was named; the message lists their names.
    """
    check_node(graph, graph.root)
    if graph.kind(graph.root) == "tirx.PrimFunc":
        functions = {"main": graph.root}
    elif graph.kind(graph.root) == "ir.IRModule":
        functions = _functions(graph)
    else:
        kind = graph.kind(graph.root)
        raise WorkloadError(f"module: wants an IRModule, got {show(kind)}; write it with tvm.ir.save_json(mod)")
    if not functions:
        raise WorkloadError("module: has no PrimFunc; lower it to TensorIR first")
    if wanted is not None:
        if wanted not in functions:
            raise WorkloadError(f"module: has no function {show(wanted)}{near(wanted, functions)}")
        return functions[wanted]
    if len(functions) > 1:
        names = ", ".join(show(name) for name in list(functions)[:8]) + (", ..." if len(functions) > 8 else "")
        raise WorkloadError(f"module: has {len(functions)} functions ({names}); choose one: module:FILE.json#NAME")
    return next(iter(functions.values()))


def isolated(graph: Graph, func: int, without: Collection[int] = ()) -> Graph:
    """A graph whose root is the function with neither attributes nor a derived type, less some of its parameters."""
    check_node(graph, func)
    check_node(graph, graph.get(func, "params"))
    params = graph.items(graph.get(func, "params")) if graph.kind(graph.get(func, "params")) == "ffi.Array" else []
    kept = [param for param in params if param not in without]
    first = len(graph.nodes)
    added: list[Node] = [
        {"type": "None"},
        {"type": "ffi.Map", "data": []},
        {"type": "ir.DictAttrs", "data": {"__dict__": first + 1}},
        {"type": "ir.Type", "data": {"span": first}},
        {"type": "ffi.Array", "data": kept},
    ]
    changed = {"span": first, "attrs": first + 2, "ty": first + 3, "params": first + 4}
    added.append({"type": "tirx.PrimFunc", "data": {**graph.nodes[func]["data"], **changed}})
    return Graph([*graph.nodes, *added], first + 5)


def _functions(graph: Graph) -> dict[str, int]:
    """The module's PrimFuncs by name; functions of other kinds are passed over."""
    table = graph.get(graph.root, "functions")
    check_node(graph, table)
    pairs = graph.items(table) if graph.kind(table) == "ffi.Map" else []
    found = {}
    for key, func in zip(pairs[::2], pairs[1::2], strict=True):
        check_node(graph, key)
        if graph.kind(key) != "ir.GlobalVar":
            continue
        name = graph.get(key, "name_hint")
        check_node(graph, name)
        node = graph.nodes[func]
        if graph.kind(name) == "ffi.String" and isinstance(node, dict) and node.get("type") == "tirx.PrimFunc":
            found[graph.text(name)] = func
    return found


def check_contents(graph: Graph, func: int) -> list[str]:
    """Refuses what can't be tuned; returns warnings.

    Raises:
        WorkloadError: names the construct and what to do instead.
    """
    scheduled = False
    reachable = graph.reachable(func)
    for index in reachable:
        kind = graph.kind(index)
        if kind in _REFUSED:
            raise WorkloadError(f"module: has {_REFUSED[kind]}")
        if kind == "ir.Call":
            _check_call(graph, index)
    for index in reachable:
        kind = graph.kind(index)
        if kind not in _STATEMENTS and not _VALUES.fullmatch(kind):
            raise WorkloadError(f"module: has a {show(kind)} node, which is not supported in a function to be tuned")
        if kind == "ir.PrimType":
            _check_dtype(str(graph.get(index, "dtype")))
        elif kind == "tirx.For":
            scheduled |= graph.get(index, "kind") != _SERIAL
            if graph.get(index, "kind") == _THREAD_BINDING:
                raise WorkloadError("module: has loops bound to threads; give the function before it was scheduled")
    _check_blocks(graph, func)
    return ["has loops that are already parallel, vectorized or unrolled"] if scheduled else []


def _check_dtype(dtype: str) -> None:
    base = dtype.partition("x")[0]
    supported = (*FLOAT_DTYPES, *INT_RANGE)
    if base not in (*supported, "void", "handle"):
        raise WorkloadError(f"module: dtype {show(dtype)} is not supported; use one of {', '.join(supported)}")


def _check_call(graph: Graph, call: int) -> None:
    op = graph.get(call, "op")
    if graph.kind(op) != "ir.Op":
        raise WorkloadError("module: has a call of another function; only self-contained functions can be tuned")
    if graph.text(op) not in PURE_CALLS:
        raise WorkloadError(
            f"module: calls {show(graph.text(op))}, which is not supported: only arithmetic can be tuned"
        )
    if any(graph.is_buffer(arg) for arg in graph.items(graph.get(call, "args"))):
        raise WorkloadError(f"module: passes a buffer to {show(graph.text(op))}; pass values")


def _check_blocks(graph: Graph, func: int) -> None:
    advice = "write it with T.prim_func(s_tir=True) and T.sblock, or with te.create_prim_func"
    body = graph.get(func, "body")
    if graph.kind(body) != "s_tir.SBlockRealize" or graph.items(graph.get(graph.get(body, "block"), "iter_vars")):
        raise WorkloadError(f"module: the function's body is no root block, so it can't be scheduled; {advice}")
    blocks = 0
    for index in graph.reachable(func):
        kind = graph.kind(index)
        blocks += kind == "s_tir.SBlock"
        if kind in ("ir.TensorLoad", "tirx.BufferStore"):
            _check_rank(graph, index, graph.get(index, "source" if kind == "ir.TensorLoad" else "buffer"))
        elif kind == "s_tir.SBlockRealize":
            n_vars = len(graph.items(graph.get(graph.get(index, "block"), "iter_vars")))
            if n_vars != len(graph.items(graph.get(index, "iter_values"))):
                raise WorkloadError(f"module: gives a block with {n_vars} variables another number of values")
    if blocks < 2:
        raise WorkloadError(f"module: the function has no block that could be scheduled; {advice}")


def _check_rank(graph: Graph, access: int, buffer: int) -> None:
    n_indices = len(graph.items(graph.get(access, "indices")))
    if not graph.is_buffer(buffer) or len(graph.shape(buffer)) != n_indices:
        raise WorkloadError("module: indexes a buffer with another number of indices than it has dimensions")


def variables(graph: Graph, expressions: Iterable[int]) -> list[int]:
    """The variables within expressions, in the order in which they appear in the module."""
    return [index for index in graph.reachable(*expressions) if graph.kind(index) == "ir.Var"]
