"""Everything one task needs while it is tuned: children, workload, design space, baseline, roofline, model.

`open_session` starts it all side by side and closes all of it, whatever happens.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from tuner.config import TuneConfig
from tuner.cost_model import CostModel, Model, machine_model
from tuner.errors import Interrupted, TunesmithError, WorkerDied, WorkloadError
from tuner.measure.blame import is_machines_fault
from tuner.measure.pool import WorkerPool
from tuner.measure.runner import Baseline, Measured, Runner
from tuner.measure.zygote import Zygote
from tuner.outcome import Latency
from tuner.records import RunContext, TrialRecord
from tuner.run_state import RunState
from tuner.search.build_cost import CostAwareRanker
from tuner.search.builder import Builder, Built
from tuner.search.candidates import spaces_from_wire
from tuner.search.evaluator import Evaluator
from tuner.search.evolution import EvolutionarySearch
from tuner.targets.device import Device, detect_device
from tuner.targets.peaks import Roofline, load_or_measure
from tuner.targets.target import Target
from tuner.targets.toolchain import toolchain_versions
from tuner.workloads.spec import WorkloadRequest
from tuner.workloads.workload import Workload

MIN_BUILD_TIMEOUT_S = 2.0
_LOOK_EVERY_S = 0.1


@dataclass(kw_only=True)
class TaskSession:
    """An open task. `search`, `builder` and `model` are replaced together when the session falls back."""

    workload: Workload
    target: Target
    device: Device
    config: TuneConfig
    run_id: str
    pool: WorkerPool
    runner: Runner
    state: RunState
    roofline: Roofline
    level: str = "rules"
    toolchain: dict[str, str] = field(default_factory=toolchain_versions)

    _open_space_s: float = field(init=False, default=0.0)
    untuned: Built = field(init=False)
    baseline: Baseline = field(init=False)
    search: EvolutionarySearch = field(init=False)
    builder: Builder = field(init=False)
    model: Model = field(init=False)
    ranker: CostAwareRanker = field(init=False)
    model_metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def multiplied_dtype(self) -> str:
        """The dtype whose peak bounds the workload: that of its first input."""
        inputs = (arg.dtype for arg in self.workload.args if arg.role in ("in", "inout"))
        return next(inputs, self.workload.acc_dtype)

    @property
    def is_default(self) -> bool:
        return self.level == "default"

    def run_context(self) -> RunContext:
        return RunContext(
            run_id=self.run_id,
            workload=self.workload,
            target=self.target.attrs,
            device=self.device.to_dict(),
            toolchain=self.toolchain,
            policy=self.config.policy.name,
            n_threads=self.target.n_cores,
            seed=self.config.seed,
            baseline_secs=self.baseline.run_secs,
            started_at=self.state.started_at,
        )

    def measure(self, artifact: Built, best_s: float | None) -> Measured:
        """Validates, then times; an artifact that could not be built keeps its failure."""
        if artifact.failure is not None:
            return Measured(outcome=artifact.failure)
        return self.runner.measure(artifact.code, best_s)

    def open_space(self, level: str) -> None:
        """Opens the design space at a level of the ladder and a search over it."""
        task = self._task(level)
        began = time.monotonic()
        opened = _first(self.pool, "space.open", {"task": task}, self.config.limits.setup_timeout_s)
        self._open_space_s = time.monotonic() - began
        self.level = opened["level"]
        for note in opened["notes"]:
            self.state.note(note)
        if self.level != level:
            self.state.note("trying the default schedules instead; the result is labelled `default`")
            task = self._task(level)  # the child keeps the space it fell back to under the level asked for
        spaces = spaces_from_wire(opened["spaces"])
        rng = np.random.default_rng(self.config.seed)
        machine = machine_model(self.roofline, self.target.isa(), self.multiplied_dtype)
        # One thread: with more, OpenMP waits for cores that the children hold, and a batch costs seconds.
        self.model = CostModel(machine=machine, seed=self.config.seed, n_threads=1)
        self.ranker = CostAwareRanker(self.model, seed=self.config.seed)
        evaluator = Evaluator(self.pool, task, self.state.checkpoint)
        self.search = EvolutionarySearch(spaces, evaluator, self.ranker, self.config.search, rng)
        self.builder = Builder(self.pool, task, self._build_timeout_s(), self.state.checkpoint)

    def fall_back_to_default(self, reason: str) -> None:
        """Leaves the searched space for the default schedules, and says why."""
        self.state.note(f"{reason}; trying the default schedules, labelled `default`")
        self.open_space("default")
        self.state.grant(self.config.batch_size)

    def space_size_note(self) -> str:
        return (
            f"the design space is exhausted after {self.state.trials} distinct schedules "
            f"(asked for {self.config.trials} trials)"
        )

    def build_untuned(self) -> None:
        """Raises WorkloadError when not even the untuned module builds."""
        built = Builder(self.pool, self._task("rules"), self.config.limits.setup_timeout_s)([None])[0]
        if built.failure is not None:
            raise WorkloadError(f"{self.workload.label}: the untuned module doesn't build: {built.failure.detail}")
        self.untuned = built

    def measure_baseline(self) -> None:
        """Proves the untuned module right against the reference and times it."""
        self.baseline = self.runner.setup(
            self.workload,
            self.target.attrs,
            self.untuned.code,
            seed=self.config.seed,
            n_input_sets=self.config.n_input_sets,
            policy=self.config.policy,
        )
        self.state.baseline_s = float(np.median(self.baseline.run_secs))
        for warning in (*self.workload.warnings, *self.baseline.warnings):
            self.state.note(warning)

    def untuned_trial(self) -> TrialRecord:
        """The untuned module as a trial: the samples are the baseline's."""
        return TrialRecord(
            trial=0,
            trace_json=self.untuned.trace_json,
            outcome=Latency(self.baseline.run_secs),
            artifact_sha256=self.untuned.sha256,
            predicted=None,
            max_abs_error=self.baseline.max_abs_error,
            max_rel_error=None,
            certificate="default",
            phase_s={"build": self.untuned.seconds, "validate": 0.0, "run": 0.0},
            measured_at=time.time(),
        )

    def bound(self) -> tuple[float, str]:
        """The least seconds one call can take on this device, and what sets them: "compute" or "memory"."""
        workload = self.workload
        return self.roofline.bound_s(workload.flop, workload.bytes_moved, self.multiplied_dtype)

    def _build_timeout_s(self) -> float:
        """Relative to what the untuned module took, so that a slow machine is not taken for a bad candidate.

        A fresh worker opens the space before it builds.
        """
        own_s = min(self.config.limits.build_timeout_s, max(MIN_BUILD_TIMEOUT_S, 25 * self.untuned.seconds))
        return own_s + 2 * self._open_space_s

    def _task(self, level: str) -> dict[str, Any]:
        return {
            "key": self.workload.key,
            "module_json": self.workload.module_json,
            "target": self.target.attrs,
            "level": level,
        }


@contextmanager
def open_session(
    request: WorkloadRequest, target: Target, config: TuneConfig, state: RunState
) -> Iterator[TaskSession]:
    """Starts the children and brings the task to the point where candidates can be tried.

    Raises:
        Interrupted: `state.stop` was set meanwhile.
    """
    target.require_measurable_here()
    with ExitStack() as stack:
        with state.phase("setup"):
            session = _open(stack, request, target, config, state)
        yield session


def _open(
    stack: ExitStack, request: WorkloadRequest, target: Target, config: TuneConfig, state: RunState
) -> TaskSession:
    state.label = request.label
    zygote = stack.enter_context(Zygote(target.n_cores))
    # The side thread is waited for last: what ends the zygote ends its job too.
    with _threads(), ThreadPoolExecutor(1) as side, _ended_by(state.stop, zygote, state.label):
        return _prepare(stack, zygote, side, request, target, config, state)


def _prepare(
    stack: ExitStack,
    zygote: Zygote,
    side: ThreadPoolExecutor,
    request: WorkloadRequest,
    target: Target,
    config: TuneConfig,
    state: RunState,
) -> TaskSession:
    limits = config.limits
    zygote.start()
    pool = stack.enter_context(WorkerPool(zygote, target.n_cores, limits))
    runner = stack.enter_context(Runner(zygote, limits))
    resolving = side.submit(_first, pool, "workload.resolve", {"request": request.to_dict()}, limits.setup_timeout_s)
    device = detect_device(target)
    resolved = resolving.result()
    roofline = _roofline(zygote, target, device, config)
    session = TaskSession(
        workload=Workload.from_dict(resolved),
        target=target,
        device=device,
        roofline=roofline,
        config=config,
        run_id=uuid.uuid4().hex,
        pool=pool,
        runner=runner,
        state=state,
    )
    if session.workload.nothing_to_tune is None:
        session.build_untuned()
        session.measure_baseline()
        state.roofline_s = session.bound()[0]
        session.open_space("rules")
    return session


@contextmanager
def _threads() -> Iterator[None]:
    """Python has no error of its own for a system that gives no more threads."""
    try:
        yield
    except RuntimeError as error:
        if "new thread" not in str(error):
            raise
        raise WorkerDied(f"the machine gives no thread: {error}; raise the limits of this shell") from error


@contextmanager
def _ended_by(stop: threading.Event, zygote: Zygote, label: str) -> Iterator[None]:
    """Ends the children, and with them the block, soon after `stop` is set; and when the block raises.

    Raises:
        Interrupted: in place of whatever the end of the children made the block raise.
    """
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_EVERY_S):
            if stop.is_set():
                zygote.abort()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    interrupted = Interrupted(f"{label}: stopped while it was prepared; nothing was measured yet")
    try:
        yield
    except TunesmithError as error:
        if stop.is_set():
            raise interrupted from error
        raise
    except BaseException:
        zygote.abort()
        raise
    finally:
        done.set()
        watcher.join()
    if stop.is_set():
        raise interrupted


def _roofline(zygote: Zygote, target: Target, device: Device, config: TuneConfig) -> Roofline:
    """The kept peaks, or fresh ones measured by a child of its own while nothing else of ours runs."""
    folder = config.cache_dir or Path(platformdirs.user_cache_path("tunesmith"))

    def measure(attrs: dict[str, Any], n_threads: int) -> dict[str, Any]:
        with WorkerPool(zygote, 1, config.limits) as pool:
            kwargs = {"target": attrs, "n_threads": n_threads}
            return _first(pool, "peaks.measure", kwargs, config.limits.setup_timeout_s)

    return load_or_measure(target, device, folder, measure)


def _first(pool: WorkerPool, job: str, kwargs: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """One job through the pool, once more when the machine was at fault; its error raised."""
    answer = pool.map(job, [kwargs], timeout_s)[0]
    if is_machines_fault(answer):
        answer = pool.map(job, [kwargs], timeout_s)[0]
    if isinstance(answer, Exception):
        raise answer
    result: dict[str, Any] = answer
    return result
