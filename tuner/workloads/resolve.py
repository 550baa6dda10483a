"""Turns a request into a Workload: canonical module, arguments, costs. Runs in a child: it needs TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tuner.errors import WorkloadError
from tuner.tvm_api import IRModule, tvm
from tuner.workloads.canonical import canonical_module
from tuner.workloads.catalog import OPERATORS
from tuner.workloads.operator import OpCall, bytes_moved
from tuner.workloads.spec import WorkloadRequest
from tuner.workloads.workload import ArgSpec, Workload


def resolve_job(request: Mapping[str, Any]) -> dict[str, Any]:
    """A child's job: `WorkloadRequest.to_dict()` in, `Workload.to_dict()` out.

    Raises:
        WorkloadError: the module is damaged or not supported, or the workload does not fit this machine.
    """
    return resolve(WorkloadRequest.from_dict(request)).to_dict()


def resolve(request: WorkloadRequest) -> Workload:
    """See `resolve_job`."""
    if request.op == "module":
        raise WorkloadError("modules come later")
    return _resolve_operator(request)


def load_module(workload: Workload) -> IRModule:
    """The canonical module. Only in a child: what is stored may be damaged, and loading it may crash the process."""
    return tvm.ir.load_json(workload.module_json)


def _resolve_operator(request: WorkloadRequest) -> Workload:
    op = OPERATORS[request.op]
    call = OpCall.from_spec(request.spec)
    args = _with_bounds(op.args(call), request.spec.get("inputs", {}))
    _, text, key = canonical_module(op.build(call))
    return Workload(
        key=key,
        label=request.label,
        spec=request.spec,
        module_json=text,
        args=tuple(args),
        flop=op.flop(call),
        bytes_moved=bytes_moved(args),
        reduction_length=max(1, op.reduction_length(call)),
        acc_dtype=call.acc_dtype,
        has_reference=True,
        nothing_to_tune=_nothing_to_tune(args),
    )


def _with_bounds(args: list[ArgSpec], bounds: Mapping[str, Any]) -> list[ArgSpec]:
    return [replace(a, **bounds[a.name]) if a.name in bounds else a for a in args]


def _nothing_to_tune(args: list[ArgSpec]) -> str | None:
    return "an extent is zero" if any(0 in a.shape for a in args) else None
