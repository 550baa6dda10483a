"""Replays a stored trial: rebuilds it, proves it right again, times it beside untuned, compares with what is stored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tuner.config import Limits, Policy
from tuner.errors import JobRaised, UsageError, WorkerDied, WorkerTimeout
from tuner.measure.runner import Runner
from tuner.measure.stats import Estimate, median_with_ci, paired_speedup
from tuner.measure.worker import IsolatedWorker
from tuner.measure.zygote import Zygote
from tuner.outcome import Failure, FailureKind
from tuner.targets.target import parse_target
from tuner.workloads.workload import Workload

UNTUNED_TRACE = "[[],[]]"
DRIFT = 0.1
"""The same code timed in several processes differs by up to so much in its speed-up over untuned: no news."""

ReplayVerdict = Literal["same", "unclear", "faster", "slower", "wrong", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What is replayed, and what was measured then. `run_secs` is empty for a stored failure.

    `is_paired` tells that both sample lists come from the same rounds of a confirmation.
    """

    workload: Workload
    target: dict[str, Any]
    trace_json: str
    policy: str
    seed: int
    run_secs: tuple[float, ...]
    baseline_secs: tuple[float, ...]
    is_paired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Medians in seconds per call, and the speed-up of the one over the other, with 95 % intervals."""

    median_s: Estimate
    baseline_s: Estimate
    speedup: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """`now` is None when it failed; `failure` says how. `then` is None for a stored failure.

    `ratio` is the speed-up now over the speed-up then: medians of two sessions drift with the machine, speed-ups over
    the untuned module of the same session much less.
    """

    verdict: ReplayVerdict
    failure: Failure | None
    then: Timed | None
    now: Timed | None
    ratio: Estimate | None
    max_abs_error: float | None
    max_rel_error: float | None
    warnings: tuple[str, ...] = ()


def replay_record(stored: Stored, *, limits: Limits | None = None, n_input_sets: int = 3) -> Replay:
    """Takes a few seconds. Whatever the candidate does is an outcome, never an exception.

    Raises:
        UsageError: this machine can't run the target's code, or the policy is not understood.
        WorkloadError: the untuned module itself can't be built or run.
        WorkerError: the machine's fault.
    """
    limits = limits or Limits()
    target = parse_target(stored.target)
    target.require_measurable_here()
    policy = policy_from_name(stored.policy)
    with (
        Zygote(target.n_cores) as zygote,
        IsolatedWorker(
            zygote, jobs_per_worker=limits.jobs_per_worker, extra_memory_bytes=limits.extra_memory_bytes
        ) as builder,
        Runner(zygote, limits) as runner,
    ):
        untuned = _build(builder, stored, UNTUNED_TRACE, limits.setup_timeout_s)
        baseline = runner.setup(
            stored.workload, target.attrs, untuned, seed=stored.seed, n_input_sets=n_input_sets, policy=policy
        )
        try:
            code = _build(builder, stored, stored.trace_json, limits.build_timeout_s)
        except JobRaised as error:
            return _failed(stored, Failure(FailureKind.BUILD_ERROR, str(error)))
        except WorkerDied as error:
            return _failed(stored, Failure(FailureKind.BUILD_ERROR, str(error)))
        except WorkerTimeout as error:
            return _failed(stored, Failure(FailureKind.BUILD_TIMEOUT, str(error)))
        measured = runner.measure(code, None)
        if isinstance(measured.outcome, Failure):
            return _failed(stored, measured.outcome, measured.max_abs_error, measured.max_rel_error)
        confirmed = runner.confirm([code], policy.confirm_rounds)
    secs = confirmed.candidates[0]
    if isinstance(secs, Failure):
        return _failed(stored, secs, measured.max_abs_error, measured.max_rel_error)
    then = _then(stored)
    now = Timed(
        median_s=median_with_ci(secs),
        baseline_s=median_with_ci(confirmed.baseline_secs),
        speedup=paired_speedup(confirmed.baseline_secs, secs),
    )
    ratio = None if then is None else _ratio(now.speedup, then.speedup)
    return Replay(
        verdict=_verdict(ratio),
        failure=None,
        then=then,
        now=now,
        ratio=ratio,
        max_abs_error=measured.max_abs_error,
        max_rel_error=measured.max_rel_error,
        warnings=baseline.warnings,
    )


def policy_from_name(name: str) -> Policy:
    """The policy that `Policy.name` spells.

    Raises:
        UsageError: the name is of another version of this program.
    """
    parts = re.fullmatch(r"median-r(\d+)-s([\d.e+-]+)ms-([a-z]+)-c(\d+)", name)
    if parts is None:
        raise UsageError(f"can't replay under policy {name!r}: want one like {Policy().name}; tune the workload again")
    repeats, sample_ms, cache, rounds = parts.groups()
    policy = Policy(repeats=int(repeats), min_sample_s=float(sample_ms) / 1e3, cache=cache, confirm_rounds=int(rounds))
    if policy.name != name:
        raise UsageError(f"can't replay under policy {name!r}: it reads as {policy.name}; tune the workload again")
    return policy


def _build(builder: IsolatedWorker, stored: Stored, trace_json: str, timeout_s: float) -> bytes:
    task = {
        "key": stored.workload.key,
        "module_json": stored.workload.module_json,
        "target": stored.target,
        "level": "rules",
    }
    return bytes(builder.call("space.rebuild", {"task": task, "trace_json": trace_json}, timeout_s)["object"])


def _then(stored: Stored) -> Timed | None:
    if not stored.run_secs or not stored.baseline_secs:
        return None
    median_s, baseline_s = median_with_ci(stored.run_secs), median_with_ci(stored.baseline_secs)
    if stored.is_paired:
        speedup = paired_speedup(stored.baseline_secs, stored.run_secs)
    else:
        speedup = _ratio(baseline_s, median_s)
    return Timed(median_s=median_s, baseline_s=baseline_s, speedup=speedup)


def _ratio(above: Estimate, below: Estimate) -> Estimate:
    """The quotient of two independent estimates; its relative half-widths add as squares (both are close to 1)."""
    middle = above.median / below.median
    down = np.hypot(1 - above.low / above.median, below.high / below.median - 1)
    up = np.hypot(above.high / above.median - 1, 1 - below.low / below.median)
    return Estimate(middle, middle / (1 + float(down)), middle * (1 + float(up)))


def _verdict(ratio: Estimate | None) -> ReplayVerdict:
    """ "faster" or "slower" when the interval excludes 1 and the difference is more than drift; "unclear" when the
    interval holds 1 but also twice or half of it.
    """
    if ratio is None or ratio.low <= 1 <= ratio.high:
        return "unclear" if ratio is not None and (ratio.low < 0.5 or ratio.high > 2) else "same"
    if abs(np.log(ratio.median)) <= np.log1p(DRIFT):
        return "same"
    return "faster" if ratio.median > 1 else "slower"


def _failed(
    stored: Stored, failure: Failure, max_abs_error: float | None = None, max_rel_error: float | None = None
) -> Replay:
    return Replay(
        verdict="wrong" if failure.kind is FailureKind.WRONG_ANSWER else "failed",
        failure=failure,
        then=_then(stored),
        now=None,
        ratio=None,
        max_abs_error=max_abs_error,
        max_rel_error=max_rel_error,
    )
