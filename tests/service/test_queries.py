"""Commands that only read: what they print, their JSON, and their exit codes, through real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.processes import store_run, tunesmith
from tuner.targets.target import native_target
from tuner.targets.toolchain import toolchain_versions
from tuner.workloads.catalog import list_operators

SPEC = "matmul:m=64,n=64,k=64"
RECORD_KEYS = {
    "record_id", "run_id", "trial", "workload", "target", "device", "toolchain", "policy", "threads", "seed",
    "certificate", "schedule", "median_s", "speedup", "speedup_ci95", "outcome", "baseline", "confirmation",
    "published", "artifact_sha256", "predicted_score", "max_abs_error", "max_rel_error", "seconds", "measured_at",
    "trace",
}  # fmt: skip


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "tunesmith.db"


def test_a_published_schedule_is_looked_up(db: Path) -> None:
    ids = store_run(db)
    done = tunesmith("lookup", SPEC, "--json", "--strict", db=db)
    assert (done.code, done.err) == (0, "")
    (answer,) = done.json
    assert set(answer) == {"workload", "tier", "record", "reason"}
    assert answer["tier"] == "exact"
    assert answer["workload"]["key"] == "f" * 64
    assert answer["workload"]["op"] == "matmul"
    record = answer["record"]
    assert set(record) == RECORD_KEYS
    assert record["record_id"] == ids[1]
    assert record["certificate"] == "measured"
    assert record["speedup"] == pytest.approx(2.0)
    assert record["outcome"]["run_secs"] == [0.003, 0.001, 0.002]
    assert len(record["confirmation"]["baseline_secs"]) == 15
    assert record["trace"] == [["Trace", 1]]


def test_the_same_workload_in_any_spelling_is_the_same(db: Path) -> None:
    store_run(db)
    spelled = json.dumps({"params": {"k": 64, "m": 64, "n": 64}, "dtype": "float32", "op": "matmul"})
    assert tunesmith("lookup", "matmul:k=64,n=64,m=64,dtype=float32", spelled, "--strict", db=db).code == 0


def test_a_miss_is_told_and_strict_exits_with_three(db: Path) -> None:
    store_run(db)
    for strict, code in ((False, 0), (True, 3)):
        done = tunesmith("lookup", SPEC, "matmul:m=9,n=9,k=9", "--json", *["--strict"] * strict, db=db)
        assert (done.code, done.err) == (code, "")
        assert [a["tier"] for a in done.json] == ["exact", "miss"]
        assert done.json[1]["record"] is None
        assert "never tuned" in done.json[1]["reason"]


def test_another_target_device_or_toolchain_misses_and_says_why(db: Path) -> None:
    store_run(db)
    for options, said in (
        (["--device", "0123456789abcdef"], "another device only"),
        (["--target", "llvm -mcpu=skylake -num-cores=1"], "another target only (llvm"),
        (["--target", "cuda -arch=sm_80"], "another target only (llvm"),
    ):
        (answer,) = tunesmith("lookup", SPEC, "--json", *options, db=db).json
        assert answer["tier"] == "miss"
        assert said in answer["reason"]


def test_a_record_of_an_older_toolchain_is_stale_and_not_served(db: Path) -> None:
    ids = store_run(db, toolchain={**toolchain_versions(), "tvm": "0.26.0"})
    (answer,) = tunesmith("lookup", SPEC, "--json", db=db).json
    assert answer["tier"] == "miss"
    assert "tvm 0.26.0" in answer["reason"]
    assert tunesmith("show", ids[1], "--json", db=db).json["certificate"] == "stale"


def test_lookup_prints_a_line_for_a_person(db: Path) -> None:
    ids = store_run(db)
    done = tunesmith("lookup", SPEC, db=db)
    for part in (SPEC, "exact", ids[1], "2.00x [2.00, 2.00]"):
        assert part in done.out


def test_show_tells_where_a_record_comes_from(db: Path) -> None:
    ids = store_run(db)
    done = tunesmith("show", ids[1][:10], db=db)
    assert (done.code, done.err) == (0, "")
    for part in (
        ids[1],
        "2.00 ms (median)",
        "3, spread 100.0 %",
        "3.00 ms  1.00 ms  2.00 ms",
        "1e-06 absolute, 1e-05 relative",
        "winner, faster",
        "measured",
        "lookups serve it",
        "seed 7",
        "tvm 0.27.0.post1",
    ):
        assert part in done.out, part


def test_show_of_a_failure_and_of_a_short_look(db: Path) -> None:
    ids = store_run(db)
    wrong = tunesmith("show", ids[3], "--json", db=db).json
    assert wrong["outcome"] == {"kind": "wrong_answer", "detail": "off by 1.2"}
    assert (wrong["median_s"], wrong["certificate"], wrong["max_abs_error"]) == (None, None, None)
    assert "wrong_answer: off by 1.2" in tunesmith("show", ids[3], db=db).out
    assert "a short look" in tunesmith("show", ids[2], db=db).out


def test_show_prints_the_trace(db: Path) -> None:
    ids = store_run(db)
    assert tunesmith("show", ids[1], "--trace", db=db).out.split() == ['"Trace"', "1"]


def test_records_lists_the_newest_and_filters(db: Path) -> None:
    ids = store_run(db)
    store_run(db, "matmul:m=8,n=8,k=8", run_id="run-2", key="e" * 64)
    every = tunesmith("records", "--json", db=db).json
    assert len(every) == 8
    assert {r["kind"] for r in every} == {"ok", "wrong_answer"}
    served = tunesmith("records", SPEC, "--published", "--json", db=db).json
    assert [r["record_id"] for r in served] == [ids[1]]
    assert len(tunesmith("records", "--limit", "3", "--json", db=db).json) == 3
    assert "published" in tunesmith("records", SPEC, db=db).out


def test_devices_tells_this_machine_from_others(db: Path) -> None:
    (here,) = tunesmith("devices", "--json", db=db).json
    assert (here["this_machine"], here["runs"]) == (True, 0)
    store_run(db)
    store_run(db, run_id="run-2", device={"key": "other", "model": "Other CPU"})
    rows = tunesmith("devices", "--json", db=db).json
    assert {(r["key"], r["runs"], r["this_machine"]) for r in rows} == {(here["key"], 1, True), ("other", 1, False)}
    assert "Other CPU" in tunesmith("devices", db=db).out


def test_targets_shows_what_native_is(db: Path) -> None:
    listed = tunesmith("targets", "--json").json
    assert listed["native"] == native_target().attrs
    assert listed["kinds"] == ["llvm", "cuda"]
    assert "nvidia/nvidia-h100" in listed["tags"]
    one = tunesmith("targets", "llvm -mcpu=skylake -num-cores=4", "--json").json
    assert (one["target"]["mcpu"], one["target"]["num-cores"]) == ("skylake", 4)


def test_workloads_lists_every_operator_with_a_line_that_works(db: Path) -> None:
    listed = tunesmith("workloads", "--json").json
    assert listed == list_operators()
    out = tunesmith("workloads").out
    for operator in listed:
        assert operator["example"] in out
    detail = tunesmith("workloads", "matmul").out
    for parameter in next(o for o in listed if o["op"] == "matmul")["params"]:
        assert parameter["name"] in detail


def test_doctor_finds_a_machine_fit_and_a_database_broken(db: Path) -> None:
    store_run(db)
    fit = tunesmith("doctor", "--json", db=db)
    checks = {c["name"]: c for c in fit.json["checks"]}
    assert fit.code == (0 if fit.json["ok"] else 1)
    assert fit.json["ok"] == all(c["ok"] for c in checks.values() if c["hard"])
    assert checks["database"]["ok"]
    assert "4 records" in checks["database"]["detail"]
    assert checks["tvm"]["ok"]
    with db.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (db.stat().st_size - 8192))
    broken = tunesmith("doctor", db=db)
    assert (broken.code, broken.err) == (1, "")
    (line,) = [line for line in broken.out.splitlines() if line.startswith("FAIL")]
    assert "database" in line
    assert "recover" in line or "--db" in line


def test_version_names_the_toolchain() -> None:
    assert tunesmith("version", "--json").json == toolchain_versions()
    assert toolchain_versions()["tvm"] in tunesmith("version").out


def test_the_database_comes_from_the_option_then_the_environment_then_the_users_directory(tmp_path: Path) -> None:
    option, variable = tmp_path / "option.db", tmp_path / "variable.db"
    ids = store_run(option)
    env = {"TUNESMITH_DB": f"sqlite:///{variable}", "XDG_DATA_HOME": str(tmp_path / "home")}
    assert len(tunesmith("records", "--json", db=option, env=env).json) == len(ids)
    assert tunesmith("records", "--json", env=env).json == []
    assert variable.is_file()
    assert tunesmith("records", "--json", env={"XDG_DATA_HOME": str(tmp_path / "home")}).json == []
    assert (tmp_path / "home" / "tunesmith" / "tunesmith.db").is_file()


def test_reading_imports_nothing_heavy(db: Path) -> None:
    ids = store_run(db)
    commands = [["lookup", SPEC], ["show", ids[1]], ["records"], ["devices"], ["targets"], ["workloads"], ["version"]]
    code = (
        "import sys, json; from service.cli import run; codes = [run(c) for c in json.loads(sys.argv[1])];"
        "heavy = {'tvm', 'tvm_ffi', 'xgboost', 'scipy', 'numpy'} & sys.modules.keys();"
        "sys.exit(f'imported {heavy}' if heavy else max(codes))"
    )
    env = {**os.environ, "TUNESMITH_DB": str(db)}
    command = [sys.executable, "-c", code, json.dumps(commands)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
