"""Times a kernel in a child, warm: its arguments and code are in the caches, as far as they fit, from a call before."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from tuner.tvm_api import tvm

_LONG_S = 0.02
"""A kernel this slow is timed call by call: the clock costs nothing against it."""
_MOST_CALLS = 1_000_000


class TimedKernel:
    """A loaded kernel with its arguments, and how often it runs per sample.

    A sample is the mean of `number` back-to-back calls that last `min_sample_s` together, in seconds per call.
    """

    def __init__(self, module: Any, arguments: Sequence[Any], min_sample_s: float, estimate_s: float) -> None:
        self._function = module["main"]
        self._module = module
        self._arguments = list(arguments)
        self._min_sample_s = min_sample_s
        self._number = _calls(min_sample_s, estimate_s)
        self._long = estimate_s >= _LONG_S

    def sample(self) -> float:
        """One sample; takes it again with more calls when it was too short to trust."""
        while True:
            seconds = self._take()
            if seconds * self._number >= 0.5 * self._min_sample_s or self._number >= _MOST_CALLS:
                return seconds
            self._number = max(_calls(self._min_sample_s, seconds), 2 * self._number)

    def samples(self, count: int) -> list[float]:
        return [self.sample() for _ in range(count)]

    def _take(self) -> float:
        if self._long and self._number == 1:
            return call_once(self._function, self._arguments)
        # Calls the kernel once more before it starts the clock.
        timer = self._module.time_evaluator("main", tvm.cpu(), number=self._number, repeat=1)
        return float(timer(*self._arguments).results[0])


def call_once(function: Any, arguments: Sequence[Any]) -> float:
    """Runs a kernel once; returns the seconds."""
    start = time.perf_counter_ns()
    function(*arguments)
    return (time.perf_counter_ns() - start) * 1e-9


def affordable(count: int, seconds_each: float, budget_s: float, least: int) -> int:
    """How many of `count` samples fit into the budget, but never below `least`."""
    return max(least, min(count, int(budget_s / max(seconds_each, 1e-9))))


def _calls(min_sample_s: float, estimate_s: float) -> int:
    return min(max(1, math.ceil(min_sample_s / max(estimate_s, 1e-9))), _MOST_CALLS)
