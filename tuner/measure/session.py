"""What a timing child holds between jobs: the inputs, what the outputs must be, and the guarded arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.config import Policy
from tuner.measure.buffers import POISONS, Arguments
from tuner.measure.memory import read_only_copy
from tuner.measure.oracle import Oracle
from tuner.measure.timing import TimedKernel, call_once
from tuner.measure.validate import Comparison, compare, worst
from tuner.tvm_api import jit_session
from tuner.workloads.inputs import draw_inputs
from tuner.workloads.workload import Workload

Values = npt.NDArray[Any]
InputSet = Sequence[Any]

_MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Checked:
    """One kernel run on every input set; `stray` is a line when it wrote out of bounds."""

    errors: Comparison
    seconds_once: float
    """The fastest single run."""
    stray: str | None = None

    @property
    def wrong(self) -> str | None:
        """A line when an answer is wrong, or an input was modified."""
        return self.errors.wrong


def draw_input_sets(workload: Workload, seed: int, n_sets: int) -> tuple[InputSet, ...]:
    """`n_sets` sets of inputs, the same for the same seed; never fewer than two, but fewer when they fill memory."""
    each = sum(np.prod(a.shape, dtype=float) * 8 for a in workload.args)
    n_sets = max(2, min(n_sets, int(_MOST_BYTES / max(each, 1.0))))
    rng = np.random.default_rng(seed)
    drawn = [draw_inputs(workload.args, rng) for _ in range(n_sets)]
    return tuple([read_only_copy(v) if isinstance(v, np.ndarray) else v for v in one] for one in drawn)


def load_kernel(object_code: bytes) -> Any:
    """Makes object code callable: `module["main"](*arguments)`."""
    return jit_session().load_module(object_code)


class Session:
    """All that a kernel of one workload is checked and timed with."""

    def __init__(self, workload: Workload, policy: Policy, input_sets: Sequence[InputSet]) -> None:
        self._workload = workload
        self._input_sets = input_sets
        self._arguments = Arguments(workload.args)
        self._oracle: Oracle | None = None
        self.policy = policy

    def expect(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def run_on_each_set(self, kernel: Any) -> tuple[list[list[Values]], list[float]]:
        """Runs a kernel that is trusted; returns copies of the outputs, and the seconds, per input set."""
        outputs, seconds = [], []
        for i, inputs in enumerate(self._input_sets):
            seconds.append(self._run(kernel, i, inputs))
            outputs.append([o.copy() for o in self._arguments.outputs()])
        return outputs, seconds

    def check(self, kernel: Any) -> Checked:
        """Runs a kernel on every input set, up to the first wrong answer or stray store."""
        found: list[Comparison] = []
        seconds: list[float] = []
        for i, inputs in enumerate(self._input_sets):
            seconds.append(self._run(kernel, i, inputs))
            if (stray := self._arguments.stray_store()) is not None:
                return Checked(worst(found), min(seconds), stray)
            found += self._compare(i)
            if (modified := self._arguments.modified_input(inputs)) is not None:
                found.append(Comparison(0.0, 0.0, modified))
            if worst(found).wrong is not None:
                break
        return Checked(worst(found), min(seconds))

    def wrong_after_timing(self) -> str | None:
        """Whether the last of many runs gave another answer than the first: a race. A line, or None.

        Not for arguments that are updated in place: each run changes them.
        """
        if any(spec.role == "inout" for spec in self._workload.args):
            return None
        wrong = worst(self._compare(0)).wrong
        return None if wrong is None else f"not the same in every run: {wrong}"

    def run_once(self, kernel: Any) -> float:
        """Runs a kernel that is trusted on the first input set; returns the seconds."""
        return self._run(kernel, 0, self._input_sets[0])

    def stray_store(self) -> str | None:
        """Whether a run since the last `check` wrote out of bounds."""
        return self._arguments.stray_store()

    def timed(self, kernel: Any, estimate_s: float) -> TimedKernel:
        """The kernel with the first input set loaded, with which all are timed. For use before the next `check`."""
        self._arguments.load(self._input_sets[0], POISONS[0])
        return TimedKernel(kernel, self._arguments.call_values(), self.policy.min_sample_s, estimate_s)

    def _compare(self, i: int) -> list[Comparison]:
        if self._oracle is None:
            raise RuntimeError("nothing says yet what the outputs must be")
        pairs = zip(self._arguments.outputs(), self._oracle.expected[i], self._arguments.output_names(), strict=True)
        return [compare(got, want, name) for got, want, name in pairs]

    def _run(self, kernel: Any, i: int, inputs: InputSet) -> float:
        self._arguments.load(inputs, POISONS[i % len(POISONS)])
        return call_once(kernel["main"], self._arguments.call_values())
