"""The documentation names what exists: every command, option, operator and result key, and its commands parse."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from service.cli import app
from tuner.outcome import FailureKind
from tuner.workloads.catalog import list_operators
from tuner.workloads.spec import parse_workload

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = "\n".join(page.read_text() for page in PAGES)
COMMANDS = typer.main.get_command(app).commands


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_documentation(name):
    assert re.search(rf"tunesmith {name}\b|\| {name}\b", TEXT)


@pytest.mark.parametrize("name", [op["op"] for op in list_operators()])
def test_every_operator_is_in_the_documentation(name):
    assert re.search(rf"`{name}[:`]", TEXT)


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_failure_kind_is_explained(kind):
    assert f"`{kind.value}`" in TEXT


@pytest.mark.parametrize("option", ["--trials", "--seconds", "--seed", "--target", "--db", "--json"])
def test_every_option_of_tune_is_in_the_documentation(option):
    assert option in TEXT
    assert any(option in p.opts for p in COMMANDS["tune"].params)


def _commands():
    for page in PAGES:
        for line in page.read_text().splitlines():
            match = re.match(r"    tunesmith (.+)", line)
            if match and "..." not in line and "|" not in line:
                yield pytest.param(match[1], id=f"{page.name}: {match[1][:50]}")


@pytest.mark.parametrize("command", list(_commands()))
def test_every_command_to_paste_is_understood(command):
    name, *arguments = shlex.split(command.split("   ")[0])
    context = COMMANDS[name].make_context(name, list(arguments), resilient_parsing=False)
    for workload in context.params.get("workload") or context.params.get("workloads") or []:
        if not workload.startswith("module:"):
            parse_workload(workload)
