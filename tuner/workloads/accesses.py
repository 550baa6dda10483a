"""Walks a function's graph in program order and lists its stores, each with the loops and the block around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tuner.errors import WorkloadError
from tuner.workloads.graph import Graph, links
from tuner.workloads.intervals import Axis, Interval, interval

MAX_STORES = 20_000


@dataclass(frozen=True, slots=True)
class Scope:
    """What surrounds a statement. `guarded` is True below a condition: the statement may not run."""

    loops: tuple[Axis, ...] = ()
    block: int | None = None
    axes: tuple[Axis, ...] = ()
    guarded: bool = False
    in_init: bool = False


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[indices] = value`; buffer is None for a bare expression, like a condition."""

    buffer: int | None
    indices: tuple[int, ...]
    value: int
    scope: Scope


@dataclass(slots=True)
class Accesses:
    """All of a function: stores in program order, variables bound to expressions, buffers that are views of others."""

    graph: Graph
    stores: list[Store] = field(default_factory=list)
    bound: dict[int, int] = field(default_factory=dict)
    views: dict[int, int] = field(default_factory=dict)
    axes: dict[int, Axis] = field(default_factory=dict)
    allocated: list[int] = field(default_factory=list)

    def base(self, buffer: int) -> int:
        """The buffer that a view looks at, else the buffer itself."""
        while buffer in self.views:
            buffer = self.views[buffer]
        return buffer

    def loads(self, *expressions: int) -> Iterator[tuple[int, list[int]]]:
        """(buffer, indices) of each load within the expressions, those within indices included."""
        for index in self.expression_nodes(*expressions):
            if self.graph.kind(index) == "ir.TensorLoad":
                yield self.graph.get(index, "source"), self.graph.items(self.graph.get(index, "indices"))

    def expression_nodes(self, *expressions: int) -> list[int]:
        """Every node of the expressions; variables are leaves, but what a bound one stands for is included."""
        seen: set[int] = set()
        stack = list(expressions)
        while stack:
            index = stack.pop()
            if index in seen:
                continue
            seen.add(index)
            if self.graph.kind(index) == "ir.Var":
                stack += [self.bound[index]] if index in self.bound else []
            else:
                stack += [child for _, child in links(self.graph.nodes[index])]
        return sorted(seen)


def walk(graph: Graph, func: int) -> Accesses:
    """All accesses of a PrimFunc whose statements custom.py has accepted."""
    accesses = Accesses(graph)
    _Walk(accesses).statement(graph.get(func, "body"), Scope())
    return accesses


class _Walk:
    def __init__(self, accesses: Accesses) -> None:
        self.found = accesses
        self.graph = accesses.graph

    def statement(self, index: int, scope: Scope) -> None:
        graph, kind = self.graph, self.graph.kind(index)
        if kind == "tirx.SeqStmt":
            for child in graph.items(graph.get(index, "seq")):
                self.statement(child, scope)
        elif kind == "tirx.For":
            self._loop(index, scope)
        elif kind == "s_tir.SBlockRealize":
            self._block(index, scope)
        elif kind == "tirx.BufferStore":
            indices = tuple(graph.items(graph.get(index, "indices")))
            self._store(graph.get(index, "buffer"), indices, graph.get(index, "value"), scope)
        elif kind == "tirx.IfThenElse":
            self._expression(graph.get(index, "condition"), scope)
            for branch in ("then_case", "else_case"):
                if graph.kind(graph.get(index, branch)) != "None":
                    self.statement(graph.get(index, branch), replace(scope, guarded=True))
        elif kind == "tirx.Bind":
            self.found.bound[graph.get(index, "var")] = graph.get(index, "value")
            self._expression(graph.get(index, "value"), scope)
        elif kind in ("tirx.Evaluate", "tirx.AssertStmt"):
            self._expression(graph.get(index, "value" if kind == "tirx.Evaluate" else "condition"), scope)
        elif kind == "tirx.AllocBuffer":
            self.found.allocated.append(graph.get(index, "buffer"))
        elif kind == "tirx.AttrStmt":
            self.statement(graph.get(index, "body"), scope)

    def _expression(self, value: int, scope: Scope) -> None:
        self._store(None, (), value, scope)

    def _store(self, buffer: int | None, indices: tuple[int, ...], value: int, scope: Scope) -> None:
        if len(self.found.stores) >= MAX_STORES:
            raise WorkloadError(f"module: more than {MAX_STORES} statements; split the function")
        self.found.stores.append(Store(buffer, indices, value, scope))

    def _loop(self, index: int, scope: Scope) -> None:
        graph = self.graph
        axis = self._axis(graph.get(index, "loop_var"), index)
        self.statement(graph.get(index, "body"), replace(scope, loops=(*scope.loops, axis)))

    def _block(self, realize: int, scope: Scope) -> None:
        graph, block = self.graph, self.graph.get(realize, "block")
        values = graph.items(graph.get(realize, "iter_values"))
        axes = []
        for iter_var, value in zip(graph.items(graph.get(block, "iter_vars")), values, strict=True):
            axis = self._axis(graph.get(iter_var, "var"), graph.get(iter_var, "dom"))
            axes.append(replace(axis, kind=graph.get(iter_var, "iter_type"), value=value))
            self.found.axes[axis.var] = axes[-1]
        self.found.allocated += graph.items(graph.get(block, "alloc_buffers"))
        for view in graph.items(graph.get(block, "match_buffers")):
            self.found.views[graph.get(view, "buffer")] = graph.get(graph.get(view, "source"), "source")
        guarded = scope.guarded or graph.const(graph.get(realize, "predicate")) != 1
        inner = Scope(scope.loops, block, tuple(axes), guarded)
        if graph.kind(graph.get(block, "init")) != "None":
            self.statement(graph.get(block, "init"), replace(inner, in_init=True))
        self.statement(graph.get(block, "body"), inner)

    def _axis(self, var: int, domain: int) -> Axis:
        """A variable over [min, min + extent) of a loop or a range, whose ends may depend on outer variables."""
        low, extent = (self.graph.get(domain, name) for name in ("min", "extent"))
        start, count = self._interval(low), self._interval(extent)
        high = None if start[1] is None or count[1] is None else start[1] + count[1] - 1
        trips = 1.0 if count[0] is None or count[1] is None else max(0.0, (count[0] + count[1]) / 2)
        exact = self.graph.const(low) is not None and self.graph.const(extent) is not None
        axis = self.found.axes[var] = Axis(var, start[0], high, trips, exact)
        return axis

    def _interval(self, expression: int) -> Interval:
        return interval(self.graph, expression, self.found.axes, self.found.bound)
