"""Everything one task needs while it is tuned: children, workload, design space, baseline, roofline, model.

`open_session` starts it all side by side and closes all of it, whatever happens.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tuner.config import TuneConfig
from tuner.cost_model import CostModel, MachineModel, Model
from tuner.errors import WorkerError
from tuner.measure.pool import WorkerPool
from tuner.measure.runner import Measured, Runner
from tuner.measure.zygote import Zygote
from tuner.records import RunContext
from tuner.run_state import RunState
from tuner.search.builder import Builder, Built
from tuner.search.candidates import spaces_from_wire
from tuner.search.evaluator import Evaluator
from tuner.search.evolution import EvolutionarySearch
from tuner.targets.device import Device, detect_device
from tuner.targets.peaks import Roofline
from tuner.targets.target import Target
from tuner.targets.toolchain import toolchain_versions
from tuner.workloads.spec import WorkloadRequest
from tuner.workloads.workload import Workload


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
    roofline: Roofline | None = None
    baseline_secs: tuple[float, ...] = ()
    level: str = "rules"
    toolchain: dict[str, str] = field(default_factory=toolchain_versions)
    started_at: float = field(default_factory=time.time)

    search: EvolutionarySearch = field(init=False)
    builder: Builder = field(init=False)
    model: Model = field(init=False)
    evaluator: Evaluator = field(init=False)

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
            baseline_secs=self.baseline_secs,
            started_at=self.started_at,
        )

    def measure(self, artifact: Built, best_s: float | None) -> Measured:
        """Validates, then times; an artifact that could not be built keeps its failure."""
        if artifact.failure is not None:
            return Measured(outcome=artifact.failure)
        return self.runner.measure(artifact.code, best_s)

    def open_space(self, level: str) -> None:
        """Opens the design space at a level of the ladder and a search over it."""
        task = self._task(level)
        opened = _first(self.pool, "space.open", {"task": task}, self.config.limits.setup_timeout_s)
        self.level = opened["level"]
        for note in opened["notes"]:
            self.state.note(note)
        if self.level != level:
            self.state.note("trying the default schedules instead; the result is labelled `default`")
            task = self._task(level)  # the child keeps the space it fell back to under the level asked for
        spaces = spaces_from_wire(opened["spaces"])
        rng = np.random.default_rng(self.config.seed)
        self.evaluator = Evaluator(self.pool, task)
        self.model = CostModel(machine=self._machine_model(), seed=self.config.seed, n_threads=self.target.n_cores)
        self.search = EvolutionarySearch(spaces, self.evaluator, self.model, self.config.search, rng)
        self.builder = Builder(self.pool, task, self.config.limits.build_timeout_s)

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

    def build_untuned(self) -> bytes:
        """Object code of the untuned module. Raises WorkerError when even that doesn't build."""
        call = {"task": self._task("rules"), "candidate": None}
        built = _first(self.pool, "space.build", call, self.config.limits.setup_timeout_s)
        if "object" not in built:
            raise WorkerError(f"the untuned module of {self.workload.label} doesn't build: {built.get('failed')}")
        return bytes(built["object"])

    def measure_baseline(self, untuned: bytes) -> None:
        """Proves the untuned module right against the reference, times it, and measures the device's peaks once."""
        setup = self.runner.setup(
            self.workload,
            self.target.attrs,
            untuned,
            seed=self.config.seed,
            n_input_sets=self.config.n_input_sets,
            policy=self.config.policy,
        )
        self.baseline_secs = tuple(setup["baseline_secs"])
        self.state.baseline_s = float(np.median(self.baseline_secs))
        for warning in (*self.workload.warnings, *setup["warnings"]):
            self.state.note(warning)

    def _task(self, level: str) -> dict[str, Any]:
        return {
            "key": self.workload.key,
            "module_json": self.workload.module_json,
            "target": self.target.attrs,
            "level": level,
        }

    def _machine_model(self) -> MachineModel:
        peaks = self.roofline.peaks if self.roofline is not None else None
        return MachineModel.from_peaks(self.target.n_cores, peaks)


@contextmanager
def open_session(
    request: WorkloadRequest, target: Target, config: TuneConfig, state: RunState
) -> Iterator[TaskSession]:
    """Starts the children and brings the task to the point where candidates can be tried."""
    target.require_measurable_here()
    with ExitStack() as stack:
        with state.phase("setup"):
            session = _open(stack, request, target, config, state)
        yield session


def _open(
    stack: ExitStack, request: WorkloadRequest, target: Target, config: TuneConfig, state: RunState
) -> TaskSession:
    limits = config.limits
    zygote = stack.enter_context(Zygote(target.n_cores))
    zygote.start()
    pool = stack.enter_context(WorkerPool(zygote, target.n_cores, limits))
    runner = stack.enter_context(Runner(zygote, limits))
    resolved = _first(pool, "workload.resolve", {"request": request.to_dict()}, limits.setup_timeout_s)
    session = TaskSession(
        workload=Workload.from_dict(resolved),
        target=target,
        device=detect_device(target),
        config=config,
        run_id=uuid.uuid4().hex,
        pool=pool,
        runner=runner,
        state=state,
    )
    state.label = session.workload.label
    if session.workload.nothing_to_tune is None:
        with ThreadPoolExecutor(1) as side:
            untuned = side.submit(session.build_untuned)
            session.open_space("rules")
            code = untuned.result()
        session.measure_baseline(code)  # alone: nothing else of ours runs while the machine is timed
    return session


def _first(pool: WorkerPool, job: str, kwargs: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """One job through the pool, its error raised."""
    answer = pool.map(job, [kwargs], timeout_s)[0]
    if isinstance(answer, Exception):
        raise answer
    result: dict[str, Any] = answer
    return result
