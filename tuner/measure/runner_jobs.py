"""The jobs of a timing child: set up one workload, measure one candidate, confirm a few side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tuner.config import Policy
from tuner.errors import WorkloadError
from tuner.measure.codegen import object_code
from tuner.measure.jobs import Tainted
from tuner.measure.oracle import from_memo, make_oracle, module_in_float64, to_memo
from tuner.measure.session import InputSet, Session, Values, draw_input_sets, load_kernel
from tuner.measure.timing import affordable
from tuner.measure.validate import is_float
from tuner.targets.pinning import pin_threads
from tuner.tvm_api import tvm
from tuner.workloads.inputs import numpy_dtype
from tuner.workloads.workload import Workload

_VERY_SLOW_S = 0.1
_HOPELESS = 2.0
_BASELINE_BUDGET_S = 2.0
_CANDIDATE_BUDGET_S = 3.0
_CONFIRM_BUDGET_S = 2.5
_WIDE_BUDGET_S = 5.0
_LEAST_SAMPLES = 3
_LEAST_ROUNDS = 7

_session: list[Session] = []
"""The one thing a child remembers between its jobs; empty until `setup_job`."""


def setup_job(
    workload: dict[str, Any],
    target: dict[str, Any],
    baseline_object: bytes,
    seed: int,
    n_input_sets: int,
    policy: dict[str, Any],
    memo: dict[str, Any] | None = None,
    use_float64: bool = True,
) -> dict[str, Any]:
    """Draws inputs, finds out what the outputs must be, and validates and times the untuned module.

    With the `memo` of an earlier setup it only restores the child's state. `use_float64` allows modules without a
    numpy reference to be run in float64 too.

    Returns:
        "baseline_secs": samples under the policy, fewer when the module is slow; "max_abs_error" of the untuned module;
        "oracle": where the expected outputs come from; "warnings"; "n_input_sets"; "memo".

    Raises:
        WorkloadError: the untuned module contradicts its numpy reference, or writes out of bounds.
    """
    what = Workload.from_dict(workload)
    input_sets = draw_input_sets(what, seed, n_input_sets)
    session = Session(what, Policy(**policy), input_sets)
    _session[:] = [session]
    notes = _pin(target)
    if memo is not None:
        session.expect(from_memo(memo, what, input_sets))
        return {}
    kernel = load_kernel(baseline_object)
    untuned, run_secs = session.run_on_each_set(kernel)
    if (stray := session.stray_store()) is not None:
        raise WorkloadError(f"{what.label}: the untuned module is faulty: {stray}")
    wide = None
    if use_float64 and not what.has_reference and sum(run_secs) < _WIDE_BUDGET_S:
        wide = _wide_outputs(what, target, session.policy, input_sets)
    oracle = make_oracle(what, input_sets, untuned, wide)
    session.expect(oracle)
    return {
        "baseline_secs": _time_baseline(session, kernel, run_secs, what.label),
        "max_abs_error": oracle.untuned_error,
        "oracle": oracle.source,
        "warnings": [*notes, *oracle.warnings],
        "n_input_sets": len(input_sets),
        "memo": to_memo(oracle),
    }


def measure_job(code: bytes, best_s: float | None) -> dict[str, Any] | Tainted:
    """Validates a candidate on every input set, and only when it is right times it.

    Returns:
        "verdict": "ok", "wrong_answer" or "run_error"; "detail": one line, or None; "max_abs_error"; "max_rel_error";
        "run_secs", in the order taken; "full": False when only the short look was taken, because it can't beat
        `best_s`; "validate_s" and "run_s", the seconds this took.
    """
    session = _the_session()
    start = time.perf_counter()
    kernel = load_kernel(code)
    checked = session.check(kernel)
    answer: dict[str, Any] = {
        "verdict": "ok",
        "detail": None,
        "max_abs_error": checked.errors.max_abs_error,
        "max_rel_error": checked.errors.max_rel_error,
        "run_secs": [],
        "full": False,
        "validate_s": time.perf_counter() - start,
        "run_s": 0.0,
    }
    if checked.stray is not None:
        return Tainted({**answer, "verdict": "run_error", "detail": checked.stray})
    if checked.wrong is not None:
        return {**answer, "verdict": "wrong_answer", "detail": checked.wrong}
    start = time.perf_counter()
    policy = session.policy
    once_s = checked.seconds_once
    if best_s is not None and once_s >= max(policy.min_sample_s, _HOPELESS * policy.look_ratio * best_s):
        # The fastest of the validating runs was look enough.
        return answer | {"run_secs": [once_s]}
    timed = session.timed(kernel, once_s)
    run_secs = [timed.sample()]
    if best_s is None or run_secs[0] <= policy.look_ratio * best_s:
        each_s = max(run_secs[0], policy.min_sample_s)
        run_secs += timed.samples(affordable(policy.repeats, each_s, _CANDIDATE_BUDGET_S, _LEAST_SAMPLES) - 1)
        answer["full"] = True
    answer |= {"run_secs": run_secs, "run_s": time.perf_counter() - start}
    if (stray := session.stray_store()) is not None:
        return Tainted({**answer, "verdict": "run_error", "detail": stray, "run_secs": []})
    if (wrong := session.wrong_after_timing()) is not None:
        return {**answer, "verdict": "wrong_answer", "detail": wrong, "run_secs": []}
    return answer


def confirm_job(baseline_object: bytes, objects: list[bytes], rounds: int) -> dict[str, Any] | Tainted:
    """Times the untuned module and the candidates side by side, each once a round, in an order that rotates.

    Fewer rounds, but at least seven, when they are slow. Each candidate is validated again afterwards.

    Returns:
        "baseline_secs" and "candidate_secs" (a list per candidate), one sample per round; "failures", per candidate:
        None, or "verdict" and "detail" as in `measure_job`.
    """
    session = _the_session()
    kernels = [load_kernel(code) for code in (baseline_object, *objects)]
    each = range(len(kernels))
    failures: list[dict[str, str] | None] = [None for _ in each]

    def check(i: int) -> float:
        checked = session.check(kernels[i])
        if checked.stray is not None:
            failures[i] = failures[i] or {"verdict": "run_error", "detail": checked.stray}
        elif checked.wrong is not None:
            failures[i] = failures[i] or {"verdict": "wrong_answer", "detail": checked.wrong}
        return checked.seconds_once

    estimates_s = [session.run_once(kernels[0]), *(check(i) for i in each[1:])]
    timed = [session.timed(kernel, estimate_s) for kernel, estimate_s in zip(kernels, estimates_s, strict=True)]
    round_s = sum(2 * max(t.sample(), session.policy.min_sample_s) for t in timed)
    secs: list[list[float]] = [[] for _ in each]
    for turn in range(affordable(rounds, round_s, _CONFIRM_BUDGET_S, min(rounds, _LEAST_ROUNDS))):
        for k in each:
            i = (turn + k) % len(kernels)
            secs[i].append(timed[i].sample())
            if (wrong := session.wrong_after_timing()) is not None:
                failures[i] = failures[i] or {"verdict": "wrong_answer", "detail": wrong}
    for i in each[1:]:
        check(i)
    answer = {"baseline_secs": secs[0], "candidate_secs": secs[1:], "failures": failures[1:]}
    return Tainted(answer) if any(failures) else answer


def _the_session() -> Session:
    if not _session:
        raise RuntimeError("no workload is set up in this process")
    return _session[0]


def _pin(target: dict[str, Any]) -> list[str]:
    """Pins TVM's threads to CPUs of their own; a line when this machine doesn't allow it."""
    try:
        pin_threads(int(target.get("num-cores", 1)))
    except OSError as error:
        return [f"threads could not be pinned to CPUs, so timings may be noisy: {error}"]
    return []


def _time_baseline(session: Session, kernel: Any, run_secs: list[float], label: str) -> list[float]:
    """Samples of the untuned module; when it is very slow, the runs it has had already will do."""
    if min(run_secs) > _VERY_SLOW_S:
        return run_secs
    checked = session.check(kernel)
    if (problem := checked.stray or checked.wrong) is not None:
        raise WorkloadError(f"{label}: the untuned module answers differently when run again: {problem}")
    each_s = max(checked.seconds_once, session.policy.min_sample_s)
    count = affordable(session.policy.repeats, each_s, _BASELINE_BUDGET_S, _LEAST_SAMPLES)
    return session.timed(kernel, checked.seconds_once).samples(count)


def _wide_outputs(
    workload: Workload, target: dict[str, Any], policy: Policy, input_sets: Sequence[InputSet]
) -> list[list[Values]] | None:
    """What the module computes when all its floats are float64; None when TVM can't build or run that."""

    def wide(dtype: str) -> str:
        return "float64" if is_float(numpy_dtype(dtype)) else dtype

    args = tuple(replace(a, dtype=wide(a.dtype)) for a in workload.args)
    widened = [
        [None if v is None else v.astype(numpy_dtype(a.dtype)) for v, a in zip(inputs, args, strict=True)]
        for inputs in input_sets
    ]
    try:
        module = tvm.ir.load_json(module_in_float64(workload.module_json))
        kernel = load_kernel(object_code(module, target))
        return Session(replace(workload, args=args), policy, widened).run_on_each_set(kernel)[0]
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError):
        return None  # e.g. an intrinsic that exists for float32 only
