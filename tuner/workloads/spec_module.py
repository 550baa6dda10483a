"""A request for a module of the user's own: read as text here, never parsed as IR (that can crash a process)."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from tuner.errors import WorkloadError
from tuner.workloads.spec_bounds import PREFIX, canonical_bounds, written_bounds
from tuner.workloads.spec_values import integer, near, show

MAX_MODULE_BYTES = 16 << 20
MODULE_KEYS = ("module", "module_json", "function", "sizes", "inputs")
_TAIL = re.compile(r"(?P<head>.*?)(?P<tail>(?:,[^,=#]+=[^,=#]*)*)", re.DOTALL)
_UNSAFE_IN_FILE = re.compile(r"[%#,\x00-\x1f\x7f\u2028\u2029\x85\ud800-\udfff]")
_UNSAFE_IN_NAME = re.compile(r"[%,=\x00-\x1f\x7f\u2028\u2029\x85\ud800-\udfff]")


def split_module_line(text: str) -> dict[str, Any]:
    """`FILE.json#function,m=64,inputs.idx=0:20` as JSON fields. `%23` and the like stand for `#`, `,`, `=` and `%`."""
    match = _TAIL.fullmatch(text)
    head, tail = (match["head"], match["tail"]) if match else (text, "")
    if os.path.exists(head):
        file, hash_sign, function = head, "", ""
    else:
        file, hash_sign, function = head.partition("#")
        file = file if os.path.exists(file) else unquote(file)
    fields: dict[str, Any] = {"module": file, "sizes": {}, "inputs": {}}
    if hash_sign:
        fields["function"] = unquote(function)
    for item in tail.split(",")[1:]:
        name, _, value = item.partition("=")
        name = name.strip()
        group, name = ("inputs", name[len(PREFIX) :]) if name.startswith(PREFIX) else ("sizes", name)
        name = unquote(name)
        if name in fields[group]:
            raise WorkloadError(f"module: {show(name)} is given twice; give it once")
        fields[group][name] = value
    return fields


def parse_module(fields: Mapping[str, Any], *, allow_files: bool) -> tuple[dict[str, Any], str, str]:
    """The canonical spec, the label and the module's text.

    Raises:
        WorkloadError: unreadable, too large, not JSON text, or fields that make no sense.
    """
    for name in fields:
        if name not in MODULE_KEYS:
            raise WorkloadError(f"module: field {show(name)} is not known{near(name, MODULE_KEYS)}")
    if "module" in fields and "module_json" in fields:
        raise WorkloadError("module: got both module (a file) and module_json (its text); give one of them")
    text = _inline(fields["module_json"]) if "module_json" in fields else _read(fields["module"], allow_files)
    digest = hashlib.sha256(text.encode()).hexdigest()
    spec: dict[str, Any] = {"op": "module", "module": digest}
    function = fields.get("function")
    if function is not None:
        if not isinstance(function, str) or not function or len(function) > 1000:
            raise WorkloadError(f"module: function wants a name of 1 to 1000 characters, got {show(function)}")
        spec["function"] = function
    sizes = fields.get("sizes") or {}
    if not isinstance(sizes, Mapping):
        raise WorkloadError(f'module: sizes wants {{"m": 64}}, got {show(sizes)}')
    if sizes:
        spec["sizes"] = {
            str(n): integer(f"module: size of {show(n)}", v, minimum=0) for n, v in sorted(sizes.items(), key=str)
        }
    bounds = canonical_bounds("module", fields.get("inputs") or {}, None)
    if bounds:
        spec["inputs"] = bounds
    return spec, _label(fields.get("module") or f"sha256-{digest[:12]}", spec), text


def _read(path: Any, allow_files: bool) -> str:
    if not isinstance(path, str) or not path or "\0" in path:
        raise WorkloadError(f"module wants a file name, got {show(path)}")
    if not allow_files:
        raise WorkloadError("module: files are read only where the command runs; send the module's text as module_json")
    try:
        file = Path(path)
        if not file.is_file():
            raise WorkloadError(f"module: no file {show(path)}; write one with tvm.ir.save_json(mod)")
        size = file.stat().st_size
        if size > MAX_MODULE_BYTES:
            raise WorkloadError(f"module: {show(path)} has {size} bytes, at most {MAX_MODULE_BYTES} are read")
        text = file.read_text(encoding="utf-8")
    except UnicodeError:
        raise WorkloadError(f"module: {show(path)} is not UTF-8 text; write it with tvm.ir.save_json(mod)") from None
    except (OSError, ValueError) as error:
        raise WorkloadError(f"module: can't read {show(path)}: {show(str(error))}") from None
    return _check_text(path, text)


def _inline(value: Any) -> str:
    text = json.dumps(value, sort_keys=True) if isinstance(value, Mapping) else value
    if not isinstance(text, str) or len(text) > MAX_MODULE_BYTES:
        raise WorkloadError(
            f"module_json wants a module's JSON text of at most {MAX_MODULE_BYTES} characters, got {show(value)}"
        )
    try:
        text.encode()
    except UnicodeError:
        raise WorkloadError("module_json is not valid Unicode text; send what tvm.ir.save_json(mod) returns") from None
    return _check_text("module_json", text)


def _check_text(name: str, text: str) -> str:
    if not text.strip():
        raise WorkloadError(f"module: {show(name)} is empty; write it with tvm.ir.save_json(mod)")
    if not text.lstrip().startswith("{"):
        raise WorkloadError(f"module: {show(name)} is not a module's JSON; write it with tvm.ir.save_json(mod)")
    return text


def _label(file: str, spec: Mapping[str, Any]) -> str:
    label = f"module:{_UNSAFE_IN_FILE.sub(_escape, file)}"
    if "function" in spec:
        label += f"#{_UNSAFE_IN_NAME.sub(_escape, spec['function'])}"
    for name, size in spec.get("sizes", {}).items():
        label += f",{_name(name)}={size}"
    for name, bounds in spec.get("inputs", {}).items():
        label += f",{PREFIX}{_name(name)}={written_bounds(bounds)}"
    return label


def _name(name: str) -> str:
    return _UNSAFE_IN_NAME.sub(_escape, name).replace("#", "%23")


def _escape(match: re.Match[str]) -> str:
    return quote(match[0], safe="", errors="replace")
