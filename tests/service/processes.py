"""Runs the command line, as a person or a build pipeline does; and fills databases for it to read."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from service.cli import run
from tests.tuning_db.examples import confirmation, context, trial, workload
from tuner.config import Policy
from tuner.outcome import Failure, FailureKind, Latency
from tuner.targets.device import detect_device
from tuner.targets.target import native_target
from tuner.targets.toolchain import toolchain_versions
from tuner.workloads.spec import parse_workload
from tuning_db.engine import open_database
from tuning_db.repository import Repository


@dataclass(frozen=True, slots=True)
class Finished:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line on stderr that a failed command prints."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: "), self.err
        return lines[0]


def start(*arguments: str, db: Path | None, env: dict[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TUNESMITH_")}
    options = [] if db is None else ["--db", str(db)]
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "service.cli", *arguments, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**clean, **(env or {})},
        **more,
    )


def tunesmith_process(*arguments: str, db: Path | None = None, env: dict[str, str] | None = None) -> Finished:
    """A real process. `db` goes to `--db`; None leaves the option out."""
    with start(*arguments, db=db, env=env) as process:
        out, err = process.communicate(timeout=120)
    return Finished(process.returncode, out, err)


def tunesmith(*arguments: str, db: Path | None = None, env: dict[str, str] | None = None) -> Finished:
    """The same in this process: ten times faster, for the many cases that differ in their arguments only."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TUNESMITH_")}
    options = [] if db is None else ["--db", str(db)]
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ, {**clean, **(env or {})}, clear=True), redirect_stdout(out), redirect_stderr(err):
        code = run([*arguments, *options])
    return Finished(code, out.getvalue(), err.getvalue())


def store_run(
    db: Path, spec: str = "matmul:m=64,n=64,k=64", *, run_id: str = "run-1", key: str = "f" * 64, **changes: Any
) -> list[str]:
    """A finished run of this machine, with three good trials, one wrong one, and trial 1 confirmed and published.

    Returns the four records' ids.
    """
    target = native_target()
    fields: dict[str, Any] = {
        "workload": workload(key, **parse_workload(spec).spec),
        "target": target.attrs,
        "device": detect_device(target).to_dict(),
        "toolchain": toolchain_versions(),
        "policy": Policy().name,
        **changes,
    }
    with open_database(str(db)) as database:
        repository = Repository(database)
        repository.open_run(context(run_id, **fields))
        outcomes = [Latency((0.005, 0.004, 0.006)), Latency((0.003, 0.001, 0.002)), Latency((0.02,), full=False)]
        ids = [repository.record(run_id, trial(n, o)) for n, o in enumerate(outcomes)]
        wrong = trial(3, Failure(FailureKind.WRONG_ANSWER, "off by 1.2"), max_abs_error=float("nan"))
        ids.append(repository.record(run_id, wrong))
        repository.confirm(run_id, confirmation(1, 2.0))
        repository.close_run(run_id, {})
    return ids
