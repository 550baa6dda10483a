"""`tune` with the real engine, and what `lookup`, `show` and `replay` make of its records."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.service.processes import Finished, start, tunesmith, tunesmith_process
from tuner.outcome import FailureKind
from tuner.targets.device import detect_device
from tuner.targets.target import native_target

SPEC = "matmul:m=128,n=128,k=128"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture(scope="module")
def env(folder: Path) -> dict[str, str]:
    return {"TUNESMITH_DB": str(folder / "tunesmith.db"), "TUNESMITH_CACHE_DIR": str(folder / "cache")}


@pytest.fixture(scope="module")
def tuned(folder: Path, env: dict[str, str]) -> Finished:
    """One command: a good workload, one that can't be read, and one with nothing to tune."""
    broken = folder / "broken.json"
    broken.write_text('{"not": "a module"}')
    empty = "matmul:m=0,n=4,k=4"
    return tunesmith_process("tune", SPEC, f"module:{broken}", empty, "--trials", "3", "--seed", "5", "--json", env=env)


@pytest.fixture(scope="module")
def record_id(tuned: Finished) -> str:
    return str(tuned.json[0]["best"]["record_id"])


def test_the_good_one_is_tuned_although_another_fails(tuned: Finished) -> None:
    assert tuned.code == 1, tuned.err
    good, broken, empty = tuned.json
    assert good["best"]["validated"]
    assert good["best"]["verdict"] in ("faster", "tie")
    assert (broken["best"], empty["best"]) == (None, None)
    assert broken["error"]["message"]
    assert empty["stopped"] == "nothing_to_tune"
    (line,) = [line for line in tuned.err.splitlines() if line.startswith("error: ")]
    assert "broken.json" in line


def test_the_json_is_what_the_design_says(tuned: Finished) -> None:
    for item in tuned.json:
        assert {"workload", "target", "device", "policy", "seed", "best", "baseline", "trials", "seconds"} <= set(item)
        assert {"key", "op"} <= set(item["workload"])
        assert {"total", "ok", "failed"} <= set(item["trials"])
    good = tuned.json[0]
    assert good["seed"] == 5
    assert good["target"] == native_target().attrs
    assert good["device"]["key"] == detect_device(native_target()).key
    assert good["trials"]["total"] == 3 == good["trials"]["ok"] + sum(good["trials"]["failed"].values())
    assert set(good["trials"]["failed"]) <= set(FailureKind)
    assert {"search", "model", "build", "validate", "run", "confirm", "total"} <= set(good["seconds"])
    best = good["best"]
    low, high = best["ci95_s"]
    assert low <= best["median_s"] <= high
    low, high = best["speedup_ci95"]
    assert low <= best["speedup"] <= high
    assert best["bound"] in ("compute", "memory")
    assert best["flop_per_s"] == pytest.approx(2 * 128**3 / best["median_s"])
    assert best["max_abs_error"] < 1e-3


def test_progress_goes_to_stderr_and_only_json_to_stdout(tuned: Finished) -> None:
    assert json.loads(tuned.out)
    assert "[1/3]" in tuned.err


def test_the_winner_is_looked_up(record_id: str, env: dict[str, str]) -> None:
    (answer,) = tunesmith("lookup", SPEC, "--strict", "--json", env=env).json
    assert answer["record"]["record_id"] == record_id
    assert answer["record"]["certificate"] == "measured"


def test_a_module_that_computes_the_same_is_looked_up(record_id: str, env: dict[str, str], folder: Path) -> None:
    """Its text was never seen, so a child works out what it computes."""
    connection = sqlite3.connect(env["TUNESMITH_DB"])
    (text,) = connection.execute("SELECT module_json FROM workload").fetchone()
    connection.close()
    file = folder / "same.json"
    file.write_text(json.dumps(json.loads(text), indent=3))
    (answer,) = tunesmith("lookup", f"module:{file}", "--json", env=env).json
    assert answer["tier"] == "exact"
    assert answer["record"]["record_id"] == record_id


def test_show_rebuilds_ir_and_assembly(record_id: str, env: dict[str, str]) -> None:
    shown = tunesmith("show", record_id, "--ir", "diff", "--source", "--json", env=env).json
    assert shown["ir_diff"].startswith("--- before\n+++ after\n")
    assert any(line.startswith("+") and "T.parallel" in line for line in shown["ir_diff"].splitlines())
    assert ".text" in shown["source"]
    before = tunesmith("show", record_id, "--ir", "before", env=env)
    assert "def main(" in before.out
    assert "T.parallel" not in before.out


def test_replay_compares_with_what_is_stored(record_id: str, env: dict[str, str]) -> None:
    done = tunesmith("replay", record_id, "--json", env=env)
    assert done.code == 0
    again = done.json
    assert again["verdict"] in ("same", "unclear", "faster", "slower")
    assert (again["failure"], again["notes"]) == (None, [])
    assert again["now"]["median_s"] > 0
    low, high = again["speedup_ratio_ci95"]
    assert low <= again["speedup_ratio"] <= high
    assert again["max_abs_error"] < 1e-3


def test_a_trace_that_no_longer_applies_fails_its_replay_in_one_line(record_id: str, env: dict[str, str]) -> None:
    absent = ["GetSBlock", [], ["absent", "main"], ["b9"]]
    _change_trace(env, record_id, lambda trace: [[*trace[0][:1], absent], []])
    done = tunesmith("replay", record_id, "--json", env=env)
    assert done.code == 1
    assert done.json["verdict"] == "failed"
    assert done.json["failure"]["kind"] == "build_error"
    shown = tunesmith("show", record_id, "--ir", "after", env=env)
    assert shown.code == 1
    assert f"can't rebuild record {record_id}" in shown.error


def _change_trace(env: dict[str, str], record_id: str, change: Callable[[Any], Any]) -> None:
    connection = sqlite3.connect(env["TUNESMITH_DB"])
    (text,) = connection.execute("SELECT trace_json FROM trial WHERE id = ?", (record_id,)).fetchone()
    changed = json.dumps(change(json.loads(text)))
    connection.execute("UPDATE trial SET trace_json = ? WHERE id = ?", (changed, record_id))
    connection.commit()
    connection.close()


def processes_of(pid: int) -> list[int]:
    """The zygotes that this process started; their workers die with them."""
    mark = f'"parent_pid": {pid},'.encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def n_records(db: Path) -> int:
    return len(tunesmith("records", "--limit", "10000", "--json", db=db).json) if db.exists() else 0


def wait_for_records(process: subprocess.Popen[str], db: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while n_records(db) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_keeps_every_record_and_reports_the_best(tmp_path: Path, number: int, code: int) -> None:
    db = tmp_path / "x.db"
    with start("tune", SPEC, "softmax:shape=8x8", "--trials", "5000", "--json", db=db) as process:
        wait_for_records(process, db, 2)
        assert processes_of(process.pid), "otherwise the check below proves nothing"
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert processes_of(process.pid) == []
    first, second = json.loads(out)
    assert first["stopped"] == "interrupted"
    assert first["best"]["validated"]
    assert first["trials"]["total"] == n_records(db) - 1  # trial 0 is the untuned module
    assert second["error"]["code"] == "NotStarted"
    assert "1 of 2 workloads were not started" in err
    assert "Traceback" not in err
    (answer,) = tunesmith("lookup", SPEC, "--json", db=db).json
    assert answer["record"]["record_id"] == first["best"]["record_id"]


@pytest.mark.slow
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    db = tmp_path / "x.db"
    with start("tune", SPEC, "--trials", "5000", db=db) as process:
        wait_for_records(process, db, 2)
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert processes_of(process.pid) == []
    assert "Traceback" not in err
    assert n_records(db) >= 2


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_the_run_in_one_line(tmp_path: Path) -> None:
    db = tmp_path / "x.db"

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))

    env = {**os.environ, "TUNESMITH_CACHE_DIR": str(tmp_path / "cache")}
    command = ("tune", SPEC, "softmax:shape=8x8", "--trials", "5000", "--json")
    with start(*command, db=db, env=env, preexec_fn=limited) as process:
        out, err = process.communicate(timeout=280)
    assert process.returncode == 1, err
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "the disk is full" in errors[0]
    assert [item["error"]["code"] for item in json.loads(out)] == ["StorageError", "NotStarted"]
    assert "Traceback" not in err
    assert n_records(db) > 5
