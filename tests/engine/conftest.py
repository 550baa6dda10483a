"""What the engine's tests share: a recorder and an observer that remember, and a run in one call."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tuner.config import Policy, SearchConfig, TuneConfig
from tuner.loop import tune_task
from tuner.progress import Progress
from tuner.records import Confirmation, RunContext, TrialRecord
from tuner.result import TuneResult
from tuner.targets.target import native_target
from tuner.workloads.spec import parse_workload

SMALL = TuneConfig(
    trials=16,
    batch_size=8,
    policy=Policy(repeats=3, min_sample_s=0.0005, confirm_rounds=5),
    search=SearchConfig(population=24, generations=1, elites=8),
)


@dataclass
class ListRecorder:
    """Keeps what the loop stores, in order."""

    contexts: list[RunContext] = field(default_factory=list)
    trials: list[TrialRecord] = field(default_factory=list)
    confirmations: list[Confirmation] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)

    def open_run(self, context: RunContext) -> None:
        self.contexts.append(context)

    def record(self, run_id: str, trial: TrialRecord) -> str:
        assert run_id == self.contexts[-1].run_id
        self.trials.append(trial)
        return f"r{trial.trial}"

    def confirm(self, run_id: str, confirmation: Confirmation) -> str | None:
        self.confirmations.append(confirmation)
        return None if confirmation.winner is None else f"r{confirmation.winner}"

    def close_run(self, run_id: str, summary: dict[str, Any]) -> None:
        self.summaries.append(summary)


@dataclass
class ListObserver:
    progress: list[Progress] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def on_progress(self, progress: Progress) -> None:
        self.progress.append(progress)

    def on_note(self, note: str) -> None:
        self.notes.append(note)


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory):
    """The device's peaks are measured once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(cache_dir):
    """run(line, **changes) -> (result, recorder, observer): one task through the real engine."""

    def go(line, recorder=None, observer=None, stop=None, **changes) -> tuple[TuneResult, Any, Any]:
        recorder, observer = recorder or ListRecorder(), observer or ListObserver()
        config = replace(SMALL, cache_dir=cache_dir, **changes)
        result = tune_task(
            parse_workload(line), native_target(), config, recorder, observer, stop=stop or threading.Event()
        )
        return result, recorder, observer

    return go
