"""Every exception this project raises on purpose, named by what the caller should do next.

    TunesmithError                 one clear line: what was wanted, what was got, what to do
    |-- UsageError                 the caller's mistake: change the request (exit code 2, HTTP 422)
    |   |-- WorkloadError          the workload can't be understood or is not supported
    |   `-- TargetError            the target is unknown, incomplete or not usable here
    |-- NotFoundError              nothing by that name is stored (exit code 1, HTTP 404)
    |-- StorageError               the database is locked, full, damaged or of another version
    |-- Interrupted                the caller asked to stop before there was a result
    |-- ToolchainError             TVM and its companions are missing or do not fit together
    `-- WorkerError                a job in a child process produced no result
        |-- JobRaised              the job raised; the child lives on
        |-- WorkerTimeout          the job outlived its deadline; its process was killed
        |-- WorkerDied             the process ended before answering, as after a segmentation fault
        `-- WorkerSetupFailed      a fresh process could not be prepared for the job, which never ran

A candidate that fails is not an exception: it is a `Failure` value (tuner/outcome.py).
"""

from __future__ import annotations


class TunesmithError(Exception):
    """Root of all errors raised on purpose. `str(error)` is fit to be shown as one line."""


class UsageError(TunesmithError):
    """The request itself is wrong; repeating it can't help."""


class WorkloadError(UsageError):
    """The workload is malformed, unknown or not supported."""


class TargetError(UsageError):
    """The target is malformed, unknown, or lacks an attribute that can't be filled in."""


class NotFoundError(TunesmithError):
    """Nothing is stored under the given name."""


class StorageError(TunesmithError):
    """The database can't be read or written: locked, full, damaged or of another version."""


class Interrupted(TunesmithError):
    """The run was stopped, as asked for, before its first trial; nothing was measured."""


class ToolchainError(TunesmithError):
    """TVM and its companions are missing or don't fit together."""


class WorkerError(TunesmithError):
    """A job in a child process produced no result."""


class JobRaised(WorkerError):
    """The job raised. Carries text only, `trace` for a log; the child is kept."""

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


class WorkerTimeout(WorkerError):
    """The job outlived its deadline and its process was killed."""


class WorkerDied(WorkerError):
    """The process ended before answering.

    `signal_name` is e.g. "SIGSEGV" when a signal ended it, `exit_status` is set when it exited by itself; both are
    None when it was aborted, or lost for reasons outside the job.
    """

    def __init__(self, message: str, signal_name: str | None = None, exit_status: int | None = None) -> None:
        super().__init__(message)
        self.signal_name = signal_name
        self.exit_status = exit_status


class WorkerSetupFailed(WorkerError):
    """A fresh process could not be prepared for the job, which never ran."""
