"""Candidates with planted faults, through the real zygote, worker and runner: each is one typed failure."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import psutil
import pytest

from tuner.config import Limits, Policy
from tuner.errors import JobRaised, WorkerDied, WorkloadError
from tuner.measure.pool import WorkerPool
from tuner.measure.runner import Runner
from tuner.measure.worker import IsolatedWorker
from tuner.outcome import Failure, FailureKind, Latency
from tuner.workloads.spec import parse_workload
from tuner.workloads.workload import Workload

TARGET = {"kind": "llvm", "num-cores": 2}
N = 1 << 20
ODD = N - 107
"""Leaves room between the buffer and the pages around it."""
LIMITS = Limits(run_timeout_s=4.0, extra_memory_bytes=1 << 27)
POLICY = Policy(repeats=3, min_sample_s=0.0005, confirm_rounds=3)


@pytest.fixture(scope="module")
def build(zygote):
    """Builds a kernel of kernels.py, once."""
    built = {}
    with IsolatedWorker(zygote, jobs_per_worker=100, extra_memory_bytes=1 << 30) as worker:

        def build(name: str, n: int = ODD) -> bytes:
            if (name, n) not in built:
                built[name, n] = worker.call("kernel", {"name": name, "n": n}, 30)
            return built[name, n]

        yield build


def affine_runner(zygote, build, n, limits=LIMITS, baseline="good"):
    with IsolatedWorker(zygote, jobs_per_worker=1, extra_memory_bytes=1 << 30) as worker:
        workload = Workload.from_dict(worker.call("affine_workload", {"n": n}, 20))
    runner = Runner(zygote, limits)
    try:
        found = runner.setup(workload, TARGET, build(baseline, n), seed=3, n_input_sets=3, policy=POLICY)
    except BaseException:
        runner.close()
        raise
    assert found.oracle == "float64"
    assert found.max_abs_error < 1e-6
    assert len(found.run_secs) == 3
    return runner


@pytest.fixture(scope="module")
def runner(zygote, build) -> Iterator[Runner]:
    with affine_runner(zygote, build, ODD) as runner:
        yield runner


def works(runner, build, n=ODD):
    measured = runner.measure(build("parallel", n), None)
    assert isinstance(measured.outcome, Latency), measured
    assert measured.outcome.full
    assert len(measured.outcome.run_secs) == 3
    assert measured.max_abs_error < 1e-6
    return True


def test_a_right_kernel_gets_a_latency(runner, build):
    assert works(runner, build)


def test_a_slow_candidate_gets_the_short_look_only(runner, build):
    outcome = runner.measure(build("parallel"), 1e-9).outcome
    assert isinstance(outcome, Latency)
    assert (outcome.full, len(outcome.run_secs)) == (False, 1)


def test_a_kernel_of_microseconds_is_looked_at_by_a_full_sample_before_it_is_given_up(zygote, build):
    with affine_runner(zygote, build, 64) as runner:
        hopeless, hopeful = (runner.measure(build("good", 64), best_s).outcome for best_s in (1e-12, 1.0))
    assert isinstance(hopeless, Latency)
    assert (hopeless.full, len(hopeless.run_secs)) == (False, 1)
    assert isinstance(hopeful, Latency)
    assert (hopeful.full, len(hopeful.run_secs)) == (True, POLICY.repeats)


def test_what_the_machine_took_is_tried_again(zygote, build):
    with affine_runner(zygote, build, 64) as runner:
        first = runner.pid
        threading.Timer(0.3, os.kill, (first, signal.SIGKILL)).start()
        outcome = runner.measure(build("sleeps", 64), None).outcome
        assert isinstance(outcome, Latency), outcome
        assert runner.pid != first


@pytest.mark.parametrize(
    ("name", "kind", "detail"),
    [
        ("wrong_in_one", FailureKind.WRONG_ANSWER, f"output 'B' at [{777777 % ODD}]: got"),
        ("unwritten", FailureKind.WRONG_ANSWER, f"output 'B' at [{ODD - 1}]: got nan"),
        ("right_the_first_time", FailureKind.WRONG_ANSWER, "not the same in every run"),
        ("modifies_input", FailureKind.WRONG_ANSWER, "input 'A' was modified"),
        ("one_past_the_end", FailureKind.RUN_ERROR, "argument 'B' was written up to 4 bytes past its end"),
        ("one_before_the_start", FailureKind.RUN_ERROR, "argument 'B' was written up to 4 bytes before its start"),
        ("far_out", FailureKind.RUN_ERROR, "SIGSEGV"),
        ("aborts", FailureKind.RUN_ERROR, "SIGABRT"),
        ("exits", FailureKind.RUN_ERROR, "status 7"),
        ("never_ends", FailureKind.RUN_TIMEOUT, "no answer within 4 s"),
        ("eats_memory", FailureKind.RUN_ERROR, ""),
        ("killed", FailureKind.WORKER_LOST, "SIGKILL"),
    ],
)
def test_a_planted_fault_is_one_typed_failure(runner, build, name, kind, detail):
    assert works(runner, build)
    before = psutil.Process().children(recursive=True)
    measured = runner.measure(build(name), None)
    outcome = measured.outcome
    assert isinstance(outcome, Failure)
    assert outcome.kind is kind, outcome
    if measured.max_abs_error is not None and name != "right_the_first_time":
        assert measured.run_s == 0.0  # judged before it was timed
    assert detail in outcome.detail
    assert "\n" not in outcome.detail
    assert works(runner, build)
    assert len(psutil.Process().children(recursive=True)) == len(before)


def test_one_past_a_buffer_that_fills_its_pages(zygote, build):
    with affine_runner(zygote, build, N) as runner:
        outcome = runner.measure(build("one_past_the_end", N), None).outcome
        assert isinstance(outcome, Failure)
        assert outcome.kind is FailureKind.RUN_ERROR
        assert "SIGSEGV" in outcome.detail
        assert works(runner, build, N)


def test_not_object_code_is_a_run_error(runner, build):
    outcome = runner.measure(b"not an object", None).outcome
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.RUN_ERROR
    assert works(runner, build)


def test_confirm_interleaves_and_names_the_broken_one(runner, build):
    confirmed = runner.confirm([build("parallel"), build("good")], 3)
    assert [len(confirmed.baseline_secs), *map(len, confirmed.candidates)] == [3, 3, 3]
    confirmed = runner.confirm([build("parallel"), build("aborts"), build("wrong_in_one"), build("good")], 3)
    first, aborts, wrong, last = confirmed.candidates
    assert len(confirmed.baseline_secs) == len(first) == len(last) == 3
    assert isinstance(aborts, Failure)
    assert "SIGABRT" in aborts.detail
    assert isinstance(wrong, Failure)
    assert wrong.kind is FailureKind.WRONG_ANSWER
    sound, late = runner.confirm([build("parallel"), build("right_the_first_time")], 3).candidates
    assert len(sound) == 3
    assert isinstance(late, Failure)
    assert late.kind is FailureKind.WRONG_ANSWER


def test_memory_stays_flat_over_300_jobs(zygote, build):
    """Beyond what the first 50 leave in caches."""
    patient = Limits(run_timeout_s=20.0, extra_memory_bytes=1 << 28)
    with affine_runner(zygote, build, 64, patient) as runner:
        codes = [build("parallel", 64), build("good", 64), build("wrong_in_one", 64)]
        for i in range(300):
            runner.measure(codes[i % 3], 1e-12)
            if i == 50:
                pid, before = runner.pid, psutil.Process(runner.pid).memory_info().rss
        assert runner.pid == pid
        assert psutil.Process(pid).memory_info().rss - before < 4 << 20


def test_an_untuned_module_that_cannot_be_run_is_a_workload_error(zygote, build):
    impatient = Limits(run_timeout_s=2.0, setup_timeout_s=2.0, extra_memory_bytes=1 << 28)
    for name, why in (("aborts", "can't be run.*SIGABRT"), ("never_ends", "too slow"), ("one_past_the_end", "faulty")):
        with pytest.raises(WorkloadError, match=f"affine: the untuned module .*{why}"):
            affine_runner(zygote, build, 1000, impatient, baseline=name)


def test_a_catalogue_operator_is_held_against_numpy(zygote, build):
    request = {name: parse_workload(f"{name}:shape=33x70").to_dict() for name in ("softmax", "log_softmax")}
    with IsolatedWorker(zygote, jobs_per_worker=9, extra_memory_bytes=1 << 30) as worker:
        data = {name: worker.call("workload.resolve", {"request": r}, 30) for name, r in request.items()}
        code = {name: worker.call("untuned", {"module_json": d["module_json"]}, 30) for name, d in data.items()}
    workload = Workload.from_dict(data["softmax"])
    with Runner(zygote, LIMITS) as runner:
        with pytest.raises(WorkloadError, match=r"softmax.*contradicts the numpy reference: output 'out' at"):
            runner.setup(workload, TARGET, code["log_softmax"], seed=0, n_input_sets=2, policy=POLICY)
        baseline = runner.setup(workload, TARGET, code["softmax"], seed=0, n_input_sets=2, policy=POLICY)
        assert baseline.oracle == "reference"
        assert isinstance(runner.measure(code["softmax"], None).outcome, Latency)
        runner.close()
        assert isinstance(runner.measure(code["softmax"], None).outcome, Latency)
        wrong = runner.measure(code["log_softmax"], None).outcome
        assert isinstance(wrong, Failure)
        assert wrong.kind is FailureKind.WRONG_ANSWER


def test_a_sum_whose_zeroing_was_hoisted_is_always_a_wrong_answer(zygote, build):
    with IsolatedWorker(zygote, jobs_per_worker=1, extra_memory_bytes=1 << 30) as worker:
        workload = Workload.from_dict(worker.call("normalised_workload", {}, 20))
    for seed in range(3):
        with Runner(zygote, LIMITS) as runner:
            runner.setup(workload, TARGET, build("normalised"), seed=seed, n_input_sets=3, policy=POLICY)
            wrong = runner.measure(build("zeroing_hoisted"), None)
            assert isinstance(wrong.outcome, Failure)
            assert wrong.outcome.kind is FailureKind.WRONG_ANSWER
            right = runner.measure(build("in_lanes"), None)
            assert isinstance(right.outcome, Latency)


def test_a_builder_that_dies_is_one_failure(zygote):
    with WorkerPool(zygote, 2, LIMITS) as pool:
        dies = {"signal_number": 11}
        answers = pool.map("die_by", [dies], 10)
        assert isinstance(answers[0], WorkerDied)
        built = pool.map("kernel", [{"name": "good", "n": 64}, {"name": "no_such", "n": 64}], 30)
        assert isinstance(built[0], bytes)
        assert isinstance(built[1], JobRaised)


def test_equal_modules_give_equal_bytes(zygote):
    with WorkerPool(zygote, 2, LIMITS) as pool:
        codes = pool.map("kernel", [{"name": "parallel", "n": 64}] * 6, 30)
    assert len(set(codes)) == 1
