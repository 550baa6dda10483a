"""What happens around the zygote: it is lost, its parent is lost, the terminal sends Ctrl-C."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.measure import faults
from tuner.errors import ToolchainError, TunesmithError, WorkerDied
from tuner.measure.blame import is_machines_fault
from tuner.measure.worker import IsolatedWorker
from tuner.measure.zygote import Zygote

ROOT = Path(__file__).parent.parent.parent


def wait_until_gone(pids, timeout_s=5.0):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        left = [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
        if not left:
            return []
        time.sleep(0.02)
    return left


@pytest.fixture
def own_zygote():
    with Zygote(1, more_jobs=faults.JOBS) as zygote:
        yield zygote


def make_worker(zygote):
    return IsolatedWorker(zygote, jobs_per_worker=100, extra_memory_bytes=1 << 28)


def test_start_returns_at_once_and_close_leaves_nothing(own_zygote):
    start = time.monotonic()
    own_zygote.start()
    assert time.monotonic() - start < 0.5
    worker = make_worker(own_zygote)
    worker.call("echo", {}, 10)
    pids = [own_zygote.pid, worker.pid]
    own_zygote.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    worker.close()
    with pytest.raises(WorkerDied, match="closed"):
        worker.call("echo", {}, 10)


def test_a_lost_zygote_is_restarted(own_zygote):
    with make_worker(own_zygote) as worker:
        worker.call("echo", {}, 10)
        first, worker_pid = own_zygote.pid, worker.pid
        os.kill(first, signal.SIGKILL)
        assert wait_until_gone([worker_pid]) == []
        assert worker.call("echo", {"x": 1}, 10) == {"x": 1}
        assert own_zygote.pid != first


def test_zygote_lost_during_a_job(own_zygote):
    with make_worker(own_zygote) as worker:
        worker.call("echo", {}, 10)
        killer = subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -9 {own_zygote.pid}"])
        with pytest.raises(WorkerDied) as caught:
            worker.call("hang", {}, 10)
        killer.wait()
        assert caught.value.signal_name is None
        assert worker.call("echo", {"x": 1}, 10) == {"x": 1}


def test_an_abort_ends_a_start_in_progress_for_good(own_zygote):
    own_zygote.start()
    threading.Timer(0.2, own_zygote.abort).start()
    start = time.monotonic()
    with make_worker(own_zygote) as worker:
        os.kill(own_zygote.pid, signal.SIGSTOP)
        with pytest.raises(TunesmithError):
            worker.call("echo", {}, 60)
        assert time.monotonic() - start < 5
        with pytest.raises(WorkerDied, match="closed"):
            worker.call("echo", {}, 60)


def test_a_machine_without_descriptors_is_at_fault_and_none_leaks(own_zygote):
    with make_worker(own_zygote) as worker:
        worker.call("echo", {}, 10)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        before = os.listdir("/proc/self/fd")
        lowest_free = min(set(range(len(before) + 1)) - {int(fd) for fd in before})
        for spare in range(4):  # a fork needs four, and a request none
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + spare, hard))
            try:
                with pytest.raises(WorkerDied, match="Too many open files") as caught:
                    own_zygote.fork()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert is_machines_fault(caught.value)
        assert len(os.listdir("/proc/self/fd")) == len(before)
        assert worker.call("echo", {"x": 1}, 10) == {"x": 1}


def test_a_zygote_that_cannot_import_says_so(tmp_path):
    (tmp_path / "tvm.py").write_text("raise ImportError('broken')")
    path = f"{tmp_path}:{ROOT}"
    with Zygote(1, env={"PYTHONPATH": path}) as zygote, pytest.raises(ToolchainError):
        zygote.fork()


PARENT = """
    import os, signal, sys, threading, time
    from tests.measure import faults
    from tuner.measure.worker import IsolatedWorker
    from tuner.measure.zygote import Zygote

    def run():
        zygote = Zygote(1, more_jobs=faults.JOBS)
        worker = IsolatedWorker(zygote, jobs_per_worker=9, extra_memory_bytes=1 << 28)
        worker.call("echo", {}, 20)
        print(zygote.pid, worker.pid, worker.call("fork_child", {}, 10), flush=True)
        worker.call("THE_JOB", {}, 600)

    THE_START
"""


@pytest.mark.parametrize("job", ["busy", "freeze"])
@pytest.mark.parametrize("start", ["run()", "threading.Thread(target=run).start()"])
def test_a_killed_parent_leaves_nothing(job, start):
    program = textwrap.dedent(PARENT).replace("THE_JOB", job).replace("THE_START", start)
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 3
    time.sleep(0.2)
    assert all(psutil.pid_exists(pid) for pid in pids)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert wait_until_gone(pids) == []


def test_ctrl_c_reaches_the_parent_alone():
    program = textwrap.dedent(PARENT).replace("THE_JOB", "hang").replace("THE_START", """
try:
    run()
except KeyboardInterrupt:
    print("stopped", flush=True)
""")  # fmt: skip
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    os.killpg(parent.pid, signal.SIGINT)
    out, err = parent.communicate(timeout=20)
    assert out == "stopped\n"
    assert err == ""
    assert wait_until_gone(pids) == []
