"""Between which ends an integer expression of loop variables stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tuner.workloads.graph import Graph

SPATIAL, REDUCE = 0, 2
"""TVM's kinds of block variables: data parallel, commutative reduction."""

Interval = tuple[int | None, int | None]
"""[low, high], both ends included; None where an end is not known, as for a loaded value."""
UNKNOWN: Interval = (None, None)
_BINARY = ("prim.Add", "prim.Sub", "prim.Mul", "prim.FloorDiv", "prim.FloorMod", "prim.Min", "prim.Max")


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop variable or a block's variable, within [low, high].

    `trips` is how many values it takes, on average where that depends on outer loops. `exact` says that it takes all of
    [low, high] always. `kind` is None for loops. `value` is the expression that a block's variable is bound to.
    """

    var: int
    low: int | None
    high: int | None
    trips: float
    exact: bool
    kind: int | None = None
    value: int | None = None

    @property
    def extent(self) -> int:
        """How many values it takes at most; 1 where that is not known."""
        return 1 if self.low is None or self.high is None else max(0, self.high - self.low + 1)


def interval(graph: Graph, index: int, axes: Mapping[int, Axis], bound: Mapping[int, int]) -> Interval:
    """The interval of an expression. `bound` maps variables to the expressions they stand for."""
    constant = graph.const(index)
    if constant is not None:
        return constant, constant
    kind = graph.kind(index)
    if kind == "ir.Var":
        if index in bound:
            return interval(graph, bound[index], axes, bound)
        axis = axes.get(index)
        return (axis.low, axis.high) if axis else UNKNOWN
    if kind == "prim.Cast":
        return interval(graph, graph.get(index, "value"), axes, bound)
    if kind not in _BINARY:
        return UNKNOWN
    a = interval(graph, graph.get(index, "a"), axes, bound)
    b = interval(graph, graph.get(index, "b"), axes, bound)
    return _combine(kind, a, b)


def _combine(kind: str, a: Interval, b: Interval) -> Interval:
    if kind == "prim.Add":
        return plus(a[0], b[0]), plus(a[1], b[1])
    if kind == "prim.Sub":
        return minus(a[0], b[1]), minus(a[1], b[0])
    if kind == "prim.Min":
        return _both(min, a[0], b[0]), _either(min, a[1], b[1])
    if kind == "prim.Max":
        return _either(max, a[0], b[0]), _both(max, a[1], b[1])
    divisor = b[0] if b[0] == b[1] and b[0] is not None and b[0] > 0 else None
    if kind == "prim.FloorMod" and divisor is not None:
        inside = a[0] is not None and a[1] is not None and a[0] >= 0 and a[1] < divisor
        return a if inside else (0, divisor - 1)
    if kind == "prim.FloorDiv" and divisor is not None:
        return None if a[0] is None else a[0] // divisor, None if a[1] is None else a[1] // divisor
    if kind == "prim.Mul" and None not in a and None not in b:
        products = [x * y for x in a for y in b if x is not None and y is not None]
        return min(products), max(products)
    return UNKNOWN


def _both(choose: Callable[[int, int], int], x: int | None, y: int | None) -> int | None:
    return None if x is None or y is None else choose(x, y)


def _either(choose: Callable[[int, int], int], x: int | None, y: int | None) -> int | None:
    """One known end is enough: a minimum never exceeds it, a maximum never falls below it."""
    return y if x is None else x if y is None else choose(x, y)


def plus(x: int | None, y: int | None) -> int | None:
    return None if x is None or y is None else x + y


def minus(x: int | None, y: int | None) -> int | None:
    return None if x is None or y is None else x - y
