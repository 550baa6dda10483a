"""What the user asked for, in one canonical form: from one line or from JSON, without TVM.

dense:m=128,n=3072,k=768,epilogue=bias+gelu
{"op": "dense", "params": {"m": 128, "n": 3072, "k": 768}, "epilogue": ["bias", "gelu"]}
module:FILE.json#function,m=64                  (m: the size of a symbolic dimension)
{"module": "FILE.json", "function": "f", "sizes": {"m": 64}, "inputs": {"idx": {"low": 0, "high": 20}}}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.catalog import CATALOG_VERSION
from tuner.workloads.spec_bounds import PREFIX
from tuner.workloads.spec_catalog import canonical_spec, catalogue_label
from tuner.workloads.spec_module import MODULE_KEYS, parse_module, split_module_line
from tuner.workloads.spec_values import near, show

MAX_LINE = 1 << 16


@dataclass(frozen=True, eq=False)
class WorkloadRequest:
    """A checked request. Two requests are equal when they ask for the same.

    `spec` is canonical: all defaults filled, names sorted. A module's: {"op": "module", "module": sha256 of its text}.
    `label` is one line that `parse_workload` reads back (for a module given as text it only names it).
    `module_text` is the module's JSON, None for catalogue operators.
    """

    spec: dict[str, Any]
    label: str
    module_text: str | None = None

    @property
    def op(self) -> str:
        """The operator's name, or "module"."""
        return str(self.spec["op"])

    def canonical_json(self) -> str:
        return json.dumps(self.spec, sort_keys=True, separators=(",", ":"))

    @cached_property
    def spec_digest(self) -> str:
        """sha256 of the canonical JSON and the catalogue's version: known without TVM, unlike the workload's key."""
        return hashlib.sha256(f"{CATALOG_VERSION}:{self.canonical_json()}".encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what `resolve_job(request=...)` takes."""
        return {"spec": self.spec, "label": self.label, "module_text": self.module_text}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WorkloadRequest:
        return cls(spec=data["spec"], label=data["label"], module_text=data["module_text"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkloadRequest) and self.canonical_json() == other.canonical_json()

    def __hash__(self) -> int:
        return hash(self.canonical_json())


def parse_workload(request: str | Mapping[str, Any], *, allow_files: bool = True) -> WorkloadRequest:
    """Reads a workload in its one-line or JSON form (text or parsed).

    Args:
        allow_files: False for requests from elsewhere: they can't name files of this machine.

    Raises:
        WorkloadError: always one line; nothing else is raised, whatever the text.
    """
    if isinstance(request, str):
        return _from_text(request.strip(), allow_files)
    if not isinstance(request, Mapping):
        raise WorkloadError(f"a workload is text or a JSON object, got {show(request)}")
    for name in request:
        if not isinstance(name, str):
            raise WorkloadError(f"a workload's field names are text, got {show(name)}")
    if "module" in request or "module_json" in request:
        fields = {name: value for name, value in request.items() if (name, value) != ("op", "module")}
        return WorkloadRequest(*parse_module(fields, allow_files=allow_files))
    if "op" not in request:
        raise WorkloadError(f'a workload needs "op" or "module", got the fields {show(sorted(request))}')
    params = request.get("params")
    params = {} if params is None else params
    if not isinstance(params, Mapping):
        raise WorkloadError(f'params wants an object like {{"m": 128}}, got {show(params)}')
    options = {name: value for name, value in request.items() if name not in ("op", "params")}
    twice = sorted(str(name) for name in params if name in options)
    if twice:
        raise WorkloadError(f"{twice[0]} is given twice, in params and beside it; give it once")
    return _from_catalogue(request["op"], {**params, **options})


def _from_text(text: str, allow_files: bool) -> WorkloadRequest:
    if not text:
        raise WorkloadError("a workload is empty; write one like matmul:m=512,n=512,k=512")
    if text.startswith("{"):
        try:
            value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise WorkloadError(f"the workload's JSON can't be read: {show(str(error))}") from None
        return parse_workload(value, allow_files=allow_files)
    if len(text) > MAX_LINE:
        raise WorkloadError(f"a workload's line has at most {MAX_LINE} characters, got {len(text)}")
    op, _, rest = text.partition(":")
    op = op.strip()
    if op == "module":
        return WorkloadRequest(*parse_module(split_module_line(rest.strip()), allow_files=allow_files))
    fields: dict[str, Any] = {}
    bounds: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in rest.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise WorkloadError(f"{show(op)}: want name=value, got {show(item)}")
        into, name = (bounds, name[len(PREFIX) :]) if name.startswith(PREFIX) else (fields, name)
        if name in into:
            raise WorkloadError(f"{show(op)}: {show(name)} is given twice; give it once")
        into[name] = value
    return _from_catalogue(op, {**fields, "inputs": bounds} if bounds else fields)


def _from_catalogue(op: Any, fields: Mapping[str, Any]) -> WorkloadRequest:
    if op == "module":
        raise WorkloadError(f'{show(op)} wants "module": "FILE.json"{near("module", MODULE_KEYS[:2])}')
    spec = canonical_spec(op, fields)
    return WorkloadRequest(spec, catalogue_label(spec))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"{twice[0]!r} is given twice")
    return dict(pairs)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number here")
