"""Damaged modules, through the real worker: each ends in one clear error or in a workload, never in a crash."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.workloads import modules
from tuner.errors import WorkloadError
from tuner.measure.worker import IsolatedWorker
from tuner.workloads.spec import parse_workload
from tuner.workloads.workload import Workload

N_EDITS = 70


def _relink(graph: dict[str, Any], rng: random.Random) -> None:
    """Points a field somewhere else, which often is a node of another type, or none at all."""
    node = rng.choice([n for n in graph["nodes"] if isinstance(n.get("data"), dict | list) and n["data"]])
    where = rng.choice(list(node["data"]) if isinstance(node["data"], dict) else range(len(node["data"])))
    node["data"][where] = rng.choice([rng.randrange(len(graph["nodes"])), 10**9, -1, 0, None, "x", 1.5, [1]])


def _retype(graph: dict[str, Any], rng: random.Random) -> None:
    types = [n["type"] for n in graph["nodes"]]
    rng.choice(graph["nodes"])["type"] = rng.choice([*types, "tirx.Nothing", "tirx.While", "ffi.Function", "", None, 3])


def _change_value(graph: dict[str, Any], rng: random.Random) -> None:
    plain = [n for n in graph["nodes"] if isinstance(n.get("data"), int | float | str)]
    rng.choice(plain)["data"] = rng.choice(
        [0, 1, -1, 7, 2**31, 2**62, 2**70, 0.5, "", "float32", "x" * 1000, None, True]
    )


def _drop_field(graph: dict[str, Any], rng: random.Random) -> None:
    node = rng.choice([n for n in graph["nodes"] if isinstance(n.get("data"), dict) and n["data"]])
    del node["data"][rng.choice(list(node["data"]))]


def _drop_node(graph: dict[str, Any], rng: random.Random) -> None:
    del graph["nodes"][rng.randrange(len(graph["nodes"]))]


def _swap_root(graph: dict[str, Any], rng: random.Random) -> None:
    graph["root_index"] = rng.choice([rng.randrange(len(graph["nodes"])), -1, 10**9, None, "main"])


def _reshape(graph: dict[str, Any], rng: random.Random) -> None:
    """Lengthens or shortens a list."""
    node = rng.choice([n for n in graph["nodes"] if isinstance(n.get("data"), list)])
    if node["data"] and rng.random() < 0.5:
        node["data"].pop()
    else:
        node["data"].append(rng.randrange(len(graph["nodes"])))


EDITS: tuple[Callable[[dict[str, Any], random.Random], None], ...] = (
    _relink,
    _retype,
    _change_value,
    _drop_field,
    _drop_node,
    _swap_root,
    _reshape,
)


def _sources() -> list[str]:
    makers = (modules.scatter_add, modules.gather_indirect, modules.triangular_sum, modules.argmin_pair)
    return [modules.save(make()) for make in makers]


def _edited(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    sources = [json.loads(text) for text in _sources()]
    texts = []
    for n in range(count):
        graph = copy.deepcopy(sources[n % len(sources)])
        EDITS[n % len(EDITS)](graph, rng)
        text = json.dumps(graph)
        texts.append(text[: rng.randrange(len(text))] if n % 23 == 22 else text)
    return texts


def _resolve(worker: IsolatedWorker, text: str) -> Workload | str:
    """The workload, or the message of its error. Anything else is raised."""
    try:
        request = parse_workload({"module_json": text}, allow_files=False)
        answer = worker.call("workload.resolve", {"request": request.to_dict()}, 30.0)
    except WorkloadError as error:
        return str(error)
    return Workload.from_dict(answer)


def test_sound_modules_resolve_in_a_child(resolver: IsolatedWorker) -> None:
    for text in _sources():
        workload = _resolve(resolver, text)
        assert isinstance(workload, Workload), workload


def test_every_edit_ends_in_one_clear_error_or_a_workload(resolver: IsolatedWorker) -> None:
    check_edits(resolver, N_EDITS, seed=0)


@pytest.mark.slow
def test_many_more_edits(resolver: IsolatedWorker) -> None:
    for seed in range(1, 31):
        check_edits(resolver, N_EDITS, seed)


def check_edits(worker: IsolatedWorker, count: int, seed: int) -> None:
    results = [_resolve(worker, text) for text in _edited(count, seed)]
    errors = [result for result in results if isinstance(result, str)]
    assert all(len(message.splitlines()) == 1 and len(message) < 500 for message in errors), errors
    assert len(errors) > count / 2  # edits do damage
    for workload in results:
        if isinstance(workload, Workload):
            assert workload.args
            assert len(workload.key) == 64
