"""Child jobs over a task's design space: open it, schedule and featurise candidates, build one, show one.

Every job carries the whole task (module and target), so any worker can serve it; the last few spaces are kept.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from typing import Any

from tuner.measure.codegen import assembly, object_code
from tuner.search.candidates import Candidate, decisions_from_wire
from tuner.search.design_space import DesignSpace, IllegalCandidate, last_line
from tuner.tvm_api import IRModule, Schedule, Trace, structural_hash, tvm

_KEPT_SPACES = 4
_spaces: OrderedDict[str, DesignSpace] = OrderedDict()  # a cache of this worker process, keyed by the task


def open_job(task: dict[str, Any]) -> dict[str, Any]:
    """-> {"spaces": [[knob, ...], ...], "level": "rules"|"default", "notes": [...]}"""
    space = _space(task)
    return {"spaces": space.knobs(), "level": space.level, "notes": space.notes}


def evaluate_job(task: dict[str, Any], candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Schedules each candidate and extracts features.

    -> per candidate {"decisions", "module_hash", "features"}, or {"refused": why}.
    """
    space = _space(task)
    answers: list[dict[str, Any]] = []
    for wire in candidates:
        try:
            schedule, decisions = space.replay(_candidate(wire))
            features = space.features([schedule])[0]
        except IllegalCandidate as refusal:
            answers.append({"refused": str(refusal)})
            continue
        answers.append(
            {"decisions": list(decisions), "module_hash": structural_hash(schedule.mod), "features": features}
        )
    return answers


def build_job(task: dict[str, Any], candidate: dict[str, Any] | None) -> dict[str, Any]:
    """Builds one candidate (None: the untuned module) to object code.

    -> {"object": bytes, "trace_json", "seconds"}; {"refused": why} when it can't be scheduled or stored;
    {"failed": why, "trace_json"} when it doesn't compile.
    """
    began = time.perf_counter()
    if candidate is None:
        mod, trace_json = load_module(task["module_json"]), "[[], []]"
    else:
        try:
            schedule, _ = _space(task).replay(_candidate(candidate))
        except IllegalCandidate as refusal:
            return {"refused": str(refusal)}
        mod = schedule.mod
        try:
            trace_json = trace_to_json(schedule.trace)
        except (TypeError, RuntimeError, ValueError) as error:
            return {"refused": f"its trace can't be stored: {error}"}
    try:
        code = object_code(mod, task["target"])
    except Exception as error:  # noqa: BLE001  whatever the compiler raises, it is this candidate's failure
        return {"failed": last_line(error), "trace_json": trace_json}
    return {"object": code, "trace_json": trace_json, "seconds": time.perf_counter() - began}


def trace_job(task: dict[str, Any], candidate: dict[str, Any]) -> dict[str, str]:
    """The trace of a candidate whose build killed its worker -> {"trace_json"}."""
    schedule, _ = _space(task).replay(_candidate(candidate))
    return {"trace_json": trace_to_json(schedule.trace)}


def rebuild_job(task: dict[str, Any], trace_json: str) -> dict[str, Any]:
    """Replays a stored trace onto the stored module and builds it -> {"object": bytes}."""
    return {"object": object_code(apply_trace(task["module_json"], trace_json), task["target"])}


def show_job(task: dict[str, Any], trace_json: str, what: str) -> dict[str, str]:
    """-> {"text"}: `what` is "before" or "after" (TVMScript of the module) or "source" (assembly)."""
    if what == "before":
        return {"text": str(load_module(task["module_json"]).script())}
    scheduled = apply_trace(task["module_json"], trace_json)
    if what == "after":
        return {"text": str(scheduled.script())}
    if what == "source":
        return {"text": assembly(scheduled, task["target"])}
    raise ValueError(f"what must be before, after or source, got {what!r}")


def load_module(module_json: str) -> IRModule:
    return tvm.ir.load_json(module_json)


def apply_trace(module_json: str, trace_json: str) -> IRModule:
    """The stored module with a stored trace applied, postprocessing included."""
    schedule = Schedule(load_module(module_json), debug_mask="none", error_render_level="none")
    Trace.apply_json_to_schedule(json.loads(trace_json), schedule)
    return schedule.mod


def trace_to_json(trace: Trace) -> str:
    """Canonical JSON of a trace. Raises TypeError for what JSON can't hold (a dict in an annotation)."""
    return json.dumps(_plain(trace.as_json()), separators=(",", ":"))


def _plain(node: Any) -> Any:
    if node is None or isinstance(node, bool | int | float | str):
        return node
    if isinstance(node, tvm.ir.Array | list | tuple):
        return [_plain(item) for item in node]
    if isinstance(node, tvm.tirx.IntImm):
        return int(node.value)
    if isinstance(node, tvm.tirx.FloatImm):
        return float(node.value)
    raise TypeError(f"{type(node).__name__} does not survive JSON")


def _space(task: dict[str, Any]) -> DesignSpace:
    key = f"{task['key']}/{task['level']}"
    space = _spaces.pop(key, None) or DesignSpace(load_module(task["module_json"]), task["target"], task["level"])
    _spaces[key] = space
    while len(_spaces) > _KEPT_SPACES:
        _spaces.popitem(last=False)
    return space


def _candidate(wire: dict[str, Any]) -> Candidate:
    return Candidate(wire["space"], decisions_from_wire(wire["decisions"]), wire["seed"])
