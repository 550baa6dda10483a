"""One spelling per JSON value, and the keys made from it: equal values have equal keys on every machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, no NaN or infinity (ValueError)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_key(value: Any) -> str:
    """sha256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def spec_digest(spec: Mapping[str, Any]) -> str:
    """The key of a workload's canonical spec: found without TVM, where the workload key needs the module."""
    return content_key(dict(spec))


def record_id(run_id: str, trial: int, trace_json: str) -> str:
    """16 hex digits from what the record is: stable when it is exported and imported elsewhere."""
    return content_key([run_id, trial, trace_json])[:16]
