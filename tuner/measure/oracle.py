"""What outputs must be, in a child: from numpy, from the module itself in float64, or from the module as it is."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tuner.errors import WorkloadError
from tuner.measure.memory import read_only_copy
from tuner.measure.validate import (
    Expected,
    compare,
    is_float,
    normalized_error,
    tolerance,
    typical_magnitude,
    unit_roundoff,
)
from tuner.workloads.inputs import numpy_dtype
from tuner.workloads.reference import reference_outputs
from tuner.workloads.workload import Workload

Values = npt.NDArray[Any]

_FLOAT = re.compile(r"(b?float(16|32)|float8_\w+)(x\d+)?")
_CALIBRATION = 4.0
"""A schedule may err this many times as much as the untuned module does, measured against higher precision."""
_DISAGREEMENT = 64.0
"""Beyond this many times the model's tolerance, two answers differ by more than rounding."""
_MEMO_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Oracle:
    """`expected[i][j]` is for input set i and output j. `source` is "reference", "float64" or "untuned".

    `untuned_error` is the largest absolute error of the untuned module against it.
    """

    expected: tuple[tuple[Expected, ...], ...]
    source: str
    untuned_error: float
    warnings: tuple[str, ...]


def module_in_float64(module_json: str) -> str:
    """The module with every float type, of 32 bits and below, widened: the same computation in higher precision."""
    tree = json.loads(module_json)
    for node in tree["nodes"]:
        data = node.get("data")
        if node.get("type") == "ir.PrimType" and (match := _FLOAT.fullmatch(data["dtype"])):
            data["dtype"] = f"float64{match[3] or ''}"
    return json.dumps(tree)


def make_oracle(
    workload: Workload,
    input_sets: Sequence[Sequence[Any]],
    untuned: Sequence[Sequence[Values]],
    wide: Sequence[Sequence[Values]] | None,
) -> Oracle:
    """Decides what each output must be and how close a schedule must come.

    Args:
        untuned: what the untuned module computed, per input set.
        wide: what it computes in float64, per input set; None when it can't be had or is not needed.

    Raises:
        WorkloadError: the numpy reference exists, and the untuned module contradicts it.
    """
    names = [spec.name for spec in workload.args if spec.role in ("out", "inout")]
    primary, source = wide, "float64"
    if workload.has_reference:
        primary, source = _references(workload, input_sets), "reference"
    notes: list[str] = []
    if primary is not None:
        expected = [
            [_against(want, got, workload) for want, got in zip(wants, gots, strict=True)]
            for wants, gots in zip(primary, untuned, strict=True)
        ]
        contradiction = _contradiction(expected, untuned, names, workload)
        if contradiction is None:
            return _frozen(expected, untuned, source, notes + _overflows(untuned, names))
        if source == "reference":
            raise WorkloadError(
                f"{workload.label}: TVM's untuned code contradicts the numpy reference: {contradiction}"
            )
        notes.append(
            f"compared with the untuned module only, since in float64 it computes something else: {contradiction}"
        )
    expected = [[_as_it_is(got, workload) for got in gots] for gots in untuned]
    return _frozen(expected, untuned, "untuned", notes + _overflows(untuned, names))


def to_memo(oracle: Oracle) -> dict[str, Any] | None:
    """Plain data from which `from_memo` makes the oracle again without the untuned module; None when it is too much."""
    drop = oracle.source == "reference"
    rows = [[(None if drop else e.values, e.scale, e.relative, e.also) for e in row] for row in oracle.expected]
    n_bytes = sum(a.nbytes for row in rows for e in row for a in (e[0], e[3]) if a is not None)
    if n_bytes > _MEMO_BYTES:
        return None
    return {"rows": rows, "source": oracle.source, "untuned_error": oracle.untuned_error}


def from_memo(memo: dict[str, Any], workload: Workload, input_sets: Sequence[Sequence[Any]]) -> Oracle:
    """The inverse of `to_memo`, for the same inputs."""
    references = _references(workload, input_sets) if memo["source"] == "reference" else None
    dtypes = [numpy_dtype(spec.dtype) for spec in workload.args if spec.role in ("out", "inout")]
    expected = []
    for i, row in enumerate(memo["rows"]):
        wants = [e[0] for e in row] if references is None else references[i]
        expected.append(
            [
                Expected(_held(want, dtype), scale, relative, also)
                for want, dtype, (_, scale, relative, also) in zip(wants, dtypes, row, strict=True)
            ]
        )
    return Oracle(_protected(expected), memo["source"], memo["untuned_error"], ())


def _references(workload: Workload, input_sets: Sequence[Sequence[Any]]) -> list[list[Values]]:
    found = []
    for inputs in input_sets:
        outputs = reference_outputs(workload, inputs)
        if outputs is None:
            raise WorkloadError(f"{workload.label}: its numpy reference is missing")
        found.append(outputs)
    return found


def _frozen(
    expected: list[list[Expected]], untuned: Sequence[Sequence[Values]], source: str, notes: list[str]
) -> Oracle:
    errors = [
        compare(got, want, "").max_abs_error
        for wants, gots in zip(expected, untuned, strict=True)
        for want, got in zip(wants, gots, strict=True)
    ]
    return Oracle(_protected(expected), source, max(errors, default=0.0), tuple(notes))


def _protected(expected: list[list[Expected]]) -> tuple[tuple[Expected, ...], ...]:
    def safe(array: Values | None) -> Values | None:
        return None if array is None else read_only_copy(array)

    return tuple(tuple(replace(e, values=read_only_copy(e.values), also=safe(e.also)) for e in row) for row in expected)


def _held(want: Values, dtype: np.dtype[Any]) -> Values:
    """As `Expected.values` holds it for an output of this dtype: an integer wraps as the output's own would."""
    if not is_float(dtype):
        return want.astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return want.astype(np.float64 if dtype.itemsize > 4 else np.float32)


def _against(want: Values, got: Values, workload: Workload) -> Expected:
    """From a result in higher precision; the untuned module's own error tells how much rounding costs here."""
    values = _held(want, got.dtype).reshape(got.shape)
    if not is_float(got.dtype):
        return Expected(values, 0.0, 0.0)
    also = None
    if _narrow(got, workload) and (np.isfinite(values) & ~_finite(got)).any():
        also = got.copy()
    expected = Expected(values, typical_magnitude(values), _model(got, workload), also)
    needed = normalized_error(got, expected)
    if not math.isfinite(needed):
        return expected
    return replace(expected, relative=max(expected.relative, _CALIBRATION * needed))


def _as_it_is(got: Values, workload: Workload) -> Expected:
    """From the untuned module alone: both sides err, so twice the model."""
    values = _held(got, got.dtype)
    if not is_float(got.dtype):
        return Expected(values, 0.0, 0.0)
    return Expected(values, typical_magnitude(values), 2 * _model(got, workload))


def _contradiction(
    expected: list[list[Expected]], untuned: Sequence[Sequence[Values]], names: list[str], workload: Workload
) -> str | None:
    """Where the untuned module is further off than rounding explains; None when nowhere."""
    for wants, gots in zip(expected, untuned, strict=True):
        for want, got, name in zip(wants, gots, names, strict=True):
            model = _model(got, workload)
            acc = numpy_dtype(workload.acc_dtype)
            limit = min(max(_DISAGREEMENT * model, workload.reduction_length * unit_roundoff(acc)), 1.0)
            strict = replace(want, relative=min(want.relative, limit))
            if (wrong := compare(got, strict, name).wrong) is not None:
                return wrong
    return None


def _overflows(untuned: Sequence[Sequence[Values]], names: list[str]) -> list[str]:
    """A line per output that is inf or NaN somewhere in the untuned module's answer."""
    notes = []
    for j, name in enumerate(names):
        outputs = [gots[j] for gots in untuned]
        if not is_float(outputs[0].dtype):
            continue
        n_odd = sum(int((~_finite(o)).sum()) for o in outputs)
        if n_odd:
            total = sum(o.size for o in outputs)
            notes.append(f"the untuned module itself gives inf or NaN in output {name!r} ({n_odd} of {total} elements)")
    return notes


def _finite(values: Values) -> npt.NDArray[np.bool_]:
    finite: npt.NDArray[np.bool_] = np.isfinite(values if values.dtype.kind == "f" else values.astype(np.float32))
    return finite


def _model(got: Values, workload: Workload) -> float:
    acc = numpy_dtype(workload.acc_dtype)
    return tolerance(got.dtype, acc if is_float(acc) else got.dtype, workload.reduction_length)


def _narrow(got: Values, workload: Workload) -> bool:
    """Whether sums may overflow that float64 can hold: float16 and below."""
    acc = numpy_dtype(workload.acc_dtype)
    return any(is_float(d) and float(ml_dtypes.finfo(d).max) < 1e6 for d in (got.dtype, acc))
