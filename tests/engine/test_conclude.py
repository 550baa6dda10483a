"""What a confirmation decides. The runner is stood in for: no kernel changes its answer between two runs on demand."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from tests.engine.conftest import ListObserver, ListRecorder
from tests.engine.test_run_state import trial
from tuner.conclude import confirm_and_conclude
from tuner.config import TuneConfig
from tuner.errors import WorkerDied
from tuner.measure.runner import Baseline, Confirmed
from tuner.outcome import Failure, FailureKind, Latency
from tuner.run_state import RunState

SLOW, FAST, FASTER = (4.0,) * 5, (2.0,) * 5, (1.0,) * 5
WRONG = Failure(FailureKind.WRONG_ANSWER, "output 'B' at [0]: got 1, want 2")


def conclude(confirm):
    """Two candidates contend, trial 1 of 2 s and trial 2 of 1 s, with trial 0, the untuned module of 4 s."""
    observer, recorder = ListObserver(), ListRecorder()
    state = RunState(TuneConfig(), observer, threading.Event())
    state.add_untuned(trial(0, Latency(SLOW), "untuned"), "r0", b"code")
    for number, seconds in ((1, 2.0), (2, 1.0)):
        state.add(trial(number, Latency((seconds,)), str(number)), f"r{number}", b"code")
    session = SimpleNamespace(
        runner=SimpleNamespace(confirm=confirm),
        config=state.config,
        run_id="run",
        workload=SimpleNamespace(flop=8.0, bytes_moved=1.0, key="k", label="l", spec={}, nothing_to_tune=None),
        untuned=SimpleNamespace(sha256="untuned"),
        baseline=Baseline(run_secs=SLOW, max_abs_error=0.0, oracle="reference", n_input_sets=3, warnings=()),
        bound=lambda: (0.5, "memory"),
        target=SimpleNamespace(attrs={}, n_cores=2),
        device=SimpleNamespace(to_dict=dict),
        toolchain={},
        model_metrics={},
    )
    return confirm_and_conclude(session, state, recorder), recorder, observer


def test_the_winner_comes_from_the_interleaved_samples_with_its_share_of_the_roofline():
    result, recorder, _ = conclude(lambda codes, rounds: Confirmed(baseline_secs=SLOW, candidates=(FASTER, FAST)))
    best = result.best
    assert best is not None
    assert (best.trial, best.median_s, best.speedup, best.verdict) == (2, 1.0, 4.0, "faster")
    assert (best.flop_per_s, best.roofline_fraction, best.bound) == (8.0, 0.5, "memory")
    assert recorder.confirmations[0].candidate_secs == {0: SLOW, 2: FASTER, 1: FAST}


def test_a_first_look_that_confirmation_does_not_bear_out_wins_nothing():
    result, _, _ = conclude(lambda codes, rounds: Confirmed(baseline_secs=SLOW, candidates=(FAST, FASTER)))
    assert result.best is not None
    assert result.best.trial == 1


def test_a_candidate_that_fails_its_confirmation_is_out_and_said_so():
    result, recorder, observer = conclude(lambda codes, rounds: Confirmed(baseline_secs=SLOW, candidates=(WRONG, FAST)))
    assert result.best is not None
    assert result.best.trial == 1
    assert recorder.confirmations[0].candidate_secs == {0: SLOW, 1: FAST}
    assert any("trial 2" in note and "wrong_answer" in note for note in observer.notes)
    assert recorder.confirmations[0].refuted == {2: WRONG}
    assert (result.trials_ok, result.failed["wrong_answer"]) == (1, 1)


@pytest.mark.parametrize("secs", [WRONG, (8.0,) * 5])
def test_the_untuned_module_stands_when_all_others_fail_or_are_slower(secs):
    result, recorder, _ = conclude(lambda codes, rounds: Confirmed(baseline_secs=SLOW, candidates=(secs, secs)))
    assert result.best is not None
    assert (result.best.trial, result.best.median_s, result.best.verdict) == (0, 4.0, "tie")
    assert (recorder.confirmations[0].winner, recorder.confirmations[0].verdict) == (0, "tie")


def test_without_a_confirmation_nothing_is_published():
    def lost(codes, rounds):
        raise WorkerDied("the worker process died of SIGKILL", "SIGKILL")

    result, recorder, observer = conclude(lost)
    assert result.best is None
    assert recorder.confirmations == []
    assert any("nothing is published" in note for note in observer.notes)
