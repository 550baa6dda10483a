"""Schedules and featurises candidates through the worker pool; one that kills a worker is dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from tuner.errors import TunesmithError, WorkerError
from tuner.search.candidates import Candidate, Scheduled, decisions_from_wire

CHUNK = 12
SECONDS_PER_CANDIDATE = 5.0


class JobPool(Protocol):
    """What the search needs of tuner.measure.pool.WorkerPool."""

    def map(
        self,
        job: str,
        items: Sequence[dict[str, Any]],
        timeout_s: float,
        on_result: Callable[[int, Any], None] | None = None,
    ) -> Sequence[Any | WorkerError]: ...


def go_on() -> None:
    """A checkpoint that never ends anything."""


class Evaluator:
    """Schedules candidates of one task. `refused` and `lost` count those that came to nothing, with the last reason.

    `checkpoint` is called as answers arrive; what it raises ends the call.
    """

    def __init__(self, pool: JobPool, task: dict[str, Any], checkpoint: Callable[[], None] = go_on) -> None:
        self._pool = pool
        self._task = task
        self._checkpoint = checkpoint
        self.refused = 0
        self.lost = 0
        self.last_refusal = ""

    def __call__(self, candidates: Sequence[Candidate]) -> list[Scheduled]:
        """The candidates that have a schedule, in order. Never raises for a bad candidate."""
        chunks = [candidates[i : i + CHUNK] for i in range(0, len(candidates), CHUNK)]
        answers = self._map(chunks, SECONDS_PER_CANDIDATE * CHUNK)
        scheduled: list[Scheduled] = []
        for chunk, answer in zip(chunks, answers, strict=True):
            if isinstance(answer, WorkerError):
                scheduled.extend(self._one_by_one(chunk))
            else:
                scheduled.extend(self._read(chunk, answer))
        return scheduled

    def _map(self, chunks: Sequence[Sequence[Candidate]], timeout_s: float) -> Sequence[Any | WorkerError]:
        calls = [{"task": self._task, "candidates": [c.to_wire() for c in chunk]} for chunk in chunks]
        answers = self._pool.map("space.evaluate", calls, timeout_s, lambda _index, _answer: self._checkpoint())
        for answer in answers:
            if isinstance(answer, TunesmithError) and not isinstance(answer, WorkerError):
                raise answer
        return answers

    def _one_by_one(self, chunk: Sequence[Candidate]) -> list[Scheduled]:
        scheduled: list[Scheduled] = []
        for candidate, answer in zip(chunk, self._map([[c] for c in chunk], SECONDS_PER_CANDIDATE), strict=True):
            if isinstance(answer, WorkerError):
                self.lost += 1
                self.last_refusal = str(answer)
            else:
                scheduled.extend(self._read([candidate], answer))
        return scheduled

    def _read(self, chunk: Sequence[Candidate], answers: list[dict[str, Any]]) -> list[Scheduled]:
        scheduled = []
        for candidate, answer in zip(chunk, answers, strict=True):
            if "refused" in answer:
                self.refused += 1
                self.last_refusal = answer["refused"]
                continue
            closed = Candidate(candidate.space, decisions_from_wire(answer["decisions"]), candidate.seed)
            features = np.asarray(answer["features"], dtype=np.float32)
            scheduled.append(Scheduled(closed, int(answer["module_hash"]), features))
        return scheduled
