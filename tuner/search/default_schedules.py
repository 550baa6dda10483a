"""Default schedules for workloads that MetaSchedule's rules can't touch: legal by construction, said to be defaults."""

from __future__ import annotations

from tuner.tvm_api import IRModule, Schedule, Trace, tvm

_REFUSALS = (tvm.s_tir.ScheduleError, RuntimeError, ValueError)


def default_traces(mod: IRModule) -> list[Trace]:
    """The untuned module, then one with every provably parallel outer loop in parallel. Distinct ones only.

    TVM's own dependence check decides what may run in parallel: an opaque block (a scatter-add, say) never does.
    """
    untuned = Schedule(mod, debug_mask="none", error_render_level="none")
    traces = [untuned.trace]
    parallel = _parallel_outer(mod)
    if parallel is not None:
        traces.append(parallel)
    return traces


def _parallel_outer(mod: IRModule) -> Trace | None:
    schedule = Schedule(mod, debug_mask="all", error_render_level="none")
    changed = False
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        try:
            loops = schedule.get_loops(block)
            if loops and schedule.get(loops[0]).kind == tvm.tirx.ForKind.SERIAL:
                schedule.parallel(loops[0])
                changed = True
        except _REFUSALS:
            continue
    return schedule.trace if changed else None
