"""Users' modules with unusual arguments and values: the right kernel gets a latency, a slightly wrong one never."""

from __future__ import annotations

import pytest

from tuner.config import Limits, Policy
from tuner.measure.runner import Runner
from tuner.measure.worker import IsolatedWorker
from tuner.outcome import Failure, Latency
from tuner.workloads.workload import Workload

TARGET = {"kind": "llvm", "num-cores": 2}
POLICY = Policy(repeats=3, min_sample_s=0.0001)
N_NOTES = {"half_sum_overflows": 1, "half_accumulator_overflows": 1, "masked_row": 1, "part_written": 2}
LIMITS = Limits(extra_memory_bytes=1 << 29)


@pytest.fixture(scope="module")
def builder(zygote):
    with IsolatedWorker(zygote, jobs_per_worker=100, extra_memory_bytes=1 << 30) as worker:
        yield worker


@pytest.mark.parametrize(
    ("name", "oracle", "why"),
    [
        ("in_place", "float64", "output 'B' at [0]"),
        ("scalar", "float64", "output 'Out' at [0]"),
        ("strided", "float64", "argument 'Out' was written between its rows"),
        ("half_sum_overflows", "float64", "output 'C' at [0]"),
        ("half_accumulator_overflows", "float64", "output 'C' at [0]: got 7"),
        ("masked_row", "float64", "output 'o' at [3, 0]: got 0, want nan"),
        ("int8_matmul", "float64", "output 'C' at [0, 0]"),
        ("half_bits", "untuned", "output 'C' at ["),
        ("sum_of_many", "float64", "output 'C' at [0]"),
        ("part_written", "untuned", "output 'B' at [64]"),
    ],
)
def test_right_passes_and_wrong_does_not(zygote, builder, name, oracle, why):
    made = builder.call("odd_module", {"name": name}, 30)
    workload = Workload.from_dict(made["workload"])
    with Runner(zygote, LIMITS) as runner:
        baseline = runner.setup(workload, TARGET, made["right"], seed=5, n_input_sets=3, policy=POLICY)
        assert baseline.oracle == oracle
        n_notes = {"half_sum_overflows": 1, "half_accumulator_overflows": 1, "masked_row": 1, "part_written": 2}.get(
            name, 0
        )
        assert len(baseline.warnings) == n_notes, baseline.warnings
        right = runner.measure(made["right"], None)
        assert isinstance(right.outcome, Latency), right
        wrong = runner.measure(made["wrong"], None)
        assert isinstance(wrong.outcome, Failure)
        assert why in wrong.outcome.detail
        # A fresh process, prepared from what the first one found out, judges alike.
        runner.close()
        assert isinstance(runner.measure(made["right"], None).outcome, Latency)
        assert runner.measure(made["wrong"], None).outcome == wrong.outcome
