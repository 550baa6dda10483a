"""Streams that are closed, full or not UTF-8: a run that costs hours isn't lost to a line that can't be shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.processes import store_run

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "tunesmith.db"
    store_run(path)
    return path


def shell(line: str, db: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """`line` with T for the command and $DB for the database."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TUNESMITH_")}
    command = f'T() {{ {sys.executable} -W error -m service.cli "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        env={**clean, "DB": str(db), **env},
    )


@pytest.mark.parametrize("command", ["records --json", "workloads", "--help"])
def test_a_full_stdout_is_one_line_and_exits_with_one(db: Path, command: str) -> None:
    done = shell(f"TUNESMITH_DB=$DB T {command} >/dev/full", db)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: can't write to stdout: no space left on device; make room, or send it elsewhere"
    ]


@pytest.mark.parametrize("command", ["records --db $DB", "version"])
@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams_count_as_dev_null(db: Path, command: str, closed: str) -> None:
    done = shell(f"T {command} {closed}", db)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-"])
def test_an_error_that_can_not_be_shown_keeps_its_code(db: Path, stderr: str) -> None:
    assert shell(f"T lookup matmul:m=none {stderr}", db).returncode == 2


def test_a_closed_pipe_on_stderr_does_not_end_a_run(db: Path) -> None:
    """`tunesmith tune ... 2>&1 >out | head -1`"""
    done = shell("T tune matmul:m=4,n=4,k=4 --trials 1 --db $DB --json 2> >(true) | cat", db)
    assert done.returncode == 0
    assert json.loads(done.stdout)[0]["best"]["validated"]


def test_a_full_stderr_does_not_end_a_run(db: Path) -> None:
    done = shell("T tune matmul:m=4,n=4,k=4 --trials 1 --db $DB --json 2>/dev/full", db)
    assert done.returncode == 0
    assert json.loads(done.stdout)[0]["best"]["validated"]


@pytest.mark.parametrize(
    "locale", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_a_terminal_without_utf8_still_gets_its_answer(db: Path, locale: dict[str, str]) -> None:
    table = shell("T records --db $DB", db, **locale)
    assert (table.returncode, table.stderr) == (0, "")
    assert "matmul m=64" in table.stdout
    listed = shell("T records --json --db $DB", db, **locale)
    assert json.loads(listed.stdout)[0]["record_id"]
    assert shell("T lookup 'softmax:shape=ü' --db $DB", db, **locale).returncode == 2
