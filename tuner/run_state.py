"""What one run has done so far: budget, trials, the fastest few, seconds by phase. Tells the observer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tuner.config import TuneConfig
from tuner.errors import Interrupted
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
        self._phase = "setup"

    @property
    def best_s(self) -> float | None:
        """Seconds of the fastest validated candidate, the untuned module included."""
        fastest = [self.untuned, *self.contenders[:1]]
        return min((c.median_s for c in fastest if c is not None), default=None)

    @property
    def has_tuned(self) -> bool:
        """Whether any candidate has a latency; the untuned module is not one."""
        return self.ok > 0

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self.began

    def next_batch_size(self) -> int:
        """How many candidates to propose next; 0 ends the exploring."""
        if self.must_stop():
            return 0
        batch = self.config.batch_size if self.trials else min(FIRST_BATCH, self.config.batch_size)
        return max(0, min(batch, self._budget - self.trials, self._affordable()))

    def must_stop(self) -> bool:
        """Whether no further candidate may start: stopped from outside, or out of time.

        The first candidate is tried whatever the time: setting up may take longer than a short budget.
        """
        if self.stop.is_set():
            self.stopped = "interrupted"
            return True
        if self.trials and self._exploring_left_s() <= 0:
            self.stopped = "seconds"
            return True
        return False

    def checkpoint(self) -> None:
        """Called while a batch is under way: shows that it goes on, and ends it when the run is to stop.

        Raises:
            Interrupted: `stop` is set.
        """
        if self.stop.is_set():
            self.stopped = "interrupted"
            raise Interrupted(f"{self.label}: stopped")
        self.tell(self._phase)

    def _exploring_left_s(self) -> float:
        seconds = self.config.seconds
        return float("inf") if seconds is None else seconds * (1 - CONFIRM_RESERVE) - self.elapsed_s

    def _affordable(self) -> int:
        """How many more candidates fit into the time that is left, by what the ones before took; at least one."""
        left_s = self._exploring_left_s()
        if not self.trials or left_s == float("inf"):
            return self._budget
        return max(1, int(left_s / (self._exploring_s() / self.trials)))

    def _exploring_s(self) -> float:
        return max(self.elapsed_s - self.seconds["setup"], 1e-6)

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
        """The untuned module contends, but is none of the candidates that are counted."""
        if not isinstance(trial.outcome, Latency):
            raise ValueError("the untuned module has a latency, or there is nothing to compare with")
        self.untuned = Contender(record_id, trial, code, trial.outcome.median_s)
        self._remember(trial)

    def add(self, trial: TrialRecord, record_id: str, code: bytes) -> None:
        """Counts one finished, stored trial of a candidate."""
        if self.first_trial_s is None:
            self.first_trial_s = self.elapsed_s
        self.trials += 1
        if isinstance(trial.outcome, Failure):
            self.failed[trial.outcome.kind.value] += 1
        else:
            self.ok += 1
            self._contend(Contender(record_id, trial, code, trial.outcome.median_s), trial.outcome)
        self._remember(trial)
        self.seconds["validate"] += trial.phase_s.get("validate", 0.0)
        self.seconds["run"] += trial.phase_s.get("run", 0.0)
        self.tell("measure")

    def refute(self, failure: Failure) -> None:
        """A candidate that had a latency turned out to be faulty when it was confirmed."""
        self.ok -= 1
        self.failed[failure.kind.value] += 1

    def _remember(self, trial: TrialRecord) -> None:
        if trial.artifact_sha256 is not None and not _is_retryable(trial.outcome):
            self._outcome_of_artifact[trial.artifact_sha256] = trial.outcome

    def _contend(self, contender: Contender, latency: Latency) -> None:
        if latency.full:
            self.contenders = sorted([*self.contenders, contender], key=lambda c: c.median_s)[: self.config.confirm_top]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charges the seconds inside to a phase ("measure" is split into validate and run by `add`)."""
        self._phase = name
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
        if self.trials < FIRST_BATCH:  # the first few say little: they carry a whole batch's search and builds
            return by_time
        by_trials = self._exploring_s() / self.trials * max(0, self._budget - self.trials)
        return by_trials if by_time is None else min(by_time, by_trials)


def _is_retryable(outcome: Outcome) -> bool:
    return isinstance(outcome, Failure) and outcome.kind.retryable
