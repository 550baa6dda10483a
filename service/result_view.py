"""How a finished run looks: the table that `tune` ends with."""

from __future__ import annotations

from rich.table import Table

from service.render import error_text, facts_table, latency_text, percent_text, rate_text, speedup_text
from tuner.result import TuneResult

_STOPPED = {
    "trials": "the trials are spent",
    "seconds": "the time is spent",
    "space_exhausted": "the design space is exhausted",
    "interrupted": "interrupted",
    "nothing_to_tune": "there is nothing to tune",
}


def result_table(label: str, result: TuneResult, published: str | None) -> Table:
    """`published` says what lookups serve now, None without a best."""
    facts: list[tuple[str, str]] = []
    best = result.best
    if best is None:
        facts.append(("best", "none"))
    else:
        facts += [
            ("median latency", latency_text(best.median_s, best.ci95_s)),
            ("rate", f"{rate_text(best.flop_per_s)}, {percent_text(best.roofline_fraction)} of the roofline"),
            ("bound by", best.bound),
            ("speed-up over untuned", f"{speedup_text(best.speedup, best.speedup_ci95)}: {best.verdict}"),
            ("largest error", error_text(best.max_abs_error)),
            ("record", best.record_id + ("" if best.schedule == "searched" else f" ({best.schedule} schedule)")),
        ]
    if published is not None:
        facts.append(("published", published))
    if result.baseline_median_s is not None and result.baseline_ci95_s is not None:
        facts.append(("untuned", latency_text(result.baseline_median_s, result.baseline_ci95_s)))
    failures = ", ".join(f"{count} {kind}" for kind, count in sorted(result.failed.items()) if count)
    facts += [
        ("trials", f"{result.trials_total}: {result.trials_ok} ok" + (f", {failures}" if failures else "")),
        ("seconds", ", ".join(f"{phase} {s:.2f}" for phase, s in result.seconds.items())),
        ("ended because", _STOPPED.get(result.stopped, result.stopped)),
        *(("note", note) for note in result.notes),
    ]
    return facts_table(label, facts)
