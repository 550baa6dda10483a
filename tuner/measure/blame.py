"""Whose fault it was that a job in a child had no answer: the code's that it ran, or the machine's."""

from __future__ import annotations

from tuner.errors import JobRaised, WorkerDied, WorkerError, WorkerTimeout

_CODE_SIGNALS = frozenset({"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS", "SIGXFSZ"})
"""Ends that code brings upon its own process. Any other signal came from outside."""


def is_machines_fault(answer: object) -> bool:
    """True for a worker that was killed or stopped from outside, was lost with its zygote, or could not be made."""
    match answer:
        case JobRaised() | WorkerTimeout():
            return False
        case WorkerDied():
            return answer.signal_name not in _CODE_SIGNALS and answer.exit_status is None
        case _:
            return isinstance(answer, WorkerError)
