"""Within which bounds integers must stay that a function uses as indices, as in gather and scatter."""

from __future__ import annotations

from collections.abc import Collection

from tuner.workloads.accesses import Accesses
from tuner.workloads.intervals import Interval, interval, minus, plus
from tuner.workloads.module_checks import CONDITIONALS


def index_bounds(accesses: Accesses, params: Collection[int]) -> tuple[dict[int, Interval], set[int]]:
    """Bounds, both ends included, by parameter (a buffer or a scalar), and the parameters that defy analysis.

    Args:
        params: the integer parameters.
    """
    search = _Search(accesses, params)
    for store in accesses.stores:
        touched = list(accesses.loads(store.value, *store.indices))
        if store.buffer is not None:
            touched.append((store.buffer, list(store.indices)))
        for buffer, indices in touched:
            sizes = accesses.graph.sizes(buffer)
            for index, size in zip(indices, sizes or (), strict=False):
                search.require(index, (0, size - 1))
    return search.bounds, search.unbounded


class _Search:
    """Pushes "this index lies in [low, high]" down to the values that the index is made of."""

    def __init__(self, accesses: Accesses, params: Collection[int]) -> None:
        self.accesses = accesses
        self.graph = accesses.graph
        self.params = params
        self.bounds: dict[int, Interval] = {}
        self.unbounded: set[int] = set()
        self.open_buffers: set[int] = set()

    def require(self, index: int, within: Interval) -> None:
        if within == (None, None) or not self._data(index):
            return
        kind, graph = self.graph.kind(index), self.graph
        if kind == "ir.TensorLoad":
            self._loaded(self.accesses.base(graph.get(index, "source")), within)
        elif kind == "ir.Var":
            self._variable(index, within)
        elif kind == "prim.Cast":
            self.require(graph.get(index, "value"), within)
        elif kind in ("prim.Select", "ir.Call"):
            self._choice(index, within)
        elif "b" in graph.nodes[index]["data"]:
            self._binary(kind, graph.get(index, "a"), graph.get(index, "b"), within)
        else:
            self._give_up(index)

    def _loaded(self, buffer: int, within: Interval) -> None:
        if buffer in self.params:
            self._narrow(buffer, within)
        elif buffer not in self.open_buffers:
            self.open_buffers.add(buffer)
            for store in self.accesses.stores:
                if store.buffer is not None and self.accesses.base(store.buffer) == buffer:
                    self.require(store.value, within)
            self.open_buffers.discard(buffer)

    def _variable(self, var: int, within: Interval) -> None:
        if var in self.params:
            self._narrow(var, within)
        elif var in self.accesses.bound:
            self.require(self.accesses.bound[var], within)
        elif var in self.accesses.axes:
            value = self.accesses.axes[var].value
            if value is not None:
                self.require(value, within)

    def _choice(self, index: int, within: Interval) -> None:
        """Select(i < 0, i + n, i) and the like: the last branch first; one that contradicts it is dropped."""
        graph = self.graph
        if graph.kind(index) == "prim.Select":
            branches = [graph.get(index, "false_value"), graph.get(index, "true_value")]
        else:
            op, args = graph.get(index, "op"), graph.items(graph.get(index, "args"))
            is_choice = graph.kind(op) == "ir.Op" and graph.text(op) in CONDITIONALS
            branches = [args[2], args[1]] if is_choice else []
        for branch in branches:
            self.require(branch, within)
        if not branches:
            self._give_up(index)

    def _binary(self, kind: str, a: int, b: int, within: Interval) -> None:
        low, high = within
        known_a, known_b = self._interval(a), self._interval(b)
        if kind == "prim.Add":
            if self._data(a) and self._data(b):
                half = None if high is None else high // 2
                self.require(a, (low, half))
                self.require(b, (low, half))
                return
            self.require(a, (minus(low, known_b[0]), minus(high, known_b[1])))
            self.require(b, (minus(low, known_a[0]), minus(high, known_a[1])))
        elif kind == "prim.Sub" and not (self._data(a) and self._data(b)):
            self.require(a, (plus(low, known_b[1]), plus(high, known_b[0])))
            self.require(b, (minus(known_a[1], high), minus(known_a[0], low)))
        elif kind in ("prim.Min", "prim.Max"):
            self._clamp(kind == "prim.Min", a, b, within)
        elif kind in ("prim.Mul", "prim.FloorDiv", "prim.FloorMod", "prim.Div", "prim.Mod"):
            self._scaled(kind, a, b, within)
        else:
            self._give_up(a)
            self._give_up(b)

    def _scaled(self, kind: str, a: int, b: int, within: Interval) -> None:
        low, high = within
        factor = self.graph.const(b)
        if kind == "prim.Mul" and factor is None:
            a, factor = b, self.graph.const(a)
        if factor is None or factor <= 0:
            self._give_up(a)
            self._give_up(b)
        elif kind == "prim.Mul":
            self.require(a, (None if low is None else -(-low // factor), None if high is None else high // factor))
        elif kind in ("prim.FloorDiv", "prim.Div"):
            self.require(
                a, (None if low is None else low * factor, None if high is None else high * factor + factor - 1)
            )
        elif kind == "prim.Mod":
            self.require(a, (0, None))  # a truncating remainder is negative for negative values

    def _clamp(self, is_min: bool, a: int, b: int, within: Interval) -> None:
        """min(x, c) needs no upper bound on x where c itself is low enough; max(x, c) likewise below."""
        low, high = within
        for this, other in ((a, b), (b, a)):
            ends = self._interval(other)
            if is_min and ends[1] is not None and high is not None and ends[1] <= high:
                self.require(this, (low, None))
            elif not is_min and ends[0] is not None and low is not None and ends[0] >= low:
                self.require(this, (None, high))
            else:
                self.require(this, within)

    def _narrow(self, param: int, within: Interval) -> None:
        old = self.bounds.get(param, (None, None))
        lows = [end for end in (old[0], within[0]) if end is not None]
        highs = [end for end in (old[1], within[1]) if end is not None]
        new = (max(lows) if lows else None, min(highs) if highs else None)
        if new[0] is None or new[1] is None or new[0] <= new[1]:
            self.bounds[param] = new

    def _data(self, index: int) -> bool:
        """Whether an expression depends on values that a caller supplies, rather than on loops only."""
        for node in self.accesses.expression_nodes(index):
            kind = self.graph.kind(node)
            if kind == "ir.TensorLoad" or (kind == "ir.Var" and node in self.params):
                return True
            if kind == "ir.Var" and node in self.accesses.axes:
                value = self.accesses.axes[node].value
                if value is not None and self._data(value):
                    return True
        return False

    def _interval(self, index: int) -> Interval:
        return interval(self.graph, index, self.accesses.axes, self.accesses.bound)

    def _give_up(self, index: int) -> None:
        for node in self.accesses.expression_nodes(index):
            if self.graph.kind(node) == "ir.TensorLoad":
                node = self.accesses.base(self.graph.get(node, "source"))
            if node in self.params:
                self.unbounded.add(node)
