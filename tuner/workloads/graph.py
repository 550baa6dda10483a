"""TVM's JSON of an IR module as a graph of plain nodes, with its links told from its numbers by TVM's reflection.

`{"root_index": 7, "nodes": [{"type": "ir.IntImm", "data": {"ty": 4, "value": 5}}, ...]}`: a field holds either a raw
value or another node's index, and only the type's reflected schema tells which. Runs in a child: it needs tvm_ffi.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tuner.errors import WorkloadError
from tuner.tvm_api import tvm_ffi

Node = dict[str, Any]
RAW = frozenset({"int", "bool", "float", "DataType", "Device", "ffi.Shape"})


@lru_cache(maxsize=512)
def schema(type_key: str) -> dict[str, dict[str, Any]]:
    """Reflected fields of a node type, base types included: {name: {"type": ..., "args": [...]}}.

    Raises:
        WorkloadError: TVM has no such type.
    """
    try:
        info = tvm_ffi.core._lookup_or_register_type_info_from_type_key(type_key)
    except (TypeError, ValueError, RuntimeError, KeyError):
        raise WorkloadError(f"module: node type {type_key!r} is not known to this TVM") from None
    fields: dict[str, dict[str, Any]] = {}
    while info is not None:
        for field in info.fields:
            fields.setdefault(field.name, json.loads(field.metadata["type_schema"]))
        info = info.parent_type_info
    return fields


def links(node: Node) -> Iterator[tuple[str | int, int]]:
    """(field name or position, node index) of everything a node refers to."""
    data = node.get("data")
    if isinstance(data, list):
        yield from enumerate(data)
    elif isinstance(data, dict):
        fields = schema(node["type"]) if node["type"] != "ir.DictAttrs" else {}
        for name, value in data.items():
            if fields.get(name, {}).get("type") not in RAW:
                yield name, value
