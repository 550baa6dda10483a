"""The lock files fit pyproject.toml, and every written way to install and test exists."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def locked(name: str) -> dict[str, set[str]]:
    """Package -> versions; a package may have one version per Python."""
    versions: dict[str, set[str]] = {}
    for match in re.finditer(r"^([A-Za-z0-9._-]+)==([^\s;]+)", (ROOT / name).read_text(), re.MULTILINE):
        versions.setdefault(canonicalize_name(match[1]), set()).add(match[2])
    return versions


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("requirements.lock", [*PROJECT["dependencies"], *EXTRAS["build"]]),
        ("requirements-dev.lock", [*PROJECT["dependencies"], *EXTRAS["build"], *EXTRAS["dev"]]),
    ],
)
def test_lock_files_hold_what_the_project_asks_for(name: str, wanted: list[str]) -> None:
    versions = locked(name)
    for requirement in map(Requirement, wanted):
        found = versions.get(canonicalize_name(requirement.name))
        assert found, f"{requirement} is not in {name}; run: make lock"
        assert all(version in requirement.specifier for version in found), f"{requirement} in {name}: {found}"


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_package_has_hashes_and_no_place(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    assert all("--hash=sha256:" in entry for entry in entries if "==" in entry)


def test_the_demo_installs_no_cuda_and_what_tests_add_agrees_with_it() -> None:
    user, dev = locked("requirements.lock"), locked("requirements-dev.lock")
    assert not [name for name in user if re.search("nvidia|cuda|torch|nccl", name)]
    assert {name: dev.get(name) for name in user} == user


def test_make_and_its_script_know_the_same_tasks() -> None:
    tasks = re.search(r"^TASKS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert tasks
    script = (ROOT / "scripts" / "dev").read_text()
    assert set(tasks[1].split()) == set(re.findall(r"^  ([a-z-]+)\) ", script, re.MULTILINE))
    done = subprocess.run(["bash", "scripts/dev", "nonsense"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: usage:")


@pytest.mark.parametrize("script", ["scripts/dev", ".ci/run"])
def test_scripts_parse(script: str) -> None:
    subprocess.run(["bash", "-n", script], cwd=ROOT, check=True)


def test_an_old_python_is_refused_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.8.1 || exit 1\n')
    old.chmod(0o755)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "dev").write_text((ROOT / "scripts" / "dev").read_text())
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_text("")
    done = subprocess.run(
        ["bash", "scripts/dev", "install"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(old)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed, found Python 3.8.1" in done.stderr
    assert not (tmp_path / ".venv" / "bin").exists()
