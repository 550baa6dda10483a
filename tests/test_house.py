"""The rules of the house that no linter knows, read from the imports: who may import whom, and what stays outside."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {"tuner": {"tuner"}, "tuning_db": {"tuner", "tuning_db"}, "service": {"tuner", "tuning_db", "service"}}
TVM_DISTRIBUTIONS = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi", "tvm_ffi_orcjit": "apache-tvm-ffi-orcjit"}
OTHER_DISTRIBUTIONS = {"ml_dtypes": "ml-dtypes", "xgboost": "xgboost-cpu"}
READS_ENVIRONMENT = {
    "service.settings",
    "service.cli",  # sets what numpy's BLAS reads
    "tuner.measure.zygote",  # makes the environment of its child
    "tuner.tvm_api",  # sets what TVM reads, in a child
}


def modules(*packages: str) -> dict[str, Path]:
    """Dotted name -> file."""
    found = {}
    for file in (f for package in packages for f in sorted((ROOT / package).rglob("*.py"))):
        parts = file.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


SOURCES = modules(*MAY_IMPORT)


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(SOURCES[name].read_text())


@cache
def imports(name: str) -> frozenset[str]:
    """What a module imports anywhere in it, in functions too."""
    return _imports(ast.walk(tree(name)))


def imports_when_loaded(name: str) -> frozenset[str]:
    return _imports(tree(name).body)


def _imports(nodes: Iterable[ast.AST]) -> frozenset[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module}
            found |= {f"{node.module}.{a.name}" for a in node.names if f"{node.module}.{a.name}" in SOURCES}
    return frozenset(found)


def top(name: str) -> str:
    return name.partition(".")[0]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package: str) -> None:
    house = {*MAY_IMPORT, "tests", "benchmarks"}
    against = [
        f"{name} imports {other}"
        for name in modules(package)
        for other in imports(name)
        if top(other) in house - MAY_IMPORT[package]
    ]
    assert against == []


def test_the_engine_knows_no_sql_and_no_http() -> None:
    outside = re.compile(r"(sqlalchemy|sqlite3|http|urllib\.request|socketserver|typer|rich)\b")
    assert [(n, i) for n in modules("tuner") for i in imports(n) if outside.match(i)] == []


def test_one_file_alone_imports_tvm() -> None:
    assert {n for n in SOURCES if {top(i) for i in imports(n)} & TVM_DISTRIBUTIONS.keys()} == {"tuner.tvm_api"}


def test_what_the_command_and_the_loop_import_never_reaches_tvm() -> None:
    """Jobs are named, not imported, so TVM stays in the children. An operator's builder may import it when called."""
    came_from = {"service.cli": "", "tuner.loop": "", "tuner.replay": ""}
    todo = list(came_from)
    while todo:
        name = todo.pop()
        reached = imports(name) - {"tuner.tvm_api"} | imports_when_loaded(name)
        for other in reached & SOURCES.keys() - came_from.keys():
            came_from[other] = name
            todo.append(other)
    assert len(came_from) > 60
    assert "tuner.tvm_api" not in came_from, f"{came_from['tuner.tvm_api']} imports it"


def test_the_environment_is_read_in_one_place() -> None:
    readers = {
        name
        for name in SOURCES
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) in ("environ", "environb", "getenv")
    }
    assert readers <= READS_ENVIRONMENT, readers


def test_every_dependency_is_imported_and_every_import_is_a_dependency() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    imported = {top(i) for name in SOURCES for i in imports(name)} - sys.stdlib_module_names - MAY_IMPORT.keys()
    distributions = {canonicalize_name({**TVM_DISTRIBUTIONS, **OTHER_DISTRIBUTIONS}.get(i, i)) for i in imported}
    assert distributions == {canonicalize_name(Requirement(line).name) for line in wanted}


def test_files_are_rooms_with_one_purpose() -> None:
    every = {**SOURCES, **modules("tests", "benchmarks")}
    assert {n: count for n, f in every.items() if (count := len(f.read_text().splitlines())) > 400} == {}
    assert [n for n in every if n.rpartition(".")[2] in ("utils", "helpers", "common", "misc")] == []
    assert [n for n, f in SOURCES.items() if f.stat().st_size and ast.get_docstring(tree(n)) is None] == []


def test_nothing_promises_to_be_done_later() -> None:
    later = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
    assert [n for n, f in SOURCES.items() if later.search(f.read_text())] == []
