"""The canonical form of a module: one text, and so one key, for all modules that compute the same in the same way.

Names of variables, buffers and blocks are replaced by order of appearance; source positions and metadata go; equal
constants, types and expressions become one node. Two modules that differ only in such things get equal text in every
process; anything else (a constant, a dtype, the order of loops, a block's annotation) changes it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tuner.errors import WorkloadError
from tuner.tvm_api import IRModule, tirx, tvm
from tuner.workloads.graph import Graph, Node, deep_recursion, links

_IDENTITY = frozenset({"ir.Var", "ir.GlobalVar"})
"""Two of these with equal content are still different: they stay as they are."""
_STATEMENT_PREFIXES = ("tirx.", "s_tir.")
"""Statements and iteration variables are never shared: TVM's schedules tell them apart by address."""
_TYPES = frozenset({"tirx.BufferType", "tirx.BufferRegionType"})
_CONTAINERS = frozenset({"ffi.Array", "ffi.Map"})
"""May hold statements, so two visits to one of them may give two."""
_FIRST = ("name_hint", "params", "iter_vars", "loop_var", "var", "alloc_buffers", "match_buffers", "init", "seq")
"""Fields visited before the others, so that names are numbered in reading order."""
MAX_NODES = 200_000


def canonical_module(func: Any) -> tuple[IRModule, str, str]:
    """The canonical module of one PrimFunc, its JSON text, and its key (sha256 of the text).

    The function is named `main` and loses all attributes: they tell where it came from, not what it computes. It gets
    `tirx.noalias`: its arguments never overlap, an in-place one is a single argument.
    """
    plain = tirx.PrimFunc(list(func.params), func.body, func.ret_type)
    plain = plain.with_attr({"global_symbol": "main", "tirx.noalias": True, "s_tir": True})
    text = canonical_text(Graph.parse(tvm.ir.save_json(IRModule({"main": plain}))))
    return tvm.ir.load_json(text), text, hashlib.sha256(text.encode()).hexdigest()


def canonical_text(graph: Graph) -> str:
    """The canonical JSON text of a module's graph.

    Raises:
        WorkloadError: the module shares statements so often that it grows beyond all measure when written out.
    """
    with deep_recursion():
        return json.dumps(_Canonicaliser(graph).run(), separators=(",", ":"), sort_keys=True)


class _Canonicaliser:
    """Walks a graph from its root in a fixed order and writes every node anew."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.out: list[Node] = []
        self.by_content: dict[str, int] = {}
        self.moved: dict[int, int] = {}
        self.counts: dict[str, int] = {}

    def run(self) -> dict[str, Any]:
        return {"root_index": self._visit(self.graph.root), "nodes": self.out}

    def _visit(self, index: int) -> int:
        """The new index of an old node."""
        if index in self.moved:
            return self.moved[index]
        node = self.graph.nodes[index]
        kind = node["type"]
        written: Node = {"type": kind}
        if "data" in node:
            written["data"] = self._data(node)
        if kind.startswith(_STATEMENT_PREFIXES) and kind not in _TYPES:
            return self._append(written)
        new = self._append(written) if kind in _IDENTITY else self._append_once(written)
        if kind not in _CONTAINERS:
            self.moved[index] = new
        return new

    def _append(self, node: Node) -> int:
        if len(self.out) > MAX_NODES:
            raise WorkloadError(f"module: more than {MAX_NODES} nodes when written out; split the module")
        self.out.append(node)
        return len(self.out) - 1

    def _append_once(self, node: Node) -> int:
        content = json.dumps(node, sort_keys=True)
        if content not in self.by_content:
            self.by_content[content] = self._append(node)
        return self.by_content[content]

    def _data(self, node: Node) -> Any:
        data, kind = node["data"], node["type"]
        if isinstance(data, list):
            return self._map(data) if kind == "ffi.Map" else [self._visit(child) for child in data]
        if not isinstance(data, dict):
            return data
        linked = {name for name, _ in links(node)}
        order = sorted(data, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
        return {name: self._field(kind, data, name) if name in linked else data[name] for name in order}

    def _field(self, kind: str, data: dict[str, int], name: str) -> int:
        if name == "span":
            return self._append_once({"type": "None"})
        if kind == "ir.Var" and name == "name":
            buffer = self.graph.kind(data["ty"]) == "tirx.BufferType"
            return self._fresh_name("b" if buffer else "v")
        if kind == "s_tir.SBlock" and name == "name_hint":
            return self._fresh_name("block")
        return self._visit(data[name])

    def _map(self, data: list[int]) -> list[int]:
        """A map's pairs in the order of their keys, where the keys are strings."""
        pairs = list(zip(data[::2], data[1::2], strict=True))
        if all(self.graph.kind(key) == "ffi.String" for key, _ in pairs):
            pairs.sort(key=lambda pair: self.graph.text(pair[0]))
        return [self._visit(item) for pair in pairs for item in pair]

    def _fresh_name(self, prefix: str) -> int:
        """b0, b1, ... in order of appearance. The outermost block keeps the name that TVM gives it."""
        count = self.counts[prefix] = self.counts.get(prefix, -1) + 1
        root = prefix == "block" and count == 0
        return self._append_once({"type": "ffi.String", "data": "root" if root else f"{prefix}{count}"})
