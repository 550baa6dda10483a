"""Signals before there is a result, and terminals and pipes that nobody reads any more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.service.processes import start
from tests.service.test_tune import SPEC, processes_of


# Slow: it hung once for a minute in a full run, and why is not known yet.
@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_setup_ends_it_soon(tmp_path: Path, number: int, code: int) -> None:
    env = {"TUNESMITH_CACHE_DIR": str(tmp_path / "cache")}  # empty: the setup measures peaks, for seconds
    with start("tune", SPEC, "softmax:shape=8x8", "--json", db=tmp_path / "x.db", env=env) as process:
        deadline = time.monotonic() + 60
        while not (zygotes := processes_of(process.pid)):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(zygotes[0], signal.SIGSTOP)  # a setup that would last for minutes
        began = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 10
    assert process.returncode == code
    assert processes_of(process.pid) == []
    assert [item["error"]["code"] for item in json.loads(out)] == ["Interrupted", "NotStarted"]
    assert "Traceback" not in err
    assert "stopped while it was prepared" in err


def test_ctrl_c_during_the_imports_is_one_line() -> None:
    script = """
import sys
class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "tuner.targets.target":
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
from service.start import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


def test_a_run_outlives_whoever_reads_its_progress(tmp_path: Path) -> None:
    env = {"TUNESMITH_CACHE_DIR": str(tmp_path / "cache")}
    with start("tune", "softmax:shape=8x8", "--trials", "2", "--json", db=tmp_path / "x.db", env=env) as process:
        assert process.stderr is not None
        process.stderr.close()
        process.stderr = None
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    (result,) = json.loads(out)
    assert result["best"]["validated"]


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_command_does_without_a_stream_that_was_never_open(tmp_path: Path, closed: str) -> None:
    command = f'exec "$0" -m service.cli lookup {SPEC} --json --db "$1" {closed}>&-'
    shell = ["sh", "-c", command, sys.executable, str(tmp_path / "x.db")]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert (done.stdout != "") == (closed == "2")


def test_a_machine_that_gives_no_memory_is_one_line_and_no_hang(tmp_path: Path) -> None:
    """So little that not even a thread's stack fits."""
    command = f'ulimit -v 250000; exec "$0" -m service.cli tune {SPEC} --db "$1"'
    shell = ["sh", "-c", command, sys.executable, str(tmp_path / "x.db")]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "should not happen" not in done.stderr
    assert "Traceback" not in done.stderr
