"""The canonical form of a module: one text, and so one key, for all modules that compute the same in the same way.

Names of variables, buffers and blocks are replaced by order of appearance; source positions and metadata go; equal
constants, types and expressions become one node. Two modules that differ only in such things get equal text in every
process; anything else (a constant, a dtype, the order of loops, a block's annotation) changes it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tuner.tvm_api import IRModule, tvm
from tuner.workloads.graph import Node, links

_IDENTITY = frozenset({"ir.Var", "ir.GlobalVar"})
"""Two of these with equal content are still different: they stay as they are."""
_TREE_PREFIXES = ("tirx.", "s_tir.")
"""Statements and iteration variables are never shared: TVM's schedules tell them apart by address."""
_SHARED = frozenset({"tirx.BufferType", "tirx.BufferRegionType", "tirx.PrimFunc"})
_FIRST = ("attrs", "params", "iter_vars", "loop_var", "var", "alloc_buffers", "match_buffers", "init", "seq")
"""Fields visited before the others, so that names are numbered in reading order."""
MAX_NODES = 500_000


def canonical_module(func: Any) -> tuple[IRModule, str, str]:
    """The canonical module of one PrimFunc, its JSON text, and its key (sha256 of the text).

    The function is named `main`; `tirx.noalias` says that no two arguments overlap, which the runner guarantees.
    """
    module = IRModule({"main": _plain_attrs(func)})
    text = canonical_text(json.loads(tvm.ir.save_json(module)))
    return tvm.ir.load_json(text), text, hashlib.sha256(text.encode()).hexdigest()


def _plain_attrs(func: Any) -> Any:
    """Drops attributes that describe where a function came from, not what it computes."""
    for name in list(func.attrs.keys()) if func.attrs else []:
        func = func.without_attr(name)
    return func.with_attr({"global_symbol": "main", "tirx.noalias": True, "s_tir": True})


def canonical_text(graph: dict[str, Any]) -> str:
    """The canonical JSON text of a module's parsed JSON."""
    return json.dumps(_Canonicaliser(graph["nodes"]).run(graph["root_index"]), separators=(",", ":"), sort_keys=True)


class _Canonicaliser:
    """Walks a graph from its root in a fixed order and writes every node anew."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.out: list[Node] = []
        self.by_content: dict[str, int] = {}
        self.by_identity: dict[int, int] = {}
        self.counts: dict[str, int] = {}

    def run(self, root: int) -> dict[str, Any]:
        return {"root_index": self.visit(root), "nodes": self.out}

    def visit(self, index: int) -> int:
        """The new index of an old node."""
        if index in self.by_identity:
            return self.by_identity[index]
        node = self.nodes[index]
        kind = node["type"]
        if len(self.out) > MAX_NODES:
            raise ValueError(f"the module expands to more than {MAX_NODES} nodes")
        written: Node = {"type": kind}
        if "data" in node:
            written["data"] = self._data(node)
        if kind in _IDENTITY:
            self.by_identity[index] = self._append(written)
            return self.by_identity[index]
        if kind.startswith(_TREE_PREFIXES) and kind not in _SHARED:
            return self._append(written)
        content = json.dumps(written, sort_keys=True)
        if content not in self.by_content:
            self.by_content[content] = self._append(written)
        return self.by_content[content]

    def _append(self, node: Node) -> int:
        self.out.append(node)
        return len(self.out) - 1

    def _data(self, node: Node) -> Any:
        data, kind = node["data"], node["type"]
        if not isinstance(data, dict | list):
            return data
        names = {name for name, _ in links(node)}
        if isinstance(data, list):
            return self._map(data) if kind == "ffi.Map" else [self.visit(child) for child in data]
        order = sorted(data, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
        written = {}
        for name in order:
            if name not in names:
                written[name] = data[name]
            elif name == "span":
                written[name] = self._none()
            elif kind == "ir.Var" and name == "name":
                written[name] = self._string(self._fresh(self._prefix(data)))
            elif kind == "s_tir.SBlock" and name == "name_hint":
                written[name] = self._string(self._block_name(self.nodes[data[name]]["data"]))
            else:
                written[name] = self.visit(data[name])
        return {name: written[name] for name in data}

    def _map(self, data: list[int]) -> list[int]:
        """A map's pairs in the order of their keys, where the keys are strings."""
        pairs = list(zip(data[::2], data[1::2], strict=True))
        if all(self.nodes[key]["type"] == "ffi.String" for key, _ in pairs):
            pairs.sort(key=lambda pair: self.nodes[pair[0]]["data"])
        return [self.visit(item) for pair in pairs for item in pair]

    def _prefix(self, var: dict[str, int]) -> str:
        return "b" if self.nodes[var["ty"]]["type"] == "tirx.BufferType" else "v"

    def _fresh(self, prefix: str) -> str:
        self.counts[prefix] = self.counts.get(prefix, 0) + 1
        return f"{prefix}{self.counts[prefix] - 1}"

    def _block_name(self, old: str) -> str:
        return "root" if old == "root" else self._fresh("block")

    def _none(self) -> int:
        return self._constant({"type": "None"})

    def _string(self, text: str) -> int:
        return self._constant({"type": "ffi.String", "data": text})

    def _constant(self, node: Node) -> int:
        content = json.dumps(node, sort_keys=True)
        if content not in self.by_content:
            self.by_content[content] = self._append(node)
        return self.by_content[content]
