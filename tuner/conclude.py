"""How a run ends: the fastest few re-measured interleaved with the untuned module, a winner named, a result made."""

from __future__ import annotations

from typing import Any

from tuner.errors import WorkerError
from tuner.measure.stats import choose_winner, median_with_ci, paired_speedup, verdict
from tuner.outcome import Failure
from tuner.records import Confirmation, Recorder
from tuner.result import Best, TuneResult
from tuner.run_state import RunState
from tuner.session import TaskSession

INTERRUPTED_ROUNDS = 5  # whoever pressed Ctrl-C does not want to wait


def confirm_and_conclude(session: TaskSession, state: RunState, recorder: Recorder) -> TuneResult:
    """Confirms, publishes and reports. The untuned module itself contends, so a run ends with something proven."""
    with state.phase("confirm"):
        best, baseline_secs = _confirm(session, state, recorder)
    result = _result(session, state, best, baseline_secs)
    recorder.close_run(session.run_id, result.to_json())
    state.tell("done")
    return result


def nothing_to_tune(session: TaskSession, state: RunState) -> TuneResult:
    """The answer for a workload with nothing in it, such as a zero extent."""
    state.stopped = "nothing_to_tune"
    state.note(f"nothing to tune: {session.workload.nothing_to_tune}")
    state.tell("done")
    return _result(session, state, None, ())


def _confirm(session: TaskSession, state: RunState, recorder: Recorder) -> tuple[Best | None, tuple[float, ...]]:
    """The winner, and the untuned module's samples that its speed-up was taken against."""
    rounds = INTERRUPTED_ROUNDS if state.stop.is_set() else session.config.policy.confirm_rounds
    try:
        confirmed = session.runner.confirm([c.code for c in state.contenders], rounds)
    except WorkerError as error:
        state.note(f"the confirmation could not be run, so nothing is published: {error}")
        return None, session.baseline.run_secs
    untuned = state.untuned
    if untuned is None:
        raise RuntimeError("a run is confirmed after its untuned module was recorded")
    # The untuned module's samples of these rounds are its own: it wins whatever is slower.
    standing = {untuned.trial.trial: confirmed.baseline_secs}
    by_trial = {untuned.trial.trial: untuned}
    refuted: dict[int, Failure] = {}
    for contender, secs in zip(state.contenders, confirmed.candidates, strict=True):
        if isinstance(secs, Failure):
            if not secs.kind.retryable:
                refuted[contender.trial.trial] = secs
                state.refute(secs)
            state.note(f"trial {contender.trial.trial} did not stand its confirmation: {secs.kind}: {secs.detail}")
            continue
        standing[contender.trial.trial] = secs
        by_trial[contender.trial.trial] = contender
    winner = choose_winner(standing)
    if winner is None or verdict(paired_speedup(confirmed.baseline_secs, standing[winner])) == "slower":
        winner = untuned.trial.trial
    speedup = paired_speedup(confirmed.baseline_secs, standing[winner])
    confirmation = Confirmation(
        baseline_secs=confirmed.baseline_secs,
        candidate_secs=standing,
        refuted=refuted,
        winner=winner,
        verdict=verdict(speedup),
    )
    record_id = recorder.confirm(session.run_id, confirmation)
    trial = by_trial[winner].trial
    if winner == untuned.trial.trial:
        state.note(f"none of {state.trials} schedules beats the untuned module, which stands, labelled `default`")
    latency = median_with_ci(standing[winner])
    bound_s, bound = session.bound()
    best = Best(
        record_id=record_id or by_trial[winner].record_id,
        trial=winner,
        median_s=latency.median,
        ci95_s=latency.ci95,
        flop_per_s=session.workload.flop / latency.median,
        roofline_fraction=bound_s / latency.median,
        bound=bound,
        speedup=speedup.median,
        speedup_ci95=speedup.ci95,
        verdict=verdict(speedup),
        validated=True,
        max_abs_error=trial.max_abs_error if trial.max_abs_error is not None else float("nan"),
        schedule=trial.certificate,
    )
    return best, confirmed.baseline_secs


def _result(session: TaskSession, state: RunState, best: Best | None, baseline_secs: tuple[float, ...]) -> TuneResult:
    baseline = median_with_ci(baseline_secs) if baseline_secs else None
    return TuneResult(
        workload=_described(session),
        target=session.target.attrs,
        device=session.device.to_dict(),
        policy=session.config.policy.name,
        seed=session.config.seed,
        best=best,
        baseline_median_s=baseline.median if baseline else None,
        baseline_ci95_s=baseline.ci95 if baseline else None,
        trials_ok=state.ok,
        failed=dict(state.failed),
        seconds={**state.seconds, "total": state.elapsed_s},
        stopped=state.stopped,
        n_threads=session.target.n_cores,
        toolchain=session.toolchain,
        notes=tuple(state.notes),
        run_id=session.run_id,
        started_at=state.started_at,
        first_trial_s=state.first_trial_s,
        model=session.model_metrics,
    )


def _described(session: TaskSession) -> dict[str, Any]:
    workload = session.workload
    return {
        "key": workload.key,
        "label": workload.label,
        **workload.spec,
        "flop": workload.flop,
        "bytes_moved": workload.bytes_moved,
    }
