"""Turns a request into a Workload: canonical module, arguments, costs. Runs in a child: it needs TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import psutil

from tuner.errors import WorkloadError
from tuner.tvm_api import IRModule, tvm
from tuner.workloads.canonical import canonical_module
from tuner.workloads.catalog import OPERATORS
from tuner.workloads.custom import load_custom
from tuner.workloads.op_def import OpCall, bytes_moved
from tuner.workloads.spec import WorkloadRequest
from tuner.workloads.workload import ArgSpec, Workload

MEMORY_SHARE = 0.25
"""Of the free memory that a workload's buffers may take: several copies of them exist while candidates are checked."""
_EMPTY = "an extent is zero"


def resolve_job(request: Mapping[str, Any]) -> dict[str, Any]:
    """A child's job: `WorkloadRequest.to_dict()` in, `Workload.to_dict()` out.

    Raises:
        WorkloadError: the module is damaged or not supported, or the workload does not fit this machine.
    """
    return resolve(WorkloadRequest.from_dict(request)).to_dict()


def resolve(request: WorkloadRequest) -> Workload:
    """See `resolve_job`."""
    return _resolve_module(request) if request.op == "module" else _resolve_operator(request)


def load_module(workload: Workload) -> IRModule:
    """The canonical module. Only in a child: what is stored may be damaged, and loading it may crash the process."""
    return tvm.ir.load_json(workload.module_json)


def _resolve_operator(request: WorkloadRequest) -> Workload:
    op = OPERATORS[request.op]
    call = OpCall.from_spec(request.spec)
    bounds = request.spec.get("inputs", {})
    args = [replace(arg, **bounds[arg.name]) if arg.name in bounds else arg for arg in op.args(call)]
    _check_memory(request.label, bytes_moved(args))
    _, text, key = canonical_module(op.build(call))
    return Workload(
        key=key,
        label=request.label,
        spec=request.spec,
        module_json=text,
        args=tuple(args),
        flop=op.flop(call),
        bytes_moved=bytes_moved(args) if op.bytes_moved is None else op.bytes_moved(call, args),
        reduction_length=max(1, op.reduction_length(call)),
        acc_dtype=call.acc_dtype,
        has_reference=True,
        nothing_to_tune=_EMPTY if _is_empty(args) else None,
    )


def _resolve_module(request: WorkloadRequest) -> Workload:
    custom = load_custom(request.module_text or "", request.spec)
    moved = bytes_moved(custom.args)
    _check_memory(request.label, moved + custom.scratch_bytes)
    _, text, key = canonical_module(custom.func)
    return Workload(
        key=key,
        label=request.label,
        spec={**request.spec, "module": key},
        module_json=text,
        args=custom.args,
        flop=custom.flop,
        bytes_moved=moved,
        reduction_length=custom.reduction_length,
        acc_dtype=custom.acc_dtype,
        has_reference=False,
        nothing_to_tune=_EMPTY if custom.empty_loop or _is_empty(custom.args) else None,
        warnings=custom.warnings,
    )


def _is_empty(args: Sequence[ArgSpec]) -> bool:
    return any(0 in arg.shape for arg in args)


def _check_memory(label: str, wanted_bytes: float) -> None:
    free_bytes = psutil.virtual_memory().available
    if wanted_bytes > free_bytes * MEMORY_SHARE:
        raise WorkloadError(
            f"{label}: its buffers take {wanted_bytes / 1e9:.1f} GB, of {free_bytes / 1e9:.1f} GB free memory "
            f"{MEMORY_SHARE:.0%} may be used; choose smaller sizes"
        )
