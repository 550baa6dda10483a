"""`inputs`: bounds on the values drawn for an argument, {"idx": {"low": 0, "high": 20}}, written `inputs.idx=0:20`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.op_def import INT_RANGE
from tuner.workloads.spec_values import integer, near, real, show

PREFIX = "inputs."
_INT64 = 2**63


def canonical_bounds(where: str, inputs: Any, dtypes: Mapping[str, str] | None) -> dict[str, dict[str, Any]]:
    """Checked bounds by argument name, low <= value < high (floats: <= high).

    Args:
        inputs: {name: {"low", "high"}}, or {name: "low:high"} from the one-line form.
        dtypes: of each input argument; None when they are not known yet (a module that was not read).

    Raises:
        WorkloadError: unknown name, not numbers, an empty range, or outside the dtype's range.
    """
    if not isinstance(inputs, Mapping):
        raise WorkloadError(f'{where}: inputs wants {{"name": {{"low": 0, "high": 20}}}}, got {show(inputs)}')
    found = {}
    for name, value in inputs.items():
        if dtypes is not None and name not in dtypes:
            raise WorkloadError(f"{where}: inputs names {show(name)}, which is no input{near(name, dtypes)}")
        found[str(name)] = _bounds(f"{where}: inputs.{_short(name)}", value, dtypes[name] if dtypes else None)
    return dict(sorted(found.items()))


def check_bounds(where: str, low: float, high: float, dtype: str) -> None:
    """Refuses bounds that `dtype` can't hold.

    Raises:
        WorkloadError: not whole numbers for an integer dtype, or outside its range.
    """
    if dtype not in INT_RANGE:
        return
    least, most = INT_RANGE[dtype]
    if int(low) != low or int(high) != high:
        raise WorkloadError(f"{where}: {dtype} wants whole numbers, got {low!r}:{high!r}")
    if low >= high:
        raise WorkloadError(f"{where}: low:high is empty for {dtype}, got {low!r}:{high!r}; high is exclusive")
    if low < least or high > most + 1:
        raise WorkloadError(f"{where}: {low!r}:{high!r} is outside {dtype}, which holds {least} to {most}")


def written_bounds(bounds: Mapping[str, Any]) -> str:
    return f"{bounds['low']!r}:{bounds['high']!r}"


def _bounds(where: str, value: Any, dtype: str | None) -> dict[str, Any]:
    if isinstance(value, str):
        low, colon, high = value.partition(":")
        value = {"low": low, "high": high} if colon else None
    if not isinstance(value, Mapping) or set(value) != {"low", "high"}:
        raise WorkloadError(f"{where} wants low and high (0:20 on one line), got {show(value)}")
    ends = {end: _number(f"{where}.{end}", value[end]) for end in ("low", "high")}
    if ends["low"] > ends["high"]:
        raise WorkloadError(f"{where}: low must not exceed high, got {written_bounds(ends)}")
    if dtype is not None:
        check_bounds(where, ends["low"], ends["high"], dtype)
        if dtype not in INT_RANGE:
            ends = {end: float(number) for end, number in ends.items()}
    return ends


def _number(where: str, value: Any) -> int | float:
    try:
        return integer(where, value, minimum=-_INT64, maximum=2 * _INT64)
    except WorkloadError:
        number = real(where, value)
        return int(number) if number.is_integer() and abs(number) < _INT64 else number


def _short(name: Any) -> str:
    return str(name) if str(name).isidentifier() and len(str(name)) < 40 else show(name)
