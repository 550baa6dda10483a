"""What a run tells whoever watches it. Events are plain data; the engine never prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A snapshot after each step of the loop. Latencies in seconds; None where not known yet.

    `phase` is "setup", "search", "build", "measure", "model", "confirm" or "done".
    `roofline_fraction` is the best so far against the device's roofline. `remaining_s` is an estimate.
    """

    workload: str
    phase: str
    trials: int
    max_trials: int
    ok: int
    failed: dict[str, int]
    best_s: float | None
    baseline_s: float | None
    roofline_fraction: float | None
    elapsed_s: float
    remaining_s: float | None


class Observer(Protocol):
    def on_progress(self, progress: Progress) -> None: ...

    def on_note(self, note: str) -> None:
        """One line for a person, e.g. that the space is exhausted."""


class SilentObserver:
    def on_progress(self, progress: Progress) -> None:
        pass

    def on_note(self, note: str) -> None:
        pass
