"""What one run has done so far: budget, trials, the fastest few, seconds by phase. Tells the observer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tuner.config import TuneConfig
from tuner.outcome import Failure, FailureKind, Latency, Outcome
from tuner.progress import Observer, Progress
from tuner.records import TrialRecord

FIRST_BATCH = 8  # small, so that the first result shows early and the model learns soon
CONFIRM_RESERVE = 0.1  # the share of a time budget kept for the confirmation


@dataclass(frozen=True, slots=True)
class Contender:
    """A validated candidate that may win, with what a confirmation needs."""

    record_id: str
    trial: TrialRecord
    code: bytes
    median_s: float


class RunState:
    """Counts and clocks of one run. `stopped` says why it ended (tuner/result.py)."""

    def __init__(self, config: TuneConfig, observer: Observer, stop: threading.Event) -> None:
        self.config = config
        self.observer = observer
        self.stop = stop
        self.began = time.perf_counter()
        self.started_at = time.time()
        self.label = ""
        self.trials = 0
        self.ok = 0
        self.failed = {kind.value: 0 for kind in FailureKind}
        self.seconds = dict.fromkeys(("setup", "search", "model", "build", "validate", "run", "confirm"), 0.0)
        self.stopped = "trials"
        self.notes: list[str] = []
        self.contenders: list[Contender] = []
        """The fastest searched candidates, fastest first."""
        self.untuned: Contender | None = None
        self.baseline_s: float | None = None
        self.roofline_s: float | None = None
        self.first_trial_s: float | None = None
        self._outcome_of_artifact: dict[str, Outcome] = {}
        self._budget = config.trials

    @property
    def best_s(self) -> float | None:
        """Seconds of the fastest validated candidate, the untuned module included."""
        fastest = [self.untuned, *self.contenders[:1]]
        return min((c.median_s for c in fastest if c is not None), default=None)

    @property
    def has_tuned(self) -> bool:
        """Whether any candidate besides the untuned module has a latency."""
        return self.ok > 1

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self.began

    def next_batch_size(self) -> int:
        """How many candidates to propose next; 0 ends the exploring."""
        if self.must_stop():
            return 0
        batch = self.config.batch_size if self.trials > 1 else min(FIRST_BATCH, self.config.batch_size)
        return max(0, min(batch, self._budget - self.trials))

    def must_stop(self) -> bool:
        """Whether no further candidate may start: stopped from outside, or out of time.

        The first candidate is tried whatever the time: setting up may take longer than a short budget.
        """
        if self.stop.is_set():
            self.stopped = "interrupted"
            return True
        seconds = self.config.seconds
        if self.trials > 1 and seconds is not None and self.elapsed_s > seconds * (1 - CONFIRM_RESERVE):
            self.stopped = "seconds"
            return True
        return False

    def grant(self, trials: int) -> None:
        """Adds trials to the budget, so that a fallback gets its turn when the search has spent it all."""
        self._budget = max(self._budget, self.trials + trials)

    def exhausted(self, note: str) -> None:
        self.stopped = "space_exhausted"
        self.note(note)

    def note(self, line: str) -> None:
        self.notes.append(line)
        self.observer.on_note(line)

    def outcome_of(self, artifact_sha256: str | None) -> Outcome | None:
        """The outcome of an equal artifact that was measured before."""
        return None if artifact_sha256 is None else self._outcome_of_artifact.get(artifact_sha256)

    def add_untuned(self, trial: TrialRecord, record_id: str, code: bytes) -> None:
        """Counts the untuned module, whose time was spent in setup."""
        self._count(trial, record_id, code)
        self.untuned, self.contenders = self.contenders[0], []

    def add(self, trial: TrialRecord, record_id: str, code: bytes) -> None:
        """Counts one finished, stored trial of a candidate."""
        if self.first_trial_s is None:
            self.first_trial_s = self.elapsed_s
        self._count(trial, record_id, code)
        self.seconds["validate"] += trial.phase_s.get("validate", 0.0)
        self.seconds["run"] += trial.phase_s.get("run", 0.0)
        self.tell("measure")

    def _count(self, trial: TrialRecord, record_id: str, code: bytes) -> None:
        self.trials += 1
        if isinstance(trial.outcome, Failure):
            self.failed[trial.outcome.kind.value] += 1
        else:
            self.ok += 1
            self._contend(Contender(record_id, trial, code, trial.outcome.median_s), trial.outcome)
        if trial.artifact_sha256 is not None and not _is_retryable(trial.outcome):
            self._outcome_of_artifact[trial.artifact_sha256] = trial.outcome

    def _contend(self, contender: Contender, latency: Latency) -> None:
        if latency.full:
            self.contenders = sorted([*self.contenders, contender], key=lambda c: c.median_s)[: self.config.confirm_top]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charges the seconds inside to a phase ("measure" is split into validate and run by `add`)."""
        self.tell(name)
        began = time.perf_counter()
        try:
            yield
        finally:
            if name in self.seconds:
                self.seconds[name] += time.perf_counter() - began

    def tell(self, phase: str) -> None:
        best = self.best_s
        share = None if best is None or self.roofline_s is None else self.roofline_s / best
        self.observer.on_progress(
            Progress(
                workload=self.label,
                phase=phase,
                trials=self.trials,
                max_trials=self._budget,
                ok=self.ok,
                failed=dict(self.failed),
                best_s=best,
                baseline_s=self.baseline_s,
                roofline_fraction=share,
                elapsed_s=self.elapsed_s,
                remaining_s=self._remaining_s(),
            )
        )

    def _remaining_s(self) -> float | None:
        by_time = None if self.config.seconds is None else max(0.0, self.config.seconds - self.elapsed_s)
        if self.trials == 0:
            return by_time
        exploring = self.elapsed_s - self.seconds["setup"]
        by_trials = exploring / self.trials * max(0, self._budget - self.trials)
        return by_trials if by_time is None else min(by_time, by_trials)


def _is_retryable(outcome: Outcome) -> bool:
    return isinstance(outcome, Failure) and outcome.kind.retryable
