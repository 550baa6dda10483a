"""Builds a batch of candidates through the worker pool. A candidate that can't be built is a typed failure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.errors import TunesmithError, WorkerError, WorkerTimeout
from tuner.measure.blame import is_machines_fault
from tuner.outcome import Failure, FailureKind
from tuner.search.candidates import Candidate
from tuner.search.evaluator import JobPool, go_on


@dataclass(frozen=True, slots=True)
class Built:
    """Object code of one candidate. `failure` is set, and `code` empty, when there is none."""

    code: bytes
    sha256: str | None
    trace_json: str
    seconds: float
    failure: Failure | None = None


class Builder:
    """Builds candidates of one task, each within `timeout_s`.

    `checkpoint` is called as answers arrive; what it raises ends the call.
    """

    def __init__(
        self, pool: JobPool, task: dict[str, Any], timeout_s: float, checkpoint: Callable[[], None] = go_on
    ) -> None:
        self._pool = pool
        self._task = task
        self._timeout_s = timeout_s
        self._checkpoint = checkpoint

    def __call__(self, candidates: Sequence[Candidate | None]) -> list[Built]:
        """One answer per candidate, in order; None stands for the untuned module.

        Raises:
            TunesmithError: no worker can be made at all, e.g. because TVM is missing.
        """
        answers = self._map(candidates)
        lost = [i for i, answer in enumerate(answers) if is_machines_fault(answer)]
        again = self._map([candidates[i] for i in lost])
        for i, answer in zip(lost, again, strict=True):
            answers[i] = answer
        return [self._read(c, answer) for c, answer in zip(candidates, answers, strict=True)]

    def _map(self, candidates: Sequence[Candidate | None]) -> list[Any]:
        calls = [self._call(c) for c in candidates]
        return list(self._pool.map("space.build", calls, self._timeout_s, lambda _index, _answer: self._checkpoint()))

    def _call(self, candidate: Candidate | None) -> dict[str, Any]:
        return {"task": self._task, "candidate": None if candidate is None else candidate.to_wire()}

    def _read(self, candidate: Candidate | None, answer: Any) -> Built:
        if isinstance(answer, WorkerError):
            return Built(b"", None, self._trace_of(candidate), self._timeout_s, _failure_of(answer, self._timeout_s))
        if isinstance(answer, TunesmithError):
            raise answer
        if "refused" in answer:
            return Built(b"", None, "", 0.0, Failure(FailureKind.INVALID_SCHEDULE, answer["refused"]))
        if "failed" in answer:
            return Built(b"", None, answer["trace_json"], 0.0, Failure(FailureKind.BUILD_ERROR, answer["failed"]))
        code: bytes = answer["object"]
        return Built(code, hashlib.sha256(code).hexdigest(), answer["trace_json"], answer["seconds"])

    def _trace_of(self, candidate: Candidate | None) -> str:
        """The trace of a candidate whose build killed its worker; empty if even that can't be had."""
        answer = self._pool.map("space.trace", [self._call(candidate)], self._timeout_s)[0]
        return "" if isinstance(answer, TunesmithError) else str(answer["trace_json"])


def _failure_of(error: WorkerError, timeout_s: float) -> Failure:
    if isinstance(error, WorkerTimeout):
        return Failure(FailureKind.BUILD_TIMEOUT, f"not built within {timeout_s:g} s")
    if is_machines_fault(error):
        return Failure(FailureKind.WORKER_LOST, str(error))
    return Failure(FailureKind.BUILD_ERROR, str(error))
