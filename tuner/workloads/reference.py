"""The numpy reference of catalogue operators: float64 or int64, independent of TVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.workloads.catalog import OPERATORS
from tuner.workloads.numpy_later import np
from tuner.workloads.op_def import INT_RANGE, Array, OpCall
from tuner.workloads.workload import Workload


def reference_outputs(workload: Workload, inputs: Sequence[Any]) -> list[Array] | None:
    """What the operator must compute, one float64 or int64 array per "out" or "inout" argument, in argument order.

    Args:
        inputs: as `draw_inputs` returns them, one entry per argument.

    Returns:
        None for modules of the user's own: they have no reference.
    """
    op = OPERATORS.get(workload.spec.get("op", ""))
    if op is None or not workload.has_reference:
        return None
    wide = {
        arg.name: np.asarray(value).astype(np.int64 if arg.dtype in INT_RANGE else np.float64)
        for arg, value in zip(workload.args, inputs, strict=True)
        if arg.role != "out"
    }
    with np.errstate(all="ignore"):
        return [np.asarray(op.reference(OpCall.from_spec(workload.spec), wide))]
