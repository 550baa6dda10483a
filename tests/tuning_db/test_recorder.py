"""The Recorder contract on real SQLite files: what goes in comes out, and what is wrong is refused."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from tests.tuning_db.examples import DEVICE, POLICY, TARGET, TOOLCHAIN, confirmation, context, trial
from tuner.errors import NotFoundError, StorageError
from tuner.outcome import Failure, FailureKind, Latency
from tuner.records import Recorder
from tuning_db.engine import open_database
from tuning_db.repository import Repository


def test_a_record_comes_back_whole(repository: Repository) -> None:
    recorder: Recorder = repository
    run = context()
    recorder.open_run(run)
    stored_id = recorder.record("run-1", trial(3, certificate="default"))
    agreed = confirmation(3, 2.0)
    assert recorder.confirm("run-1", agreed) == stored_id
    recorder.close_run("run-1", {"best": None})

    got = repository.get_record(stored_id)
    assert got.workload == run.workload
    assert (got.target, got.device, got.toolchain) == (TARGET, DEVICE, TOOLCHAIN)
    assert (got.policy, got.n_threads, got.seed, got.run_id, got.trial) == (POLICY, 2, 7, "run-1", 3)
    assert got.outcome == Latency((0.003, 0.001, 0.002)), "raw samples, in the order taken"
    assert got.baseline_secs == (0.011, 0.010, 0.012)
    assert got.confirmation == agreed
    assert got.trace_json == '[["Trace", 3]]'
    assert (got.artifact_sha256, got.predicted, got.certificate) == (f"{3:064x}", 0.75, "default")
    assert (got.max_abs_error, got.max_rel_error) == (1e-6, 1e-5)
    assert got.phase_s == {"build": 0.05, "run": 0.1}
    assert got.measured_at_s == 1_700_000_001.5
    assert got.published is not None
    assert got.published.standing.speedup == pytest.approx(2.0)


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_failure_kind_is_kept_with_its_detail(repository: Repository, kind: FailureKind) -> None:
    repository.open_run(context())
    failed = trial(0, Failure(kind, "because"), artifact_sha256=None, predicted=None, max_abs_error=math.nan)
    got = repository.get_record(repository.record("run-1", failed))
    assert got.outcome == Failure(kind, "because")
    assert (got.artifact_sha256, got.predicted, got.max_rel_error) == (None, None, 1e-5)
    assert got.max_abs_error == math.inf, "an answer that is not a number is infinitely wrong, not unknown"


def test_a_short_look_stays_a_short_look(repository: Repository) -> None:
    repository.open_run(context())
    got = repository.get_record(repository.record("run-1", trial(0, Latency((0.5,), full=False))))
    assert got.outcome == Latency((0.5,), full=False)


def test_ids_are_short_distinct_and_the_same_in_another_database(repository: Repository, tmp_path: Any) -> None:
    repository.open_run(context())
    ids = [repository.record("run-1", trial(n)) for n in range(20)]
    assert len(set(ids)) == 20
    assert all(len(i) == 16 for i in ids)
    with open_database(str(tmp_path / "other.db")) as database:
        other = Repository(database)
        other.open_run(context())
        assert other.record("run-1", trial(4)) == ids[4]


def test_a_record_is_found_by_a_unique_prefix_only(repository: Repository) -> None:
    repository.open_run(context())
    ids = [repository.record("run-1", trial(n)) for n in range(40)]  # more than 16, so some share a first digit
    assert repository.get_record(ids[5][:12]).id == ids[5]
    shared = next(i[0] for i in ids if sum(j[0] == i[0] for j in ids) > 1)
    with pytest.raises(NotFoundError, match="several"):
        repository.get_record(shared)
    for absent in ("", "zz", "%", "0" * 16 + "0", "a'; --"):
        with pytest.raises(NotFoundError, match="tunesmith records"):
            repository.get_record(absent)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("unknown run", lambda r: r.record("nobody", trial(0))),
        ("same trial twice", lambda r: [r.record("run-1", trial(1, trace_json=t)) for t in "ab"]),
        ("run opened twice", lambda r: r.open_run(context())),
        ("winner was not confirmed", lambda r: r.confirm("run-1", dataclasses.replace(confirmation(0, 2.0), winner=1))),
        ("confirmed what was never tried", lambda r: r.confirm("run-1", confirmation(99, 2.0))),
        ("unknown verdict", lambda r: r.confirm("run-1", confirmation(0, 2.0, verdict="superb"))),
        ("unknown certificate", lambda r: r.record("run-1", trial(1, certificate="gold"))),
        ("negative trial", lambda r: r.record("run-1", trial(-1))),
        ("no threads", lambda r: r.open_run(context("run-2", n_threads=0))),
        ("infinite baseline", lambda r: r.open_run(context("run-2", baseline_secs=(math.inf,)))),
        ("1e10 for a failure", lambda r: r.record("run-1", trial(1, Latency((1e10,))))),
        ("closed before it was opened", lambda r: r.close_run("nobody", {})),
        ("winner that failed", lambda r: r.confirm("run-1", confirmation(77, 2.0))),
    ],
)
def test_what_must_not_be_stored_is_refused_in_one_line_and_leaves_nothing(
    repository: Repository, name: str, call: Any
) -> None:
    repository.open_run(context())
    kept = repository.record("run-1", trial(0))
    failed = repository.record("run-1", trial(77, Failure(FailureKind.WRONG_ANSWER, "error 1.2")))
    with pytest.raises(StorageError) as caught:
        call(repository)
    assert "\n" not in str(caught.value), name
    assert {kept, failed} <= {r.id for r in repository.list_records()}
    assert not repository.list_records(only_published=True)
    assert repository.confirm("run-1", confirmation(0, 2.0)) == kept, "the refused call left no half of itself"


@pytest.mark.parametrize(
    "change",
    [
        "median_s = 0",
        "median_s = -1",
        "min_s = 9e999",
        "max_s = 1e10",
        "median_s = NULL",
        "run_secs = NULL",
        "kind = 'wrong_answer'",
        "kind = 'slow'",
        "detail = 'ok but not'",
    ],
)
def test_the_schema_itself_refuses_a_latency_that_is_none(repository: Repository, change: str) -> None:
    repository.open_run(context())
    repository.record("run-1", trial(0))
    with pytest.raises((IntegrityError, StorageError)), repository._database.write() as session:
        session.execute(text(f"UPDATE trial SET {change}"))


def test_a_closed_run_can_not_be_closed_again(repository: Repository) -> None:
    repository.open_run(context())
    repository.close_run("run-1", {"first": True})
    with pytest.raises(StorageError, match="closed already"):
        repository.close_run("run-1", {"second": True})
