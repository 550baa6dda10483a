"""Turns one written value (text, or a JSON value) into its canonical form, or one clear WorkloadError. No TVM."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.op_def import Param

MAX_SIZE = 2**31
MAX_RANK = 8
_INT = re.compile(r"[+-]?[0-9]{1,20}")
_ALIASES = {
    "fp32": "float32", "f32": "float32", "float": "float32", "fp16": "float16", "f16": "float16", "half": "float16",
    "bf16": "bfloat16", "i8": "int8", "s8": "int8",
}  # fmt: skip


def show(value: Any) -> str:
    """The value in at most 60 characters and one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def near(word: Any, known: Iterable[str]) -> str:
    """ "; did you mean x?" or "; known: a, b, c"."""
    known = list(known)
    text = word if isinstance(word, str) else str(word)
    alias = _ALIASES.get(text)
    if alias in known:
        return f"; did you mean {alias}?"
    folded = {name.lower(): name for name in known}
    matches = [folded[m] for m in difflib.get_close_matches(text[:80].lower(), folded, n=3, cutoff=0.5)]
    if matches:
        return f"; did you mean {' or '.join(matches)}?"
    return f"; known: {', '.join(known)}" if known else ""


def one_of(where: str, value: Any, known: Iterable[str]) -> str:
    """A word out of `known`."""
    known = list(known)
    if isinstance(value, str) and value.strip() in known:
        return value.strip()
    raise WorkloadError(f"{where} {show(value)} is not known{near(value, known)}")


def integer(where: str, value: Any, minimum: int | None = None, maximum: int = MAX_SIZE) -> int:
    """An integer within [minimum, maximum]; no bool, no 3.0."""
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and _INT.fullmatch(value.strip()):
        number = int(value)
    if number is None:
        raise WorkloadError(f"{where} wants an integer, got {show(value)}")
    if minimum is not None and number < minimum:
        raise WorkloadError(f"{where} must be at least {minimum}, got {show(number)}")
    if number > maximum:
        raise WorkloadError(f"{where} must be at most {maximum}, got {show(number)}")
    return number


def real(where: str, value: Any) -> float:
    """A finite number."""
    number: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value) if abs(value) < 1e300 else math.inf
    elif isinstance(value, str) and len(value) < 60:
        try:
            number = float(value)
        except ValueError:
            number = None
    if number is None or not math.isfinite(number):
        raise WorkloadError(f"{where} wants a finite number, got {show(value)}")
    return number


def words(where: str, value: Any, known: Iterable[str]) -> list[str]:
    """A list of known words, written `a+b`; empty text and `none` mean an empty list."""
    if value is None or (isinstance(value, str) and value.strip() in ("", "none")):
        return []
    parts = value.split("+") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise WorkloadError(f"{where} wants words joined by '+', got {show(value)}")
    if len(parts) > 32:
        raise WorkloadError(f"{where} wants at most 32 words, got {len(parts)}")
    known = list(known)
    return [one_of(where, part, known) for part in parts]


def canonical_value(op: str, param: Param, value: Any) -> Any:
    """One parameter's canonical value by its kind (see `Param`). Axes stay as written until the rank is known.

    Raises:
        WorkloadError: names the operator and the parameter.
    """
    where = f"{op}: {param.name}"
    if param.kind in ("size", "int"):
        return integer(where, value, minimum=param.minimum)
    if param.kind == "pair":
        parts = _split(where, value, "x", "one number or HxW")
        if len(parts) not in (1, 2):
            raise WorkloadError(f"{where} wants one number or HxW, got {show(value)}")
        pair = [integer(where, part, minimum=param.minimum) for part in parts]
        return pair * 2 if len(pair) == 1 else pair
    if param.kind == "shape":
        parts = _split(where, value, "x", "sizes like 1536x128")
        if not 1 <= len(parts) <= MAX_RANK:
            raise WorkloadError(f"{where} wants 1 to {MAX_RANK} sizes like 1536x128, got {show(value)}")
        return [integer(where, part, minimum=param.minimum) for part in parts]
    if param.kind == "axes":
        if value == "all":
            return "all"
        parts = _split(where, value, "+", "axes like -1, 0+2 or all")
        if not 1 <= len(parts) <= MAX_RANK:
            raise WorkloadError(f"{where} wants axes like -1, 0+2 or all, got {show(value)}")
        return [integer(where, part, maximum=MAX_RANK) for part in parts]
    if param.kind == "float":
        number = real(where, value)
        if number <= 0:
            raise WorkloadError(f"{where} must be positive, got {show(value)}")
        return number
    if param.kind == "flag":
        return _flag(where, value)
    return words(where, value, param.choices)


def resolve_axes(op: str, axes: list[int] | str, rank: int, *, ordered: bool = False) -> list[int]:
    """Axes in [0, rank), sorted unless `ordered`; `all` is every axis.

    Raises:
        WorkloadError: out of range, or named twice.
    """
    if isinstance(axes, str):
        return list(range(rank))
    for axis in axes:
        if not -rank <= axis < rank:
            raise WorkloadError(f"{op}: axis {axis} is out of range for {rank} dimensions; use {-rank} to {rank - 1}")
    found = [axis % rank for axis in axes]
    if len(set(found)) != len(found):
        raise WorkloadError(f"{op}: axis {'+'.join(map(str, axes))} names a dimension twice; name each once")
    return found if ordered else sorted(found)


def written(kind: str, value: Any) -> str:
    """The inverse of `canonical_value`: how a canonical value is written in the one-line form."""
    if kind == "pair":
        return str(value[0]) if value[0] == value[1] else f"{value[0]}x{value[1]}"
    if kind == "shape":
        return "x".join(map(str, value))
    if kind == "axes":
        return value if isinstance(value, str) else "+".join(map(str, value))
    if kind == "names":
        return "+".join(value)
    if kind == "flag":
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _split(where: str, value: Any, separator: str, wanted: str) -> list[Any]:
    if isinstance(value, str):
        return value.strip().split(separator)
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    raise WorkloadError(f"{where} wants {wanted}, got {show(value)}")


def _flag(where: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("true", "1", "yes"):
        return True
    if text in ("false", "0", "no"):
        return False
    raise WorkloadError(f"{where} wants true or false, got {show(value)}")
