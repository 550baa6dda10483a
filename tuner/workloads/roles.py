"""Which arguments a function reads, which it writes, and which it needs the old values of."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.workloads.accesses import Accesses, Store
from tuner.workloads.graph import Graph
from tuner.workloads.workload import Role


def argument_roles(accesses: Accesses, buffers: Sequence[int]) -> dict[int, Role | None]:
    """The role of each buffer parameter; None for one that is neither read nor written.

    "out" is proven: every element is written, and none is read before that. Whatever is written without such a proof
    is "inout": it then starts with values, and every element is compared.
    """
    read: set[int] = set()
    written: set[int] = set()
    needs_old: set[int] = set()
    started: dict[tuple[int | None, int], Store] = {}
    writers: dict[int, set[int]] = {}
    for store in accesses.stores:
        loops = {axis.var for axis in store.scope.loops}
        for source, indices in accesses.loads(store.value, *store.indices):
            buffer = accesses.base(source)
            read.add(buffer)
            start = started.get((store.scope.block, source))
            if start is not None and not store.scope.in_init and _same(accesses.graph, indices, start.indices):
                continue  # a reduction reads what its own init has written
            if buffer not in writers or writers[buffer] & loops:
                needs_old.add(buffer)
        if store.buffer is not None:
            target = accesses.base(store.buffer)
            written.add(target)
            if store.scope.in_init:
                started[store.scope.block, store.buffer] = store
            if target == store.buffer and covers_all(accesses, store):
                writers.setdefault(target, set()).update(loops)
    roles: dict[int, Role | None] = {}
    for buffer in buffers:
        if buffer in written:
            roles[buffer] = "inout" if buffer in needs_old or buffer not in writers else "out"
        else:
            roles[buffer] = "in" if buffer in read else None
    return roles


def covers_all(accesses: Accesses, store: Store) -> bool:
    """Whether a store writes every element of its buffer: each index is a loop over all of that dimension."""
    if store.buffer is None or store.scope.guarded:
        return False
    sizes = accesses.graph.sizes(store.buffer)
    if sizes is None or len(sizes) != len(store.indices):
        return False
    used: set[int] = set()
    for index, size in zip(store.indices, sizes, strict=True):
        loop = _loop_behind(accesses, index)
        if accesses.graph.const(index if loop is None else loop) == 0 and size == 1:
            continue
        axis = None if loop is None else accesses.axes.get(loop)
        if axis is None or loop in used or not axis.exact or (axis.low, axis.high) != (0, size - 1):
            return False
        used.add(axis.var)
    return True


def _loop_behind(accesses: Accesses, index: int) -> int | None:
    """The loop variable, or the constant, that an index plainly is; None for any other expression."""
    graph: Graph = accesses.graph
    while graph.kind(index) == "ir.Var":
        axis = accesses.axes.get(index)
        if axis is None or axis.value is None:
            return index
        index = axis.value
    return index if graph.const(index) is not None else None


def _same(graph: Graph, a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two lists of indices are plainly the same."""

    def equal(x: int, y: int) -> bool:
        return x == y or (graph.const(x) is not None and graph.const(x) == graph.const(y))

    return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
