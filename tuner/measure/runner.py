"""Validates and times candidates of one workload in an isolated child, and names what each failure was."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

from tuner.config import Limits, Policy
from tuner.errors import WorkerError, WorkerTimeout, WorkloadError
from tuner.measure.blame import is_machines_fault
from tuner.measure.worker import IsolatedWorker
from tuner.measure.zygote import Zygote
from tuner.outcome import Failure, FailureKind, Latency, Outcome
from tuner.workloads.workload import Workload

_CONFIRM_TIMEOUT_S = 60.0
_COPIES = 12
"""How many copies of its arguments in float64 a setup needs at most: input sets, references, what is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The untuned module. `oracle` says what outputs are compared with: "reference" (numpy), "float64" (the module
    itself, in that precision) or "untuned". `max_abs_error` is its own error against that.
    """

    run_secs: tuple[float, ...]
    max_abs_error: float
    oracle: str
    n_input_sets: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One candidate's outcome. Errors are None when nothing was compared; `validate_s` and `run_s` are what it cost."""

    outcome: Outcome
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    validate_s: float = 0.0
    run_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """Samples of one interleaved run, one per round: of the untuned module, and per candidate in the order given.

    A candidate that failed now has its failure instead.
    """

    baseline_secs: tuple[float, ...]
    candidates: tuple[tuple[float, ...] | Failure, ...]


class Runner:
    """Owns one timing process. `setup` first, then `measure` and `confirm`, one at a time."""

    def __init__(self, zygote: Zygote, limits: Limits) -> None:
        self._limits = limits
        self._worker = IsolatedWorker(
            zygote, jobs_per_worker=limits.jobs_per_worker, extra_memory_bytes=limits.extra_memory_bytes
        )
        self._baseline_object = b""

    def setup(
        self,
        workload: Workload,
        target: dict[str, Any],
        baseline_object: bytes,
        *,
        seed: int,
        n_input_sets: int,
        policy: Policy,
    ) -> Baseline:
        """Draws inputs, works out the right answers, validates and times the untuned module. Once per runner.

        Args:
            target: the canonical target dict.
            baseline_object: object code of the untuned module (tuner/measure/codegen.py).

        Raises:
            WorkloadError: the untuned module can't be run or contradicts its reference: nothing to tune against.
            WorkerError: the machine's fault.
        """
        kwargs = {
            "workload": workload.to_dict(),
            "target": target,
            "baseline_object": baseline_object,
            "seed": seed,
            "n_input_sets": n_input_sets,
            "policy": asdict(policy),
        }
        self._baseline_object = baseline_object
        self._worker.extra_memory_bytes = self._limits.extra_memory_bytes + _COPIES * _wide_bytes(workload)
        answer = self._first_setup(kwargs, workload)
        self._worker.remember("runner.setup", {**kwargs, "memo": answer["memo"]}, self._limits.setup_timeout_s)
        return Baseline(
            run_secs=tuple(answer["baseline_secs"]),
            max_abs_error=answer["max_abs_error"],
            oracle=answer["oracle"],
            n_input_sets=answer["n_input_sets"],
            warnings=tuple(answer["warnings"]),
        )

    def measure(self, code: bytes, best_s: float | None) -> Measured:
        """Validates object code on every input set, then times it. Never raises for a bad candidate.

        `best_s` is the best median so far: a candidate that can't come near it gets the short look only.
        """
        start = time.monotonic()
        try:
            answer = self._call("runner.measure", {"code": code, "best_s": best_s}, self._limits.run_timeout_s)
        except (WorkerError, WorkloadError) as error:
            return Measured(outcome=_failure(error), run_s=time.monotonic() - start)
        return Measured(
            outcome=_outcome(answer),
            max_abs_error=answer["max_abs_error"],
            max_rel_error=answer["max_rel_error"],
            validate_s=answer["validate_s"],
            run_s=answer["run_s"],
        )

    def confirm(self, codes: Sequence[bytes], rounds: int) -> Confirmed:
        """Times candidates interleaved with the untuned module.

        Raises:
            WorkerError: not even the untuned module can be timed any more.
        """
        try:
            return self._confirm(codes, rounds)
        except WorkerError:
            # One of them broke the process. Alone, each shows whether it was that one.
            alone = [self._alone(code) for code in codes]
        sound = [code for code, failure in zip(codes, alone, strict=True) if failure is None]
        together = self._confirm(sound, rounds)
        timed = iter(together.candidates)
        return Confirmed(
            baseline_secs=together.baseline_secs,
            candidates=tuple(next(timed) if failure is None else failure for failure in alone),
        )

    def abort(self) -> None:
        """From another thread: ends what is in progress, which then fails as WORKER_LOST."""
        self._worker.abort()

    @property
    def pid(self) -> int | None:
        return self._worker.pid

    def close(self) -> None:
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _first_setup(self, kwargs: dict[str, Any], workload: Workload) -> dict[str, Any]:
        """Modules without a numpy reference get a second try that leaves their run in float64 out: only a help, and
        the one thing in a setup that nobody asked for.
        """
        for use_float64 in (False,) if workload.has_reference else (True, False):
            try:
                more = {"use_float64": use_float64}
                answer: dict[str, Any] = self._call("runner.setup", {**kwargs, **more}, self._limits.setup_timeout_s)
                return answer
            except WorkerError as error:
                failure = error
        match _failure(failure).kind:
            case FailureKind.WORKER_LOST:
                raise failure
            case FailureKind.RUN_TIMEOUT:
                raise WorkloadError(f"{workload.label}: the untuned module is too slow: {failure}") from failure
            case _:
                raise WorkloadError(f"{workload.label}: the untuned module can't be run: {failure}") from failure

    def _call(self, job: str, kwargs: dict[str, Any], timeout_s: float) -> Any:
        """One more try in a fresh process when the machine was at fault."""
        try:
            return self._worker.call(job, kwargs, timeout_s)
        except WorkerError as error:
            if not is_machines_fault(error) or self._worker.was_aborted:
                raise
        return self._worker.call(job, kwargs, timeout_s)

    def _confirm(self, codes: Sequence[bytes], rounds: int) -> Confirmed:
        kwargs = {"baseline_object": self._baseline_object, "objects": list(codes), "rounds": rounds}
        timeout_s = self._limits.run_timeout_s * (1 + len(codes)) + _CONFIRM_TIMEOUT_S
        answer = self._call("runner.confirm", kwargs, timeout_s)
        candidates = [
            tuple(secs) if failure is None else Failure(FailureKind(failure["verdict"]), failure["detail"])
            for secs, failure in zip(answer["candidate_secs"], answer["failures"], strict=True)
        ]
        return Confirmed(baseline_secs=tuple(answer["baseline_secs"]), candidates=tuple(candidates))

    def _alone(self, code: bytes) -> Failure | None:
        outcome = self.measure(code, None).outcome
        return outcome if isinstance(outcome, Failure) else None


def _wide_bytes(workload: Workload) -> int:
    return sum(8 * math.prod(spec.shape) for spec in workload.args)


def _outcome(answer: dict[str, Any]) -> Outcome:
    if answer["verdict"] == "ok":
        return Latency(tuple(answer["run_secs"]), full=answer["full"])
    return Failure(FailureKind(answer["verdict"]), answer["detail"])


def _failure(error: WorkerError | WorkloadError) -> Failure:
    """Whose fault it was that a measuring job had no answer."""
    if is_machines_fault(error):
        return Failure(FailureKind.WORKER_LOST, str(error))
    kind = FailureKind.RUN_TIMEOUT if isinstance(error, WorkerTimeout) else FailureKind.RUN_ERROR
    return Failure(kind, str(error))
