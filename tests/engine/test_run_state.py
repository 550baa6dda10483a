"""What a run counts, remembers and lets win, without children."""

from __future__ import annotations

import threading

import pytest

from tests.engine.conftest import ListObserver
from tuner.config import TuneConfig
from tuner.errors import Interrupted
from tuner.outcome import Failure, FailureKind, Latency, Outcome
from tuner.records import TrialRecord
from tuner.run_state import FIRST_BATCH, RunState


def trial(number: int, outcome: Outcome, sha: str | None = None) -> TrialRecord:
    return TrialRecord(
        trial=number,
        trace_json="[[],[]]",
        outcome=outcome,
        artifact_sha256=sha,
        predicted=None,
        max_abs_error=None,
        max_rel_error=None,
        phase_s={"build": 9.0, "validate": 0.25, "run": 0.5},
    )


def state(**changes: object) -> RunState:
    return RunState(TuneConfig(**changes), ListObserver(), threading.Event())


@pytest.mark.parametrize("kind", FailureKind)
def test_only_the_machines_fault_is_forgotten(kind: FailureKind) -> None:
    s = state()
    s.add(trial(1, Failure(kind, "x"), "aa"), "r1", b"code")
    known = s.outcome_of("aa")
    assert known is None if kind is FailureKind.WORKER_LOST else known == Failure(kind, "x")
    assert (s.ok, s.failed[kind.value], s.contenders) == (0, 1, [])


def test_artifacts_that_were_never_built_are_not_equal_to_each_other() -> None:
    s = state()
    s.add(trial(1, Failure(FailureKind.BUILD_ERROR, "x")), "r1", b"")
    assert s.outcome_of(None) is None


def test_a_short_look_is_no_contender_and_the_fastest_few_are() -> None:
    s = state(confirm_top=2)
    for number, (secs, full) in enumerate([(3.0, True), (0.5, False), (1.0, True), (2.0, True)]):
        s.add(trial(number, Latency((secs,), full=full), f"{number}"), f"r{number}", b"code")
    assert [c.trial.trial for c in s.contenders] == [2, 3]
    assert s.best_s == 1.0
    assert (s.seconds["validate"], s.seconds["run"]) == (1.0, 2.0)


def test_batches_start_small_and_never_pass_the_budget() -> None:
    s = state(trials=40, batch_size=32)
    s.add_untuned(trial(0, Latency((1.0,)), "0"), "r0", b"")
    assert s.next_batch_size() == FIRST_BATCH
    for number in range(1, 9):
        s.add(trial(number, Latency((1.0,)), str(number)), f"r{number}", b"")
    assert s.next_batch_size() == 32
    s.stop.set()
    assert (s.next_batch_size(), s.stopped) == (0, "interrupted")


def test_a_batch_fits_into_the_time_that_is_left() -> None:
    s = state(trials=1000, batch_size=32, seconds=100.0)
    for number in range(1, 9):
        s.add(trial(number, Latency((1.0,)), str(number)), f"r{number}", b"")
    s.began -= 60.0  # eight candidates took 60 s, and 30 s are left for exploring
    assert 1 <= s.next_batch_size() <= 4
    s.began -= 40.0
    assert s.next_batch_size() == 0
    assert s.stopped == "seconds"


def test_a_checkpoint_ends_a_batch_only_when_the_run_is_to_stop() -> None:
    s = state(trials=10)
    s.checkpoint()
    s.stop.set()
    with pytest.raises(Interrupted):
        s.checkpoint()
    assert s.stopped == "interrupted"
