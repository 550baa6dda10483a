"""Runs jobs that may hang, crash or eat memory in a forked process that we can afford to lose."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from tuner import errors
from tuner.errors import JobRaised, TunesmithError, WorkerDied, WorkerError, WorkerSetupFailed, WorkerTimeout
from tuner.measure.fair_clock import is_stopped, waited_for_core_s
from tuner.measure.protocol import encode
from tuner.measure.zygote import Child, Zygote

_LOG_TAIL_BYTES = 8192
_ANSWER_S = 10.0  # an answer that has begun is in memory already
_MOST_CREDIT = 5.0  # times a job's limit, for seconds in which the machine gave it no core


class SetupStep(NamedTuple):
    """A job that is run in each fresh process before any other, with its own limit."""

    job: str
    kwargs: dict[str, Any]
    timeout_s: float


class IsolatedWorker:
    """One long-lived process, forked on first use, replaced after a crash, a hang, damage, or `jobs_per_worker` jobs.

    The limit of a job covers that job only: never the start-up, nor the setup of a fresh process, nor the seconds in
    which it was ready to run and a busy machine gave it no core.

    Args:
        extra_memory_bytes: by how much a job may grow the process; beyond it allocations fail.
        setup: run in each fresh process, in order.
    """

    def __init__(
        self,
        zygote: Zygote,
        *,
        jobs_per_worker: int,
        extra_memory_bytes: int,
        setup: Sequence[tuple[str, dict[str, Any], float]] = (),
    ) -> None:
        self._zygote = zygote
        self._jobs_per_worker = jobs_per_worker
        self.extra_memory_bytes = extra_memory_bytes
        self._setup = [SetupStep(*step) for step in setup]
        self._child: Child | None = None
        self._jobs_done = 0
        self._log = bytearray()
        self._lock = threading.Lock()
        self._aborted = False

    @property
    def pid(self) -> int | None:
        """The worker's process, None when none runs."""
        child = self._child
        return None if child is None else child.pid

    def call(self, job: str, kwargs: dict[str, Any], timeout_s: float) -> Any:
        """Runs a job of the table (tuner/measure/jobs.py) in the child and returns its answer.

        Raises:
            JobRaised: the job raised; the child is kept. An error of tuner/errors.py is raised as itself.
            WorkerTimeout: no answer within `timeout_s`; the child is gone.
            WorkerDied: the child ended first, was aborted, or was stopped or starved by the machine.
            WorkerSetupFailed: the job never ran, because no fresh process could be prepared for it.
        """
        child = self._ready_child()
        return self._exchange(child, SetupStep(job, kwargs, timeout_s))

    def remember(self, job: str, kwargs: dict[str, Any], timeout_s: float) -> None:
        """Makes a job the last setup step of each later process; the present one was prepared by a `call`."""
        self._setup.append(SetupStep(job, kwargs, timeout_s))

    @property
    def was_aborted(self) -> bool:
        """Whether the last process was ended by `abort`."""
        return self._aborted

    def log_tail(self, n_lines: int = 5) -> str:
        """The last lines that the child wrote to its stdout or stderr."""
        lines = self._log.decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-n_lines:])

    def abort(self) -> None:
        """From another thread: makes a `call` in progress raise WorkerDied soon. The next call works again."""
        with self._lock:
            if self._child is not None:
                self._aborted = True
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kills the child and everything it started."""
        self._retire()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ready_child(self) -> Child:
        if self._child is not None:
            worn = self._jobs_done >= self._jobs_per_worker
            if worn or self._aborted or _hung_up(self._child):
                self._retire()
        if self._child is not None:
            return self._child
        child = self._zygote.fork()
        with self._lock:
            self._child, self._jobs_done, self._aborted = child, 0, False
        for step in self._setup:
            try:
                self._exchange(child, step)
            except WorkerError as error:
                self._retire()
                raise WorkerSetupFailed(f"setting up a worker process ({step.job}): {error}") from error
            except BaseException:
                self._retire()
                raise
        self._jobs_done = 0
        return child

    def _exchange(self, child: Child, step: SetupStep) -> Any:
        self._log.clear()
        deadline = time.monotonic() + step.timeout_s
        waited_before_s = waited_for_core_s(child.pid)
        request = {"job": step.job, "kwargs": step.kwargs, "extra_memory_bytes": self.extra_memory_bytes}
        payload = encode(request)
        try:
            child.channel.send_encoded(payload, deadline)
            self._await(child, deadline, step.timeout_s, waited_before_s)
            answer = child.channel.receive(max(deadline, time.monotonic() + _ANSWER_S))
        except WorkerDied:
            self._retire()
            raise
        except TimeoutError as error:
            stopped = is_stopped(child.pid)
            self._retire()
            if stopped:
                raise WorkerDied(f"the worker process was stopped from outside for {step.timeout_s:g} s") from error
            raise WorkerTimeout(f"no answer within {step.timeout_s:g} s") from error
        except (EOFError, OSError) as error:
            raise self._death() from error
        except ValueError as error:
            self._retire()
            raise WorkerDied(f"the worker process sent something that is no answer: {error}") from error
        except BaseException:
            self._retire()
            raise
        self._jobs_done += 1
        if "error" in answer:
            raise _raised(answer)
        if answer["tainted"]:
            self._retire()
        return answer["value"]

    def _await(self, child: Child, deadline: float, timeout_s: float, waited_before_s: float) -> None:
        """Waits for the answer's first byte, and meanwhile empties the pipe of the child's stderr."""
        credit_s = 0.0
        poll = select.poll()
        poll.register(child.channel.fileno(), select.POLLIN)
        poll.register(child.log_fd, select.POLLIN)
        while True:
            left_s = deadline + credit_s - time.monotonic()
            events = dict(poll.poll(max(left_s, 0.0) * 1e3))
            if events.get(child.log_fd, 0) & select.POLLIN:
                self._read_log(child)
            elif child.log_fd in events:
                poll.unregister(child.log_fd)
            if child.channel.fileno() in events:
                return
            if left_s <= 0:
                credit_s = _more_credit(child.pid, timeout_s, waited_before_s, credit_s)

    def _read_log(self, child: Child) -> None:
        self._log += os.read(child.log_fd, 1 << 16)
        del self._log[:-_LOG_TAIL_BYTES]

    def _death(self) -> WorkerDied:
        status = self._retire()
        if self._aborted:
            return WorkerDied("the job was aborted")
        if status is None:
            return WorkerDied("the worker was lost with its zygote process")
        if status < 0:
            name = _signal_name(-status)
            return WorkerDied(f"the worker process died of {name}", name)
        return WorkerDied(f"the worker process exited with status {status} before answering", exit_status=status)

    def _retire(self) -> int | None:
        """Ends the child, if any; returns its exit status as Zygote.reap does."""
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return None
        if _readable(child.log_fd):
            self._read_log(child)
        return self._zygote.reap(child)


def _more_credit(pid: int, timeout_s: float, waited_before_s: float, credit_s: float) -> float:
    """By how many seconds a job at the end of its time may outlive its limit, because the machine kept it waiting.

    Raises:
        TimeoutError: it had its time.
        WorkerDied: the machine is at fault.
    """
    waited_s = waited_for_core_s(pid) - waited_before_s
    if waited_s <= credit_s + 0.05 * timeout_s:
        raise TimeoutError
    if credit_s >= _MOST_CREDIT * timeout_s:
        raise WorkerDied(f"the machine is too busy: the worker process waited {waited_s:.1f} s for a core")
    return min(waited_s, _MOST_CREDIT * timeout_s)


def _hung_up(child: Child) -> bool:
    """Whether an idle child has closed its socket, i.e. died since its last answer."""
    return _readable(child.channel.fileno())


def _readable(fd: int) -> bool:
    poll = select.poll()  # select() can't take descriptors above 1023
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal has no name


def _raised(answer: dict[str, Any]) -> TunesmithError:
    """The error of tuner/errors.py that the child names, else a JobRaised that tells it."""
    name, message = answer["error"], answer["message"]
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, TunesmithError):
        return kind(message)
    return JobRaised(f"{name}: {message}" if message else name, answer["trace"])
