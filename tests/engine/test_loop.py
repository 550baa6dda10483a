"""The loop through real children: what it stores, how it ends, what it says. Small workloads, no timing asserted."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import psutil
import pytest

from tests.engine.conftest import ListObserver, ListRecorder
from tests.search import modules
from tuner.config import TuneConfig
from tuner.errors import StorageError, TargetError, WorkloadError
from tuner.loop import tune_task
from tuner.measure.runner import Confirmed, Runner
from tuner.outcome import Failure, FailureKind, Latency
from tuner.targets.target import parse_target
from tuner.tvm_api import tvm
from tuner.workloads.spec import parse_workload

MATMUL = "matmul:m=96,n=96,k=96"
# A sum that is used inside another reduction: MetaSchedule's schedules of it are sometimes wrong.
NESTED = "attention:heads=1,seq_len=24,head_dim=16"


@pytest.fixture
def no_children_left():
    yield
    left = psutil.Process().children(recursive=True)
    assert [p.cmdline() for p in left if p.status() != psutil.STATUS_ZOMBIE] == []


def test_a_run_ends_with_a_validated_confirmed_winner_and_all_that_a_record_needs(run, no_children_left):
    result, recorder, observer = run(MATMUL)
    best = result.best
    assert best is not None
    assert best.validated
    assert best.verdict == "faster"
    assert best.speedup > 1
    assert best.ci95_s[0] <= best.median_s <= best.ci95_s[1]
    assert 0 < best.roofline_fraction < 1.5
    assert best.bound in ("compute", "memory")
    assert result.trials_total == len(recorder.trials) - 1 == 16  # trial 0 is the untuned module
    assert result.stopped == "trials"
    context = recorder.contexts[0]
    assert context.n_threads == context.target["num-cores"]
    assert context.policy == result.policy
    assert len(context.baseline_secs) >= 3
    for trial in recorder.trials:
        assert json.loads(trial.trace_json)
        if isinstance(trial.outcome, Latency):
            assert trial.max_abs_error is not None
            assert trial.artifact_sha256
            assert set(trial.phase_s) == {"build", "validate", "run"}
    confirmation = recorder.confirmations[0]
    assert confirmation.winner == best.trial
    assert {len(s) for s in confirmation.candidate_secs.values()} == {len(confirmation.baseline_secs)}
    assert recorder.summaries == [result.to_json()]
    seconds = result.seconds
    assert sum(v for k, v in seconds.items() if k != "total") <= seconds["total"] * 1.01
    assert all(seconds.values()), seconds
    assert 0 < result.model["n_total"] <= result.trials_ok  # of candidates with a latency; untuned has no features
    assert [p.phase for p in observer.progress][-1] == "done"


def test_the_result_has_the_keys_that_the_contract_names(run):
    data = run(MATMUL, trials=4)[0].to_json()
    assert json.loads(json.dumps(data)) == data
    assert {"workload", "target", "device", "policy", "seed", "best", "baseline", "trials", "seconds"} <= data.keys()
    assert {"search", "model", "build", "validate", "run", "confirm", "total"} <= data["seconds"].keys()
    assert data["trials"]["failed"].keys() == {kind.value for kind in FailureKind}
    assert {"key", "op", "params"} <= data["workload"].keys()


@pytest.mark.parametrize("line", ["softmax:shape=4x8", "elementwise:shape=256,chain=add", "sum:shape=64"])
def test_a_tiny_kernel_is_never_served_slower_than_untuned(run, line):
    result, recorder, _ = run(line, trials=24)
    assert recorder.trials[0].certificate == "default"
    assert result.best is not None
    assert result.best.verdict != "slower"


def test_what_confirmation_calls_slower_is_not_the_winner(run, monkeypatch):
    """The untuned module stands, with the samples of the same rounds."""
    genuine = Runner.confirm

    def confirm(self, codes, rounds):
        honest = genuine(self, codes, rounds)
        faster = tuple(s / 1e3 for s in honest.baseline_secs)
        return Confirmed(baseline_secs=faster, candidates=honest.candidates)

    monkeypatch.setattr(Runner, "confirm", confirm)
    result, recorder, observer = run(MATMUL, trials=6)
    assert result.best is not None
    assert (result.best.trial, result.best.verdict, result.best.schedule) == (0, "tie", "default")
    assert result.best.speedup == 1.0
    assert recorder.confirmations[0].winner == 0
    assert any("untuned module" in note for note in observer.notes)


def test_equal_artifacts_are_timed_once(run):
    _, recorder, _ = run("sum:shape=64", trials=40)  # of 40 schedules about 10 compile to the bytes of another
    shas = [t.artifact_sha256 for t in recorder.trials if t.artifact_sha256]
    assert len(shas) == len(set(shas))


def test_the_same_seed_repeats_the_first_batch_and_another_does_not(run):
    def first(seed):
        return [t.trace_json for t in run(MATMUL, trials=8, seed=seed)[1].trials]

    assert first(5) == first(5)
    assert first(5) != first(6)


def test_wrong_candidates_are_recorded_as_such_and_never_timed(run):
    result, recorder, _ = run(NESTED, trials=40)
    wrong = [t for t in recorder.trials if isinstance(t.outcome, Failure)]
    assert FailureKind.WRONG_ANSWER in {t.outcome.kind for t in wrong}
    assert result.failed["wrong_answer"] == sum(t.outcome.kind is FailureKind.WRONG_ANSWER for t in wrong)
    assert all(t.max_abs_error is not None for t in wrong if t.outcome.kind is FailureKind.WRONG_ANSWER)
    assert result.best is not None
    assert result.best.trial not in {t.trial for t in wrong}


def test_a_stopped_run_keeps_its_trials_and_names_the_best_so_far(run, no_children_left):
    stop = threading.Event()

    class StopAfterFive(ListRecorder):
        def record(self, run_id, trial):
            if len(self.trials) == 4:
                stop.set()
            return super().record(run_id, trial)

    result, recorder, _ = run(MATMUL, recorder=StopAfterFive(), stop=stop, trials=200)
    assert len(recorder.trials) == 5
    assert result.stopped == "interrupted"
    assert result.best is not None


def test_a_time_budget_ends_the_run(run):
    result, recorder, _ = run(MATMUL, trials=100_000, seconds=6.0)
    assert result.stopped == "seconds"
    assert 0 < len(recorder.trials) < 100_000


def test_a_recorder_that_fails_ends_the_run_and_leaves_no_process(run, no_children_left):
    class FullDisk(ListRecorder):
        def record(self, run_id, trial):
            if len(self.trials) == 2:
                raise StorageError("can't write to database x: the disk is full")
            return super().record(run_id, trial)

    recorder = FullDisk()
    with pytest.raises(StorageError, match="disk is full"):
        run(MATMUL, recorder=recorder)
    assert len(recorder.trials) == 2


def test_an_exhausted_space_ends_early_and_says_so(run):
    result, recorder, observer = run("elementwise:shape=3,chain=add", trials=500)
    assert result.stopped == "space_exhausted"
    assert len(recorder.trials) < 100
    assert any("exhausted" in note for note in observer.notes)
    assert result.best is not None


def test_nothing_to_tune_is_an_answer(run, tmp_path):
    te = tvm.te
    x = te.placeholder((0, 16), "float32", name="x")
    empty = modules.module(te.create_prim_func([x, te.compute((0, 16), lambda i, j: x[i, j] * 2.0, name="twice")]))
    file = tmp_path / "empty.json"
    file.write_text(tvm.ir.save_json(empty))
    result, recorder, observer = run(f"module:{file}")
    assert result.stopped == "nothing_to_tune"
    assert result.best is None
    assert recorder.contexts == []
    assert "nothing to tune" in observer.notes[-1]


@pytest.mark.parametrize("make", [modules.accumulate_in_place, modules.triangular_sum])
def test_what_no_rule_can_schedule_gets_a_validated_default(run, tmp_path, make):
    file = tmp_path / "module.json"
    file.write_text(tvm.ir.save_json(make()))
    result, recorder, observer = run(f"module:{file}")
    assert result.best is not None
    assert result.best.schedule == "default"
    assert {t.certificate for t in recorder.trials} == {"default"}
    assert any("untuned module" in note for note in observer.notes) == (result.best.trial == 0)
    assert any("default" in note for note in observer.notes)


def test_a_target_that_cannot_be_measured_here_is_one_clear_line(cache_dir):
    config = TuneConfig(trials=2, cache_dir=cache_dir)
    arguments = (config, ListRecorder(), ListObserver())
    with pytest.raises(TargetError) as error:
        tune_task(parse_workload(MATMUL), parse_target("cuda -arch=sm_80"), *arguments, stop=threading.Event())
    assert "\n" not in str(error.value)


def test_a_module_file_that_is_not_one_is_a_clear_line(run, tmp_path, no_children_left):
    file = tmp_path / "broken.json"
    file.write_text('{"nodes": [1, 2')
    with pytest.raises(WorkloadError) as error:
        run(f"module:{file}")
    assert "\n" not in str(error.value)


def test_the_process_that_runs_the_loop_never_imports_tvm(cache_dir, no_children_left):
    code = (
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from tests.engine.conftest import SMALL, ListObserver, ListRecorder\n"
        "from dataclasses import replace\n"
        "from tuner.loop import tune_task\n"
        "from tuner.targets.target import native_target\n"
        "from tuner.workloads.spec import parse_workload\n"
        f"config = replace(SMALL, trials=4, cache_dir=Path({str(cache_dir)!r}))\n"
        "what = parse_workload('elementwise:shape=64,chain=add')\n"
        "done = tune_task(what, native_target(), config, ListRecorder(), ListObserver(), stop=threading.Event())\n"
        "assert done.best is not None\n"
        "print(sorted({'tvm', 'tvm_ffi', 'tvm_ffi_orcjit'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
