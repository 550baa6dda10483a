"""TVM's JSON of an IR module as a graph of plain nodes, with its links told from its numbers by TVM's reflection.

`{"root_index": 7, "nodes": [{"type": "ir.IntImm", "data": {"ty": 4, "value": 5}}, ...]}`: a field holds either a raw
value or another node's index, and only the type's reflected schema tells which. A node links only to nodes before it.
Runs in a child: it needs tvm_ffi.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from tuner.errors import WorkloadError
from tuner.tvm_api import tvm_ffi

Node = dict[str, Any]
RAW = frozenset({"int", "bool", "float", "DataType"})
_FOLDED: Mapping[str, Callable[[int, int], int | None]] = {
    "prim.Add": lambda a, b: a + b,
    "prim.Sub": lambda a, b: a - b,
    "prim.Mul": lambda a, b: a * b,
    "prim.FloorDiv": lambda a, b: a // b if b else None,
    "prim.FloorMod": lambda a, b: a % b if b else None,
    "prim.Min": min,
    "prim.Max": max,
}


@lru_cache(maxsize=512)
def schema(type_key: str) -> Mapping[str, Mapping[str, Any]]:
    """Reflected fields of a node type, base types included: {name: {"type": ..., "args": [...]}}.

    Raises:
        WorkloadError: TVM has no such type.
    """
    fields: dict[str, Mapping[str, Any]] = {}
    info = _type_info(type_key)
    while info is not None:
        for field in info.fields:
            fields.setdefault(field.name, json.loads(field.metadata["type_schema"]))
        info = info.parent_type_info
    return fields


@lru_cache(maxsize=512)
def base_types(type_key: str) -> frozenset[str]:
    """The type itself and all it derives from."""
    info = _type_info(type_key)
    names = set()
    while info is not None:
        names.add(info.type_key)
        info = info.parent_type_info
    return frozenset(names)


def _type_info(type_key: str) -> Any:
    try:
        return tvm_ffi.core._lookup_or_register_type_info_from_type_key(type_key)
    except (TypeError, ValueError, RuntimeError, KeyError):
        raise WorkloadError(f"module: node type {type_key!r} is not known to this TVM") from None


def links(node: Node) -> Iterator[tuple[str | int, int]]:
    """(field name or position, node index) of everything a node refers to."""
    data = node.get("data")
    if isinstance(data, list):
        yield from enumerate(data)
    elif isinstance(data, dict):
        fields = {} if node["type"] == "ir.DictAttrs" else schema(node["type"])
        for name, value in data.items():
            if fields.get(name, {}).get("type") not in RAW:
                yield name, value


class Graph:
    """Read access to the nodes of one parsed JSON. Nodes are named by their index."""

    def __init__(self, nodes: list[Node], root: int) -> None:
        self.nodes = nodes
        self.root = root

    @classmethod
    def parse(cls, text: str) -> Graph:
        """For text that TVM wrote; text from elsewhere goes through graph_check first."""
        data = json.loads(text)
        return cls(data["nodes"], data["root_index"])

    def kind(self, index: int) -> str:
        kind: str = self.nodes[index]["type"]
        return kind

    def get(self, index: int, field: str) -> Any:
        """A field: a node index, or a raw value where the schema says so."""
        return self.nodes[index]["data"][field]

    def items(self, index: int) -> list[int]:
        """The elements of an array."""
        items: list[int] = self.nodes[index]["data"]
        return items

    def text(self, index: int) -> str:
        text: str = self.nodes[index]["data"]
        return text

    def const(self, index: int) -> int | None:
        """The value of an integer constant, None for any other expression."""
        if self.kind(index) != "ir.IntImm":
            return None
        value: int = self.nodes[self.get(index, "value")]["data"]
        return value

    def dtype(self, index: int) -> str:
        """The dtype of a scalar expression or of a buffer's elements; "" where there is none."""
        ty = self.get(index, "ty")
        if self.kind(ty) == "tirx.BufferType":
            ty = self.get(ty, "dtype")
        return str(self.get(ty, "dtype")) if self.kind(ty) == "ir.PrimType" else ""

    def is_buffer(self, index: int) -> bool:
        return self.kind(index) == "ir.Var" and self.kind(self.get(index, "ty")) == "tirx.BufferType"

    def name(self, var: int) -> str:
        return self.text(self.get(var, "name"))

    def shape(self, buffer: int) -> list[int]:
        """The size expressions of a buffer variable."""
        return self.items(self.get(self.get(buffer, "ty"), "shape"))

    def sizes(self, buffer: int) -> tuple[int, ...] | None:
        """Constant sizes of a buffer variable, None if any is symbolic."""
        sizes = [self.const(size) for size in self.shape(buffer)]
        return None if any(size is None for size in sizes) else tuple(size for size in sizes if size is not None)

    def reachable(self, *roots: int) -> list[int]:
        """Every node that a root refers to, roots included, in ascending order: links before what links to them."""
        seen = set(roots)
        stack = list(roots)
        while stack:
            for _, child in links(self.nodes[stack.pop()]):
                if child not in seen:
                    seen.add(child)
                    stack.append(child)
        return sorted(seen)

    def subgraph(self, root: int, values: Mapping[int, int]) -> Graph:
        """What `root` refers to, without source positions.

        Args:
            values: variable -> the constant that replaces it. Integer arithmetic on constants is then folded.
        """
        out: list[Node] = [{"type": "None"}]
        moved: dict[int, int] = {}
        for index in self.reachable(root):
            node = self.nodes[index]
            if index in values:
                moved[index] = _append_const(out, moved[node["data"]["ty"]], values[index])
                continue
            new = {"type": node["type"], **({"data": _relinked(node, moved)} if "data" in node else {})}
            folded = _fold(out, new) if values else None
            if folded is None:
                out.append(new)
                moved[index] = len(out) - 1
            else:
                moved[index] = _append_const(out, new["data"]["ty"], folded)
        return Graph(out, moved[root])

    def to_json(self) -> str:
        return json.dumps({"root_index": self.root, "nodes": self.nodes}, separators=(",", ":"))


def _append_const(out: list[Node], ty: int, value: int) -> int:
    out.append({"type": "int", "data": value})
    out.append({"type": "ir.IntImm", "data": {"span": 0, "ty": ty, "value": len(out) - 1}})
    return len(out) - 1


def _relinked(node: Node, moved: Mapping[int, int]) -> Any:
    """A node's data with links to where their nodes have moved; source positions become None, which is node 0."""
    data = node["data"]
    if isinstance(data, list):
        return [moved[child] for child in data]
    if not isinstance(data, dict):
        return data
    linked: dict[Any, int] = dict(links(node))
    return {name: 0 if name == "span" else moved[value] if name in linked else value for name, value in data.items()}


def _fold(nodes: list[Node], node: Node) -> int | None:
    """The value of integer arithmetic on constants, else None."""
    graph = Graph(nodes, 0)
    if node["type"] == "prim.Cast" and "int" in str(graph.get(node["data"]["ty"], "dtype")):
        return graph.const(node["data"]["value"])
    if node["type"] not in _FOLDED:
        return None
    a, b = (graph.const(node["data"][side]) for side in ("a", "b"))
    return None if a is None or b is None else _FOLDED[node["type"]](a, b)


@contextlib.contextmanager
def deep_recursion(depth: int = 20_000) -> Iterator[None]:
    """Lets plain Python functions nest deeper, for walks over nested expressions."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, depth))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
