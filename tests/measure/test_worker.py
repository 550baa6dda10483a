"""The real zygote and real workers, with jobs that misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tuner.errors import JobRaised, WorkerDied, WorkerSetupFailed, WorkerTimeout, WorkloadError
from tuner.measure.blame import is_machines_fault
from tuner.measure.worker import IsolatedWorker


def still_works(worker):
    return worker.call("echo", {"x": 1}, 10) == {"x": 1}


def test_answers_and_keeps_its_process(worker):
    pids = {worker.call("worker_pid", {}, 10) for _ in range(5)}
    assert len(pids) == 1
    assert pids == {worker.pid}


def test_an_exception_keeps_the_process(worker):
    before = worker.call("worker_pid", {}, 10)
    with pytest.raises(JobRaised, match="ValueError: first line second line") as caught:
        worker.call("raise_value_error", {}, 10)
    assert "raise_value_error" in caught.value.trace
    with pytest.raises(WorkloadError, match="no such operator"):
        worker.call("raise_workload_error", {}, 10)
    with pytest.raises(JobRaised, match="no job is named 'os:system'"):
        worker.call("os:system", {"command": "true"}, 10)
    with pytest.raises(JobRaised, match="can't send a object"):
        worker.call("unsendable", {}, 10)
    with pytest.raises(TypeError):
        worker.call("echo", {"x": object()}, 10)
    with pytest.raises(JobRaised, match="UnicodeEncodeError"):
        worker.call("unspeakable", {}, 10)
    with pytest.raises(ValueError):
        worker.call("echo", {"x": "\ud800"}, 10)
    assert worker.call("worker_pid", {}, 10) == before


@pytest.mark.parametrize("size", [5, 1 << 62])
def test_garbage_on_the_socket_is_a_death(worker, size):
    with pytest.raises(WorkerDied, match="no answer"):
        worker.call("garbage", {"size": size}, 10)
    assert still_works(worker)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGILL])
def test_death_by_signal_names_it(worker, number):
    with pytest.raises(WorkerDied) as caught:
        worker.call("die_by", {"signal_number": int(number)}, 10)
    assert caught.value.signal_name == number.name
    assert still_works(worker)


def test_death_by_a_signal_without_a_name(worker):
    with pytest.raises(WorkerDied, match=f"died of signal {signal.SIGRTMIN + 3}"):
        worker.call("die_by", {"signal_number": int(signal.SIGRTMIN) + 3}, 10)


def test_segfault_and_quiet_exit(worker):
    with pytest.raises(WorkerDied) as caught:
        worker.call("segfault", {}, 10)
    assert caught.value.signal_name == "SIGSEGV"
    with pytest.raises(WorkerDied, match="status 3") as caught:
        worker.call("exit_quietly", {}, 10)
    assert (caught.value.signal_name, caught.value.exit_status) == (None, 3)
    assert still_works(worker)


@pytest.mark.parametrize(("job", "kind"), [("hang", WorkerTimeout), ("busy", WorkerTimeout), ("freeze", WorkerDied)])
def test_the_deadline_is_kept_even_when_the_child_is_frozen(worker, job, kind):
    """A process that something has stopped is not slow: that is no fault of the job."""
    still_works(worker)
    pid = worker.pid
    start = time.monotonic()
    with pytest.raises(kind) as caught:
        worker.call(job, {}, 0.3)
    assert is_machines_fault(caught.value) == (kind is WorkerDied)
    assert time.monotonic() - start < 5
    assert not psutil.pid_exists(pid)
    assert still_works(worker)


def test_a_child_that_is_frozen_while_idle_is_replaced(worker):
    still_works(worker)
    os.kill(worker.pid, signal.SIGSTOP)
    with pytest.raises(WorkerDied, match="stopped from outside"):
        worker.call("echo", {"x": bytes(50 << 20)}, 0.3)
    assert still_works(worker)


def test_waiting_for_a_core_does_not_count(worker):
    """Five others on the same core: the job needs six times its own seconds, and far more than its limit."""
    core = min(os.sched_getaffinity(0))
    still_works(worker)
    os.sched_setaffinity(worker.pid, {core})
    spin = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(5)]
    try:
        time.sleep(0.5)
        start = time.monotonic()
        assert worker.call("burn", {"cpu_s": 0.4}, 0.7) == "done"
        assert time.monotonic() - start > 0.7, "otherwise nothing was proven"
        with pytest.raises((WorkerTimeout, WorkerDied)):
            worker.call("busy", {}, 0.2)
        assert time.monotonic() - start < 15
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_a_child_that_died_while_idle_is_not_the_next_jobs_fault(worker):
    still_works(worker)
    process = psutil.Process(worker.pid)
    process.kill()
    while process.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert still_works(worker)


def test_an_abort_while_idle_does_not_hurt_the_next_job(worker):
    for _ in range(5):
        still_works(worker)
        worker.abort()
        assert still_works(worker)


def test_memory_is_limited(worker):
    with pytest.raises(JobRaised, match="MemoryError"):
        worker.call("eat_memory", {}, 20)
    assert still_works(worker)


def test_damaged_process_answers_and_is_replaced(worker):
    before = worker.call("taint", {}, 10)
    assert worker.call("worker_pid", {}, 10) != before
    assert not psutil.pid_exists(before)


def test_replaced_after_n_jobs_and_set_up_again(zygote):
    setup = [("remember", {"value": 7}, 10)]
    with IsolatedWorker(zygote, jobs_per_worker=3, extra_memory_bytes=1 << 28, setup=setup) as worker:
        pids = [worker.call("worker_pid", {}, 10) for _ in range(7)]
        assert len(set(pids)) == 3
        assert pids[0] == pids[2] != pids[3]
        assert worker.call("recall", {}, 10) == 7


def test_a_remembered_job_prepares_later_processes(worker):
    worker.call("remember", {"value": 1}, 10)
    worker.remember("remember", {"value": 2}, 10)
    assert worker.call("recall", {}, 10) == 1
    with pytest.raises(WorkerDied):
        worker.call("segfault", {}, 10)
    assert worker.call("recall", {}, 10) == 2


def test_failing_setup_is_told_apart(zygote):
    setup = [("segfault", {}, 10)]
    with IsolatedWorker(zygote, jobs_per_worker=3, extra_memory_bytes=1 << 28, setup=setup) as worker:
        with pytest.raises(WorkerSetupFailed, match="SIGSEGV"):
            worker.call("echo", {}, 10)
        assert worker.pid is None


@pytest.mark.parametrize("ends_by_itself", [False, True])
def test_what_a_job_starts_dies_with_its_process(worker, ends_by_itself):
    grandchild = worker.call("fork_child", {}, 10)
    assert psutil.pid_exists(grandchild)
    if ends_by_itself:
        with pytest.raises(WorkerDied):
            worker.call("segfault", {}, 10)
    worker.close()
    time.sleep(0.05)
    assert not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE


def test_noise_neither_blocks_nor_reaches_the_terminal(worker, capfd):
    assert worker.call("noisy", {"megabytes": 3}, 10) == "done"
    assert worker.log_tail().endswith("last words")
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_the_zygote_has_one_thread(worker):
    assert worker.call("threads", {}, 10) == 1
