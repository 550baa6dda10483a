"""What one call of a foreign function costs, and how its rounding errors may add up; all read off its graph."""

from __future__ import annotations

import math

from tuner.workloads.accesses import Accesses, Store
from tuner.workloads.graph import links
from tuner.workloads.intervals import REDUCE
from tuner.workloads.module_checks import CONDITIONALS

_ARITHMETIC = frozenset(
    f"prim.{name}" for name in ("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max")
)
_FREE_CALLS = CONDITIONALS | {"tirx.likely", "prim.likely", "tirx.reinterpret"}
_COARSEST_FIRST = ("bfloat16", "float16", "float32", "float64")


def count_flop(accesses: Accesses) -> float:
    """Arithmetic of one call: each operator and each function like exp is 1. Indices are free, conditions are taken.

    Starting values of reductions are free too: they run once per output element.
    """
    total = 0.0
    for store in accesses.stores:
        if store.buffer is not None and not store.scope.in_init:
            trips = math.prod(axis.trips for axis in store.scope.loops)
            total += trips * _operations(accesses, store.value)
    return total


def _operations(accesses: Accesses, value: int) -> int:
    graph, count = accesses.graph, 0
    seen: set[int] = set()
    stack = [value]
    while stack:
        index = stack.pop()
        if index in seen:
            continue
        seen.add(index)
        kind = graph.kind(index)
        if kind == "ir.TensorLoad":
            continue
        if kind == "ir.Var":
            stack += [accesses.bound[index]] if index in accesses.bound else []
            continue
        count += kind in _ARITHMETIC
        if kind == "ir.Call":
            op = graph.get(index, "op")
            count += graph.kind(op) == "ir.Op" and graph.text(op) not in _FREE_CALLS
        stack += [child for _, child in links(graph.nodes[index])]
    return count


def longest_reduction(accesses: Accesses) -> int:
    """Accumulated terms behind one output element: reductions that feed each other add up; max and min do not round."""
    depth: dict[int, int] = {}
    for store in accesses.stores:
        if store.buffer is None or store.scope.in_init:
            continue
        target = accesses.base(store.buffer)
        sources = {accesses.base(buffer) for buffer, _ in accesses.loads(store.value)} - {target}
        before = max((depth.get(source, 0) for source in sources), default=0)
        depth[target] = max(depth.get(target, 0), before + _own_length(accesses, store))
    return max(1, max(depth.values(), default=1))


def _own_length(accesses: Accesses, store: Store) -> int:
    """How many terms a store adds to one element of its buffer; 0 where it accumulates nothing."""
    if not _accumulates(accesses, store):
        return 0
    reduced = [axis.extent for axis in store.scope.axes if axis.kind == REDUCE]
    if reduced:
        return math.prod(reduced)
    fixed = _loops_of(accesses, *store.indices)
    return math.prod(axis.extent for axis in store.scope.loops if axis.var not in fixed)


def _accumulates(accesses: Accesses, store: Store) -> bool:
    """Whether a store reads its own buffer and does more with it than choose between values."""
    graph, value = accesses.graph, store.value
    while True:
        if graph.kind(value) == "prim.Cast":
            value = graph.get(value, "value")
        elif value in accesses.bound:
            value = accesses.bound[value]
        else:
            break
    own = any(accesses.base(b) == accesses.base(store.buffer or 0) for b, _ in accesses.loads(store.value))
    return own and graph.kind(value) not in ("prim.Max", "prim.Min", "prim.Select")


def _loops_of(accesses: Accesses, *expressions: int) -> set[int]:
    """The loop variables that fix an index; none where the index is a loaded value, which any iteration may hit."""
    if next(accesses.loads(*expressions), None) is not None:
        return set()
    found: set[int] = set()
    for node in accesses.expression_nodes(*expressions):
        axis = accesses.axes.get(node)
        if axis is not None and axis.value is not None:
            found |= _loops_of(accesses, axis.value)
        elif axis is not None:
            found.add(node)
    return found


def accumulation_dtype(accesses: Accesses) -> str:
    """The coarsest dtype in which values are accumulated or kept between stages; without either, the outputs' dtype."""
    kept, stored = set(), set()
    allocated = set(accesses.allocated)
    for store in accesses.stores:
        if store.buffer is not None:
            dtype = accesses.graph.dtype(store.buffer)
            stored.add(dtype)
            if accesses.base(store.buffer) in allocated or _accumulates(accesses, store):
                kept.add(dtype)
    found = kept or stored
    floats = [dtype for dtype in _COARSEST_FIRST if dtype in found]
    return floats[0] if floats else min(found, default="float32")
