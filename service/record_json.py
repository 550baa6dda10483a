"""A stored record as `show --json`, `lookup --json` and the API print it; and the numbers both forms share."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import Any

from service.render import utc_text
from tuner.outcome import Latency
from tuning_db.canonical import code_versions
from tuning_db.publish import Standing
from tuning_db.views import StoredRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """What the confirmation says of one record: samples in rounds, beside the baseline's."""

    run_secs: tuple[float, ...]
    baseline_secs: tuple[float, ...]
    standing: Standing
    is_winner: bool
    verdict: str
    """Of the run's winner against untuned."""


def confirmed(record: StoredRecord) -> Confirmed | None:
    """None when this record was not among those re-measured."""
    whole = record.confirmation
    if whole is None or record.standing is None:
        return None
    return Confirmed(
        run_secs=whole.candidate_secs[record.trial],
        baseline_secs=whole.baseline_secs,
        standing=record.standing,
        is_winner=whole.winner == record.trial,
        verdict=whole.verdict,
    )


def certificate(record: StoredRecord, toolchain: dict[str, str]) -> str | None:
    """design.md, "Job and item states": "measured" or "stale"; None when it was not validated and confirmed."""
    if not isinstance(record.outcome, Latency) or confirmed(record) is None:
        return None
    return "measured" if code_versions(record.toolchain) == code_versions(toolchain) else "stale"


def workload_json(key: str | None, label: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"key": key, "label": label, **spec}


def record_json(record: StoredRecord, toolchain: dict[str, str]) -> dict[str, Any]:
    """`median_s` and `speedup` are the confirmation's where there is one; raw samples are in the order taken."""
    agreed = confirmed(record)
    outcome: dict[str, Any]
    if isinstance(record.outcome, Latency):
        median_s: float | None = agreed.standing.median_s if agreed else record.outcome.median_s
        outcome = {"kind": "ok", "full": record.outcome.full, "run_secs": list(record.outcome.run_secs)}
    else:
        median_s = None
        outcome = {"kind": record.outcome.kind.value, "detail": record.outcome.detail}
    return {
        "record_id": record.id,
        "run_id": record.run_id,
        "trial": record.trial,
        "workload": workload_json(record.workload.key, record.workload.label, record.spec),
        "target": record.target,
        "device": record.device,
        "toolchain": record.toolchain,
        "policy": record.policy,
        "threads": record.n_threads,
        "seed": record.seed,
        "certificate": certificate(record, toolchain),
        "schedule": record.certificate,
        "median_s": median_s,
        "speedup": agreed.standing.speedup if agreed else None,
        "speedup_ci95": [agreed.standing.speedup_low, agreed.standing.speedup_high] if agreed else None,
        "outcome": outcome,
        "baseline": {
            "median_s": statistics.median(record.baseline_secs) if record.baseline_secs else None,
            "run_secs": list(record.baseline_secs),
        },
        "confirmation": None
        if agreed is None
        else {
            "winner": agreed.is_winner,
            "verdict": agreed.verdict,
            "run_secs": list(agreed.run_secs),
            "baseline_secs": list(agreed.baseline_secs),
        },
        "published": record.published is not None,
        "artifact_sha256": record.artifact_sha256,
        "predicted_score": record.predicted,
        "max_abs_error": record.max_abs_error,
        "max_rel_error": record.max_rel_error,
        "seconds": record.phase_s,
        "measured_at": utc_text(record.measured_at_s),
        "trace": json.loads(record.trace_json),
    }
