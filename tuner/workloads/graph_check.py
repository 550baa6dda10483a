"""Checks a foreign module's JSON before TVM reads it: TVM's own reader crashes the process on damaged text.

Every node's type, fields, links and the types behind the links are checked against TVM's reflection.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.graph import RAW, Graph, Node, base_types, links, schema
from tuner.workloads.spec_values import show

MAX_NODES = 400_000
MAX_DEPTH = 2_000
_SCALARS: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "bool": (bool,),
    "float": (float, int),
    "ffi.String": (str,),
    "ir.Op": (str,),
    "ir.SourceName": (str,),
}
_NULLABLE = frozenset({"ir.Span", "ir.Attrs", "ffi.Function", "relax.VDevice"})
_RANGES: Mapping[str, tuple[int, int]] = {"iter_type": (0, 8), "kind": (0, 4), "data_alignment": (1, 1 << 16)}
_DTYPE = re.compile(r"[a-z][a-z0-9_]{0,30}(x[0-9]{1,4})?")
_ADVICE = "write it with tvm.ir.save_json(mod) of TVM 0.27"


def parse_foreign(text: str) -> Graph:
    """The graph of a module's JSON, of which nothing is checked yet but that it has nodes and a root.

    Raises:
        WorkloadError: what is damaged.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"module: not JSON ({show(str(error))}); {_ADVICE}") from None
    nodes = data.get("nodes") if isinstance(data, dict) else None
    if not isinstance(nodes, list) or not nodes:
        raise WorkloadError(f"module: JSON without a list of nodes; {_ADVICE}")
    root = data["root_index"] if isinstance(data, dict) and "root_index" in data else None
    if not isinstance(root, int) or isinstance(root, bool) or not 0 <= root < len(nodes):
        raise WorkloadError(f"module: root_index {show(root)} is none of its {len(nodes)} nodes; {_ADVICE}")
    return Graph(nodes, root)


def check_graph(graph: Graph) -> None:
    """Checks all that the root refers to: fields, links, and that each leads to a node of the type that TVM expects.

    What the root does not refer to may be anything: other functions of the module, and their weights.

    Raises:
        WorkloadError: the first node that is wrong.
    """
    seen = {graph.root}
    stack = [graph.root]
    while stack:
        index = stack.pop()
        for child in check_node(graph, index):
            if child not in seen:
                seen.add(child)
                stack.append(child)
        if len(seen) > MAX_NODES:
            raise WorkloadError(f"module: the function has more than {MAX_NODES} nodes; split it")
    depths: dict[int, int] = {}
    for index in sorted(seen):
        node = graph.nodes[index]
        depths[index] = 1 + max((depths[child] for _, child in links(node)), default=0)
        if depths[index] > MAX_DEPTH:
            raise WorkloadError(f"module: nested more than {MAX_DEPTH} deep; split its expressions")
        if node["type"] != "ir.DictAttrs" and isinstance(node.get("data"), dict):
            _check_types(graph, index, node)


def check_node(graph: Graph, index: int) -> list[int]:
    """Checks one node, whatever it links to, and returns those links.

    Raises:
        WorkloadError: an unknown type, other fields than that type has, or links that lead nowhere.
    """
    node = graph.nodes[index]
    if not isinstance(node, dict) or not isinstance(node.get("type"), str) or not set(node) <= {"type", "data"}:
        raise WorkloadError(f"module: node {index} is {show(node)}, not a typed node; {_ADVICE}")
    _check_data(index, node)
    found = []
    for name, child in links(node):
        if not isinstance(child, int) or isinstance(child, bool) or not 0 <= child < index:
            raise _damaged(index, node, f"field {name} links to {show(child)}")
        found.append(child)
    return found


def _check_types(graph: Graph, index: int, node: Node) -> None:
    for name, expected in schema(node["type"]).items():
        value = node["data"][name]
        if expected["type"] not in RAW and not _fits(graph, value, expected):
            wanted = " of ".join([expected["type"], *(arg["type"] for arg in expected.get("args", ())[-1:])])
            raise _damaged(index, node, f"field {name} wants {wanted}, got something else ({graph.kind(value)})")


def _check_data(index: int, node: Node) -> None:
    """Exactly the type's fields, and raw values of the right kind."""
    kind, data = node["type"], node.get("data")
    if kind == "None":
        sound = "data" not in node
    elif kind in _SCALARS:
        sound = type(data) in _SCALARS[kind]
        if kind == "int" and isinstance(data, int):
            sound = sound and -(2**63) <= data < 2**63
    elif kind == "ffi.Array":
        sound = isinstance(data, list)
    elif kind == "ffi.Map":
        sound = isinstance(data, list) and len(data) % 2 == 0
    elif kind == "ir.DictAttrs":
        sound = isinstance(data, dict) and set(data) == {"__dict__"}
    else:
        fields = schema(kind)
        if not isinstance(data, dict) or set(data) != set(fields):
            raise _damaged(index, node, f"wants the fields {', '.join(fields)}, got {show(data)}")
        for name, expected in fields.items():
            if expected["type"] in RAW and not _raw_fits(name, expected["type"], data[name]):
                raise _damaged(index, node, f"field {name} is {show(data[name])}")
        return
    if not sound:
        raise _damaged(index, node, f"holds {show(data)}")


def _raw_fits(name: str, expected: str, value: Any) -> bool:
    if expected == "bool":
        return isinstance(value, bool)
    if expected == "float":
        return isinstance(value, float) or _is_int(value)
    if expected == "DataType":
        return isinstance(value, str) and _DTYPE.fullmatch(value) is not None
    low, high = _RANGES.get(name, (-(2**31), 2**31 - 1))
    return _is_int(value) and low <= value <= high


def _fits(graph: Graph, index: int, expected: Mapping[str, Any]) -> bool:
    kind, wanted = graph.kind(index), expected["type"]
    if wanted == "Any":
        return True
    if wanted == "Optional":
        return kind == "None" or _fits(graph, index, expected["args"][0])
    if kind == "None":
        return wanted in _NULLABLE
    if wanted == "ffi.BigInt":
        return kind == "int"
    if wanted in ("ffi.Array", "ffi.Map"):
        if kind != wanted:
            return False
        types = expected.get("args") or [{"type": "Any"}]
        items = graph.items(index)
        return all(_fits(graph, item, types[i % len(types)]) for i, item in enumerate(items))
    if wanted == "Union":
        return any(_fits(graph, index, one) for one in expected["args"])
    if kind in ("int", "bool", "float"):
        return False
    return kind == wanted or wanted in base_types(kind)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _damaged(index: int, node: Node, what: str) -> WorkloadError:
    return WorkloadError(f"module: node {index} ({show(node['type'])}) {what}; it is damaged, {_ADVICE}")
