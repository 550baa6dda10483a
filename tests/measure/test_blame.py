"""Whose fault a missing answer is: what blames a candidate is never retried, and what blames the machine is."""

from __future__ import annotations

import pytest

from tuner.errors import JobRaised, ToolchainError, WorkerDied, WorkerError, WorkerSetupFailed, WorkerTimeout
from tuner.measure.blame import is_machines_fault
from tuner.outcome import FailureKind
from tuner.search.builder import Builder
from tuner.search.candidates import Candidate

CODE = [
    (JobRaised("TypeError"), FailureKind.BUILD_ERROR),
    (WorkerTimeout("no answer"), FailureKind.BUILD_TIMEOUT),
    (WorkerDied("died", "SIGSEGV"), FailureKind.BUILD_ERROR),
    (WorkerDied("exited", exit_status=1), FailureKind.BUILD_ERROR),
]
MACHINE = [
    WorkerDied("died", "SIGKILL"),
    WorkerDied("died", "SIGTERM"),
    WorkerDied("lost with its zygote"),
    WorkerSetupFailed("no fresh process"),
]


class RecordedPool:
    """Gives recorded answers: the builder reads them as it reads a real pool's."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)

    def map(self, job, calls, timeout_s, on_result=None):
        if job == "space.trace":
            return [{"trace_json": "[[], []]"}]
        return [self._answers.pop(0) for _ in calls]


def build(*answers: object):
    return Builder(RecordedPool(*answers), {}, 1.0)([Candidate(0, (), 0)])[0]


@pytest.mark.parametrize(("error", "kind"), CODE)
def test_the_codes_fault(error: WorkerError, kind: FailureKind) -> None:
    assert not is_machines_fault(error)
    assert build(error).failure.kind is kind


@pytest.mark.parametrize("error", MACHINE)
def test_the_machines_fault_is_tried_once_more_and_never_held_against_the_candidate(error: WorkerError) -> None:
    assert is_machines_fault(error)
    assert build(error, error).failure.kind is FailureKind.WORKER_LOST
    assert build(error, {"object": b"code", "trace_json": "[[], []]", "seconds": 0.1}).failure is None


def test_what_no_worker_can_cure_ends_the_run() -> None:
    with pytest.raises(ToolchainError):
        build(ToolchainError("TVM is missing"))
