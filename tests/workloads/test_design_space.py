"""Canonical modules stay schedulable: MetaSchedule finds a design space, and its traces replay on the stored module."""

from __future__ import annotations

import pytest
import tvm

from tuner.tvm_api import Schedule, ms
from tuner.workloads.catalog import OPERATORS
from tuner.workloads.resolve import load_module, resolve
from tuner.workloads.spec import parse_workload
from tuner.workloads.workload import Workload

TARGET = {"kind": "llvm", "num-cores": 2}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_example_has_a_design_space_that_replays(name: str) -> None:
    workload = resolve(parse_workload(OPERATORS[name].example))
    space = ms.space_generator.PostOrderApply(sch_rules="llvm", postprocs="llvm", mutator_probs="llvm")
    context = ms.TuneContext(
        mod=load_module(workload),
        target=tvm.target.Target(TARGET),
        space_generator=space,
        search_strategy="replay-trace",
        rand_state=1,
        num_threads=1,
    )
    schedules = context.generate_design_space()
    assert schedules
    stored = Workload.from_dict(workload.to_dict())
    for schedule in schedules:
        replayed = Schedule(load_module(stored))
        schedule.trace.apply_to_schedule(replayed, remove_postproc=True)
        assert tvm.ir.save_json(replayed.mod) == tvm.ir.save_json(schedule.mod)
