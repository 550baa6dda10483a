"""The canonical form: one key for modules that differ only in names, in every process; else another key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tvm import te

from tests.workloads import modules
from tuner.errors import WorkloadError
from tuner.tvm_api import tirx, tvm, tvm_ffi
from tuner.workloads.canonical import canonical_module, canonical_text
from tuner.workloads.catalog import PRESETS
from tuner.workloads.graph import Graph
from tuner.workloads.resolve import load_module, resolve
from tuner.workloads.spec import parse_workload


def product(names: str = "abkc", size: int = 8, dtype: str = "float32", factor: float = 1.5, swap: bool = False) -> Any:
    a = te.placeholder((size, 6), dtype, name=names[0])
    b = te.placeholder((6, 4), dtype, name=names[1])
    k = te.reduce_axis((0, 6), names[2])
    element = (
        (lambda i, j: te.sum(b[k, j] * a[i, k], axis=k)) if swap else (lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
    )
    c = te.compute((size, 4), element, name=names[3])
    return te.create_prim_func(
        [a, b, te.compute((size, 4), lambda i, j: c[i, j] * tirx.const(factor, dtype), name="d")]
    )


def key(func: Any) -> str:
    return canonical_module(func)[2]


def test_names_do_not_matter() -> None:
    assert key(product()) == key(product("xyzw")) == key(product().with_attr("global_symbol", "other"))


def test_anything_else_matters() -> None:
    variants = [
        product(),
        product(size=9),
        product(dtype="float16"),
        product(factor=1.25),
        product(swap=True),
        modules.scale(),
        modules.scale(rows=9),
        modules.strided_input(),
    ]
    assert len({key(func) for func in variants}) == len(variants)


def test_block_annotations_matter() -> None:
    schedule = tvm.s_tir.Schedule(product())
    schedule.annotate(schedule.get_sblock("c"), "hint", 1)
    assert key(schedule.mod["main"]) != key(product())


def test_renamed_blocks_give_the_same_module() -> None:
    schedule = tvm.s_tir.Schedule(product("aac2"))
    names = [block.name_hint for block in _blocks(canonical_module(schedule.mod["main"])[0]["main"])]
    assert names == ["root", "block1", "block2"]


def _blocks(func: Any) -> list[Any]:
    found = []
    tvm_blocks = [func.body.block]
    while tvm_blocks:
        block = tvm_blocks.pop(0)
        found.append(block)
        body = block.body
        statements = list(body.seq) if hasattr(body, "seq") else [body]
        for statement in statements:
            while hasattr(statement, "body"):
                statement = statement.body
            if hasattr(statement, "block"):
                tvm_blocks.append(statement.block)
    return found


def test_the_canonical_form_is_a_fixed_point_and_computes_the_same() -> None:
    module, text, first = canonical_module(product())
    again, text_again, second = canonical_module(module["main"])
    assert (text_again, second) == (text, first)
    tvm_ffi_equal = tvm_ffi.structural_equal
    assert tvm_ffi_equal(again, module)
    plain = product().with_attr({"global_symbol": "main", "tirx.noalias": True})
    assert tvm_ffi_equal(module["main"].body, plain.body, map_free_vars=True)


def test_nothing_of_the_source_remains() -> None:
    _, text, _ = canonical_module(modules.scatter_add())
    assert "ir.Span" not in text
    assert "modules.py" not in text
    assert "scatter" not in text


def test_sharing_of_nodes_does_not_matter() -> None:
    """A module read back from text in which no two constants share a node has the same key."""
    text = tvm.ir.save_json(tvm.IRModule({"main": product()}))
    graph = Graph.parse(text)
    assert canonical_text(Graph(*_unshared(graph))) == canonical_text(graph)


def _unshared(graph: Graph) -> tuple[list[dict[str, Any]], int]:
    nodes: list[dict[str, Any]] = []
    moved: dict[int, int] = {}

    def copy(index: int) -> int:
        if index in moved:
            return moved[index]
        node = graph.nodes[index]
        if node["type"] in ("ir.IntImm", "ir.FloatImm", "ir.PrimType", "None", "int", "ffi.String"):
            nodes.append(_relinked(node))
            return len(nodes) - 1
        nodes.append(_relinked(node))
        moved[index] = len(nodes) - 1
        return moved[index]

    def _relinked(node: dict[str, Any]) -> dict[str, Any]:
        from tuner.workloads.graph import links

        linked: dict[Any, int] = {name: copy(child) for name, child in links(node)}
        data = node.get("data")
        if isinstance(data, list):
            return {"type": node["type"], "data": [linked[i] for i in range(len(data))]}
        if isinstance(data, dict):
            return {"type": node["type"], "data": {n: linked.get(n, v) for n, v in data.items()}}
        return dict(node)

    root = copy(graph.root)
    return nodes, root


def test_keys_are_the_same_in_another_process() -> None:
    lines = [PRESETS["bert-dense"], PRESETS["resnet-conv"], PRESETS["attention"]]
    code = (
        "import sys, json\n"
        "from tuner.workloads.resolve import resolve\n"
        "from tuner.workloads.spec import parse_workload\n"
        "print(json.dumps([resolve(parse_workload(line)).key for line in sys.argv[1:]]))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = subprocess.run([sys.executable, "-c", code, *lines], env=env, capture_output=True, text=True, check=True)
    assert json.loads(there.stdout) == [resolve(parse_workload(line)).key for line in lines]


def test_operators_that_compute_the_same_share_a_key() -> None:
    plain = resolve(parse_workload("matmul:m=8,n=9,k=10"))
    bounded = resolve(parse_workload("matmul:m=8,n=9,k=10,inputs.a=0:1"))
    assert plain.key == bounded.key
    assert plain.key != resolve(parse_workload("matmul:m=8,n=9,k=11")).key
    assert plain.key == resolve(parse_workload({"module_json": plain.module_json})).key


def test_loading_gives_back_the_text() -> None:
    workload = resolve(parse_workload("layer_norm:shape=4x8"))
    assert canonical_module(load_module(workload)["main"])[1] == workload.module_json


def test_a_module_that_explodes_when_written_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sequence holds the one before it twice: 2^40 statements in 80 nodes."""
    monkeypatch.setattr("tuner.workloads.canonical.MAX_NODES", 5_000)
    graph = Graph.parse(tvm.ir.save_json(tvm.IRModule({"main": modules.scale()})))
    store = next(i for i, node in enumerate(graph.nodes) if node["type"] == "tirx.BufferStore")
    nodes: list[dict[str, Any]] = list(graph.nodes)
    none = next(i for i, node in enumerate(nodes) if node["type"] == "None")
    for _ in range(40):
        nodes.append({"type": "ffi.Array", "data": [store, store]})
        nodes.append({"type": "tirx.SeqStmt", "data": {"span": none, "seq": len(nodes) - 1}})
        store = len(nodes) - 1
    with pytest.raises(WorkloadError, match="split the module"):
        canonical_text(Graph(nodes, store))
