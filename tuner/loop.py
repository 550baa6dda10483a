"""The tuning loop: read this file first. Space -> candidates -> rank -> build -> validate -> time -> record -> best."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from tuner.conclude import confirm_and_conclude, nothing_to_tune
from tuner.config import TuneConfig
from tuner.errors import Interrupted
from tuner.outcome import Latency, Outcome
from tuner.progress import Observer
from tuner.records import Recorder, TrialRecord
from tuner.result import TuneResult
from tuner.run_state import RunState
from tuner.search.candidates import Scheduled
from tuner.session import TaskSession, open_session
from tuner.targets.target import Target
from tuner.workloads.spec import WorkloadRequest


def tune_task(
    request: WorkloadRequest,
    target: Target,
    config: TuneConfig,
    recorder: Recorder,
    observer: Observer,
    *,
    stop: threading.Event,
) -> TuneResult:
    """Tunes one workload for one target on this machine; every finished trial is recorded before the next starts.

    Setting `stop` ends the run after the candidate at hand; what was found so far is confirmed and returned. Before
    the first candidate there is nothing to confirm: it ends the setup at once.

    Raises:
        UsageError: the workload or the target is wrong, or can't be measured here.
        Interrupted: `stop` was set before the first candidate.
        StorageError: a record could not be stored. Trials recorded before are kept.
        WorkerError: the workload itself (untuned) can't be built or run.
    """
    state = RunState(config, observer, stop)
    with open_session(request, target, config, state) as session:
        if session.workload.nothing_to_tune is not None:
            return nothing_to_tune(session, state)
        recorder.open_run(session.run_context())
        record_untuned(session, state, recorder)
        with suppress(Interrupted):  # from here on there is something to conclude with
            explore(session, state, recorder)
            if not state.has_tuned and not session.is_default and not stop.is_set():
                session.fall_back_to_default(f"none of {state.trials} candidates gave a validated latency")
                explore(session, state, recorder)
        return confirm_and_conclude(session, state, recorder)


def record_untuned(session: TaskSession, state: RunState, recorder: Recorder) -> None:
    """The untuned module is trial 0, with the samples it has already: no winner is slower than it."""
    trial = session.untuned_trial()
    state.add_untuned(trial, recorder.record(session.run_id, trial), session.untuned.code)


def explore(session: TaskSession, state: RunState, recorder: Recorder) -> None:
    """Runs trials until the budget or the space is spent."""
    while count := state.next_batch_size():
        with state.phase("search"):
            proposed = session.search.propose(count)
        if state.must_stop():
            return
        if not proposed:
            state.exhausted(session.space_size_note())
            return
        scheduled = [s for s, _ in proposed]
        with state.phase("build"):
            built = session.builder([s.candidate for s in scheduled])
        session.ranker.observe_builds([s.features for s in scheduled], [b.seconds for b in built])
        outcomes: list[Outcome] = []
        for (_, predicted), artifact in zip(proposed, built, strict=True):
            if state.must_stop():
                break
            known = state.outcome_of(artifact.sha256)
            if known is not None:  # byte for byte the same program: timed once
                outcomes.append(known)
                continue
            with state.phase("measure"):
                measured = session.measure(artifact, state.best_s)
            trial = TrialRecord(
                trial=state.trials + 1,
                trace_json=artifact.trace_json,
                outcome=measured.outcome,
                artifact_sha256=artifact.sha256,
                predicted=predicted,
                max_abs_error=measured.max_abs_error,
                max_rel_error=measured.max_rel_error,
                certificate="default" if session.is_default else "searched",
                phase_s={"build": artifact.seconds, "validate": measured.validate_s, "run": measured.run_s},
                measured_at=time.time(),
            )
            state.add(trial, recorder.record(session.run_id, trial), artifact.code)
            outcomes.append(measured.outcome)
        session.search.observe(scheduled[: len(outcomes)], outcomes)
        with state.phase("model"):
            learn(session, scheduled, outcomes)


def learn(session: TaskSession, scheduled: Sequence[Scheduled], outcomes: Sequence[Outcome]) -> None:
    """Feeds the batch's latencies to the cost model; failures stay out of it."""
    pairs = zip(scheduled, outcomes, strict=False)  # a stopped batch has fewer outcomes
    latencies = [(s.features, o.median_s) for s, o in pairs if isinstance(o, Latency)]
    if latencies:
        session.model_metrics = session.model.update(
            session.workload.key, [f for f, _ in latencies], [t for _, t in latencies]
        )
