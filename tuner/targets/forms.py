"""The ways a target may be written, brought to one dict. Nothing is checked against TVM's tables yet."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterable
from typing import Any

from tuner.errors import TargetError

MAX_TEXT = 1 << 16
# Old names of options, as TVM's command-line form had them.
_OLD_NAMES = {"target": "mtriple", "mtriple": "mtriple", "device-type": "device"}
_EXAMPLES = (
    "native, 'llvm -mcpu=skylake-avx512 -num-cores=8', 'cuda -arch=sm_80', a tag such as nvidia/nvidia-h100, or JSON"
)


def to_dict(target: str | dict[str, Any]) -> dict[str, Any]:
    """The target as a dict with "kind" or "tag", whatever form it was written in."""
    if isinstance(target, dict):
        return dict(target)
    if not isinstance(target, str):
        raise TargetError(f"a target is text or a JSON object, got {type(target).__name__}; write {_EXAMPLES}")
    text = target.strip()
    if not text:
        raise TargetError(f"the target is empty; write {_EXAMPLES}")
    if len(text) > MAX_TEXT:
        raise TargetError(f"the target is {len(text)} characters long; {MAX_TEXT} are allowed")
    if text[0] == "{":
        return _from_json(text)
    return _from_line(text)


def shown(value: object, limit: int = 60) -> str:
    """A value for an error message: one line, quoted, ASCII, short."""
    text = ascii(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def unknown(what: str, value: object, valid: Iterable[str]) -> TargetError:
    """The error for a name that isn't among `valid`, with the nearest of them."""
    names = sorted(valid)
    text = value[:200].lower() if isinstance(value, str) else ""
    near = difflib.get_close_matches(text, names, n=5, cutoff=0.5)
    end = text.rpartition("/")[2]
    if len(end) >= 3:
        near = list(dict.fromkeys([*sorted((n for n in names if end in n), key=len), *near]))[:5]
    if near:
        return TargetError(f"unknown {what} {shown(value)}; did you mean {', '.join(near)}?")
    listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return TargetError(f"unknown {what} {shown(value)}; known: {listed}")


def _from_json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise TargetError(f"the target looks like JSON and isn't: {shown(str(error), 100)}") from None
    if not isinstance(data, dict):
        raise TargetError(f"the target's JSON must be an object, got {shown(data)}")
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{shown(name)} is given twice")
        found[name] = value
    return found


def _from_line(text: str) -> dict[str, Any]:
    """`kind -key=value -key value -flag`, or a bare kind or tag; values stay text, typed later."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"can't read the target {shown(text)}: {error}") from None
    if not words:
        raise TargetError(f"the target is empty; write {_EXAMPLES}")
    kind, rest = words[0], words[1:]
    data: dict[str, Any] = {"tag" if "/" in kind else "kind": kind}
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word.strip("-") == "":
            raise TargetError(f"can't read {shown(word)} in the target {shown(text)}; options are written -name=value")
        name, separator, text_value = word.lstrip("-").partition("=")
        value: str | bool = text_value
        if not separator:
            value = rest.pop(0) if rest and not rest[0].startswith("-") else True
        name = _OLD_NAMES.get(name, name)
        if name in data:
            raise TargetError(f"the target {shown(text)} gives {shown(name)} twice")
        data[name] = value
    return data
