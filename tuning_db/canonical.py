"""One spelling per JSON value, and the keys made from it: equal values have equal keys on every machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tuner.workloads.spec import WorkloadRequest


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, no NaN or infinity (ValueError)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


_NOT_CODE = frozenset({"tunesmith", "orcjit", "python"})


def code_versions(toolchain: Mapping[str, str]) -> dict[str, str]:
    """The versions that decide what code a schedule becomes: schedules are served only where these are the same.

    All versions but those known to leave the code alone: what is new counts until it is known better.
    """
    return {name: version for name, version in toolchain.items() if name not in _NOT_CODE}


def content_key(value: Any) -> str:
    """sha256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def spec_digest(spec: Mapping[str, Any]) -> str:
    """The key of a workload's canonical spec: known without TVM, where the workload's own key needs the module."""
    return WorkloadRequest(spec=dict(spec), label="").spec_digest


def record_id(run_id: str, trial: int, trace_json: str) -> str:
    """16 hex digits from what the record is: stable when it is exported and imported elsewhere."""
    return content_key([run_id, trial, trace_json])[:16]
