"""The parent's handle on the zygote: starts it in the background, asks it for workers, and restarts it when lost.

Needs no TVM itself. Nothing that it starts outlives the parent process, however that one ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import tuner
from tuner.errors import ToolchainError, WorkerDied
from tuner.measure.channel import Channel
from tuner.measure.jobs import JOBS
from tuner.measure.protocol import decode, encode

_START_TIMEOUT_S = 120.0
_REQUEST_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Child:
    """One forked worker: its process (which leads a group of the same number), its socket, its stdout and stderr."""

    pid: int
    channel: Channel
    log_fd: int
    generation: int


class Zygote:
    """A process that imported TVM once and forks workers from there. Safe to use from several threads.

    Args:
        n_threads: what TVM's own thread pool uses in each worker; the target's cores.
        env: more environment variables for the zygote and its workers.
        more_jobs: job names beside the fixed table, {"name": "module:function"}; for tests.
    """

    def __init__(
        self, n_threads: int, *, env: Mapping[str, str] | None = None, more_jobs: Mapping[str, str] | None = None
    ) -> None:
        self._n_threads = n_threads
        self._env = dict(env or {})
        self._table = {**JOBS, **(more_jobs or {})}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._log: IO[bytes] | None = None
        self._ready = False
        self._generation = 0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The zygote's process, None when none runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts the process and returns at once; the first `fork` waits for it."""
        with self._lock, _machines_refusal():
            self._launch()

    def fork(self) -> Child:
        """A fresh worker process, waiting for jobs.

        Raises:
            ToolchainError: the zygote can't start, e.g. TVM is missing.
            WorkerDied: the machine gives no process.
        """
        with _machines_refusal():
            return self._fork()

    def _fork(self) -> Child:
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as always:
            ours, theirs = socket.socketpair()
            on_failure.callback(ours.close)
            always.callback(theirs.close)
            log_read, log_write = os.pipe()
            on_failure.callback(os.close, log_read)
            always.callback(os.close, log_write)
            with self._lock:
                self._launch()
                self._await_ready()
                pid = self._request({"do": "fork"}, [theirs.fileno(), log_write])["pid"]
                generation = self._generation
            on_failure.pop_all()
        return Child(pid, Channel(ours), log_read, generation)

    def reap(self, child: Child, *, kill: bool = True) -> int | None:
        """Ends a worker and all that it started, and frees what belongs to it.

        Returns its exit status, negative for a signal, as it was before the kill when it had ended by itself;
        None when the zygote was lost, and its workers with it.
        """
        child.channel.close()
        os.close(child.log_fd)
        with self._lock:
            if child.generation != self._generation or self._control is None:
                return None
            try:
                status: int | None = self._request({"do": "reap", "pid": child.pid, "kill": kill}, [])["status"]
            except WorkerDied:
                return None
            return status

    def abort(self) -> None:
        """From another thread, for good: calls in progress, and all later ones, fail soon with a TunesmithError."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Ends the zygote and all workers; returns when they are gone."""
        with self._lock:
            self._closed = True
            self._discard(grace_s=5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _launch(self) -> None:
        if self._closed:
            raise WorkerDied("the zygote is closed")
        if self._process is not None:
            if self._process.poll() is None:
                return
            self._discard(grace_s=0.0)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = {
            "fd": theirs.fileno(),
            "parent_pid": os.getpid(),
            "parent_is_main_thread": threading.current_thread() is threading.main_thread(),
            "table": self._table,
            "n_threads": self._n_threads,
        }
        self._log = open(os.memfd_create("zygote-log"), "w+b")  # noqa: SIM115  lives as long as the process
        try:
            # Of its own session: a Ctrl-C in the terminal reaches the parent alone, which then decides.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tuner.measure.zygote_main", json.dumps(settings)],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                env=self._environment(),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._control = ours
        self._ready = False
        self._generation += 1

    def _environment(self) -> dict[str, str]:
        root = str(Path(tuner.__file__).resolve().parent.parent)
        path = os.environ.get("PYTHONPATH")
        fixed = {
            "PYTHONPATH": root if not path else f"{root}{os.pathsep}{path}",
            "PYTHONHASHSEED": "0",
            "TVM_NUM_THREADS": str(self._n_threads),
            # numpy's own threads would start at import, and a process with threads can't fork safely.
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        }
        if len(os.sched_getaffinity(0)) < (os.cpu_count() or 1):
            # TVM pins its threads by the machine's core numbers, past the cores that this process may use.
            fixed["TVM_BIND_THREADS"] = "0"
        return {**os.environ, **fixed, **self._env}

    def _await_ready(self) -> None:
        if self._ready:
            return
        reply = self._exchange(None, [], _START_TIMEOUT_S)
        if reply is None:
            tail = self._log_tail()
            self._discard(grace_s=0.0)
            raise ToolchainError(f"the process that imports TVM did not start; it last said: {tail or 'nothing'}")
        if "error" in reply:
            self._discard(grace_s=1.0)
            text = reply["message"] if reply["error"] == "ToolchainError" else f"{reply['error']}: {reply['message']}"
            raise ToolchainError(text)
        self._ready = True

    def _request(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        reply = self._exchange(message, fds, _REQUEST_TIMEOUT_S)
        if reply is None:
            self._discard(grace_s=0.0)
            raise WorkerDied("the zygote process was lost, and its workers with it")
        if "error" in reply:
            raise WorkerDied(reply["message"])
        return reply

    def _exchange(self, message: dict[str, Any] | None, fds: list[int], timeout_s: float) -> dict[str, Any] | None:
        """Sends a message, if any, and waits for one; None when the zygote is gone or frozen."""
        assert self._control is not None
        self._control.settimeout(timeout_s)
        try:
            if message is not None:
                socket.send_fds(self._control, [encode(message)], fds)
            data = self._control.recv(1 << 16)
        except OSError:
            return None
        except BaseException:
            # Interrupted half-way: the next answer would be taken for another question's.
            self._discard(grace_s=0.0)
            raise
        return decode(data) if data else None

    def _discard(self, grace_s: float) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=max(grace_s, 1e-3))
            # Its workers ask the kernel to die with it.
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _log_tail(self) -> str:
        if self._log is None:
            return ""
        # The child may still be writing its last words; it has closed the socket already.
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=2.0)
        self._log.seek(0)
        lines = self._log.read()[-2000:].decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


@contextlib.contextmanager
def _machines_refusal() -> Iterator[None]:
    """What the system refuses (descriptors, processes, memory) is the machine's fault."""
    try:
        yield
    except OSError as error:
        raise WorkerDied(f"the machine gives no worker process: {error.strerror or error}") from error
