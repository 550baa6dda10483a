"""Whatever goes wrong ends in one line that says what to do, and in the code that the design gives it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.service.processes import start, store_run, tunesmith, tunesmith_process

SPEC = "matmul:m=64,n=64,k=64"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "tunesmith.db"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing command"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["tune"], "Missing argument 'WORKLOAD'"),
        (["lookup", SPEC, "--nonsense"], "No such option: --nonsense"),
        (["tune", SPEC, "--trials", "many"], "'--trials'"),
        (["tune", SPEC, "--trials", "0"], "'--trials'"),
        (["tune", SPEC, "--seconds", "-1"], "seconds must be positive"),
        (["tune", SPEC, "--seconds", "nan"], "seconds must be positive"),
        (["tune", SPEC, "--seed", "99999999999"], "seed must be"),
        (["show"], "Missing argument 'RECORD'"),
        (["show", "abc", "--ir", "sideways"], "'--ir'"),
        (["records", "--limit", "0"], "'--limit'"),
        (["lookup", "frobnicate:m=1"], "frobnicate"),
        (["lookup", "matmul:m=1"], "matmul"),
        (["lookup", "module:/no/such/file.json"], "/no/such/file.json"),
        (["lookup", SPEC, "--target", "lllvm"], "did you mean llvm"),
        (["tune", SPEC, "--target", "cuda -arch=sm_80"], "CUDA"),
        (["targets", "llvm -mcpu=skylaek"], "skylake"),
    ],
)
def test_a_wrong_request_is_one_line_and_exits_with_two(arguments: list[str], said: str) -> None:
    done = tunesmith(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.error


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["version"], 0),
        (["lookup", SPEC], 0),
        (["lookup", SPEC, "--strict"], 3),
        (["lookup", "frobnicate:m=1"], 2),
        (["tune", SPEC, "--trials", "many"], 2),
        (["show", "ffff"], 1),
    ],
)
def test_a_real_process_exits_with_the_same_codes(db: Path, arguments: list[str], code: int) -> None:
    done = tunesmith_process(*arguments, env={"TUNESMITH_DB": str(db)})
    assert done.code == code
    assert (done.out == "") == (code in (1, 2))
    if code in (1, 2):
        assert done.error


def test_one_malformed_workload_stops_all_before_anything_starts(db: Path) -> None:
    done = tunesmith("tune", SPEC, "matmul:m=none", db=db)
    assert done.code == 2
    assert "m" in done.error
    assert not db.exists()


@pytest.mark.parametrize("command", [["lookup", SPEC], ["show", "abc"], ["records"], ["devices"], ["tune", SPEC]])
def test_a_database_that_can_not_be_used_is_one_line_and_exits_with_one(tmp_path: Path, command: list[str]) -> None:
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"no database at all\n" * 300)
    for db, said in ((garbage, "is not a database"), (tmp_path, "is a directory"), (garbage / "x.db", "directory")):
        done = tunesmith(*command, db=db)
        assert (done.code, done.out) == (1, "")
        assert said in done.error
        assert str(db) in done.error


def test_an_unknown_record_is_not_found(db: Path) -> None:
    store_run(db)
    for command in ("show", "replay"):
        for record in ("ffffffffffff", "not-hex", ""):
            done = tunesmith(command, record, db=db)
            assert done.code == 1
            assert "tunesmith records" in done.error


def test_what_nobody_foresaw_is_one_line_too_unless_asked(db: Path) -> None:
    ids = store_run(db)
    connection = sqlite3.connect(db)
    connection.execute("UPDATE trial SET trace_json = 'no JSON at all'")
    connection.commit()
    connection.close()
    done = tunesmith("show", ids[0], db=db)
    assert done.code == 1
    assert "this should not happen: JSONDecodeError" in done.error
    with pytest.raises(json.JSONDecodeError):
        tunesmith("show", ids[0], db=db, env={"TUNESMITH_TRACEBACK": "1"})


def test_an_unknown_operator_names_the_known_ones() -> None:
    done = tunesmith("workloads", "frobnicate")
    assert done.code == 2
    assert "matmul" in done.error


def test_a_newer_database_says_to_upgrade(db: Path) -> None:
    store_run(db)
    connection = sqlite3.connect(db)
    connection.execute("UPDATE schema_version SET version = 99")
    connection.commit()
    connection.close()
    done = tunesmith("lookup", SPEC, db=db)
    assert done.code == 1
    assert "schema 99" in done.error
    assert "upgrade" in done.error


@pytest.mark.parametrize("much", [["targets", "--json"], ["version"]])
def test_a_reader_that_has_enough_is_no_error(much: list[str]) -> None:
    """`tunesmith targets --json | head -1`: the pipe closes early, while much is written or at the last flush."""
    with start(*much, db=None, env={"PYTHONUNBUFFERED": ""}) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    "command", ["tune", "lookup", "show", "replay", "records", "workloads", "targets", "devices", "doctor", "version"]
)
def test_every_help_ends_with_a_command_to_paste(command: str) -> None:
    done = tunesmith(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.strip().splitlines()[-1].strip().startswith(f"Try: tunesmith {command}")
    assert "--json" in done.out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["show", "f" * 100_000], 1),
        (["lookup", SPEC, "--db", "x" * 100_000], 1),
        (["workloads", "f" * 100_000], 2),
        (["f" * 100_000], 2),
        (["records", "--limit", "x" * 100_000], 2),
        (["show", "\x1b[31mred\x07"], 1),
    ],
)
def test_an_error_is_a_short_and_printable_line_whatever_it_quotes(arguments: list[str], code: int) -> None:
    done = tunesmith(*arguments)
    assert done.code == code
    assert len(done.error) < 1000
    assert done.error.isprintable()


def test_a_limit_beyond_what_the_database_counts_is_refused(db: Path) -> None:
    assert "--limit" in tunesmith("records", "--limit", "9" * 30, db=db).error


@pytest.mark.parametrize("name", ["\udc80.db", "sqlite:x.db", "sqlite:/x.db"])
def test_a_database_name_that_means_something_else_is_one_line(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    done = tunesmith("records", "--db", name)
    assert (done.code, list(tmp_path.iterdir())) == (1, [])
    assert done.error.startswith("error: can't open")


def test_a_relative_database_in_a_directory_that_is_gone(tmp_path: Path, monkeypatch: Any) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = tunesmith("records", "--db", "x.db")
    assert done.code == 1
    assert "this should not happen" not in done.error


@pytest.mark.parametrize("name", ["TUNESMITH_DB", "TUNESMITH_CACHE_DIR"])
def test_a_home_that_nobody_has_is_one_line(name: str) -> None:
    done = tunesmith("tune", SPEC, env={name: "~nobody-by-this-name/x"})
    assert done.code == 1
    assert "~nobody-by-this-name" in done.error
    assert "this should not happen" not in done.error


def test_a_target_names_an_attribute_once() -> None:
    assert "'kind' is given twice" in tunesmith("targets", '{"kind": "llvm", "kind": "cuda"}').error


@pytest.mark.parametrize("params", ["[]", "0", '""', "false"])
def test_empty_params_are_an_object_too(params: str) -> None:
    request = f'{{"op": "softmax", "shape": [4, 4], "params": {params}}}'
    assert "params wants an object" in tunesmith("lookup", request).error
