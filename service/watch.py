"""Observers that show a run to a person on stderr: live on a terminal, sparse lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from service.render import percent_text, seconds_text
from tuner.progress import Observer, Progress

_LINE_EVERY_S = 5.0
_REDRAW_EVERY_S = 0.1


class Watcher(Observer, Protocol):
    """An observer that owns a piece of the screen while it is entered. `last` is what it heard last."""

    last: Progress | None

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def new_watcher(console: Console, heading: str) -> Watcher:
    return LiveWatcher(console, heading) if console.is_terminal else LineWatcher(console, heading)


class LiveWatcher:
    """Redraws only when the run reports a step, never by a timer: a timer would disturb what is being measured."""

    def __init__(self, console: Console, heading: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.last: Progress | None = None
        self._heading = heading
        self._clock = clock
        self._drawn_at = float("-inf")
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def on_progress(self, progress: Progress) -> None:
        now = self._clock()
        is_new_phase = self.last is None or progress.phase != self.last.phase
        self.last = progress
        if now - self._drawn_at < _REDRAW_EVERY_S and not is_new_phase:
            return
        self._drawn_at = now
        self._live.update(_panel(self._heading, progress), refresh=True)

    def on_note(self, note: str) -> None:
        self._console.print(Text(f"note: {note}", style="yellow"))

    def __enter__(self) -> Self:
        self._live.start()
        self._live.update(Text(f"{self._heading}: starting"), refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


class LineWatcher:
    """One line at each new phase of interest, and at most every few seconds in between."""

    def __init__(self, console: Console, heading: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.last: Progress | None = None
        self._console = console
        self._heading = heading
        self._clock = clock
        self._told_at = float("-inf")
        self._told_setup = self._told_confirm = False

    def on_progress(self, progress: Progress) -> None:
        self.last = progress
        now = self._clock()
        first_setup = progress.phase == "setup" and not self._told_setup
        first_confirm = progress.phase == "confirm" and not self._told_confirm
        is_due = progress.trials > 0 and now - self._told_at >= _LINE_EVERY_S
        if not (first_setup or first_confirm or is_due):
            return
        self._told_setup |= first_setup
        self._told_confirm |= first_confirm
        self._told_at = now
        self._say(f"{self._heading}: {_line(progress)}")

    def on_note(self, note: str) -> None:
        self._say(f"{self._heading}: note: {note}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


def best_so_far(progress: Progress | None) -> str:
    if progress is None or progress.best_s is None:
        return "nothing was measured yet"
    return f"best so far: {seconds_text(progress.best_s)}, not confirmed"


def _line(p: Progress) -> str:
    if p.phase == "setup":
        return "preparing: starting workers, opening the design space, proving and timing the untuned module"
    return "  ".join(part for part in (f"{p.phase} {p.trials}/{p.max_trials} trials", *_facts(p)) if part)


def _facts(p: Progress) -> tuple[str, ...]:
    best = "" if p.best_s is None else f"best {seconds_text(p.best_s)}"
    if p.best_s is not None and p.baseline_s is not None:
        best += f" ({p.baseline_s / p.best_s:.2f}x over untuned)"
    roofline = "" if p.roofline_fraction is None else f"{percent_text(p.roofline_fraction)} of the roofline"
    failures = ", ".join(f"{count} {kind}" for kind, count in sorted(p.failed.items()) if count)
    left = "" if p.remaining_s is None else f"{_clock_text(p.remaining_s)} left"
    return best, roofline, failures and f"failed: {failures}", left


def _panel(heading: str, p: Progress) -> Group:
    head = Table.grid(padding=(0, 1))
    done = min(p.trials, p.max_trials)
    head.add_row(
        Text(heading, style="bold"),
        ProgressBar(total=max(1, p.max_trials), completed=done, width=30),
        Text(f"{p.trials}/{p.max_trials}"),
        Text(p.phase, style="cyan"),
        Text(_clock_text(p.elapsed_s), style="dim"),
    )
    best, roofline, failures, left = _facts(p)
    facts = Text("  ").join(
        Text(part, style=style)
        for part, style in ((best, "green"), (roofline, ""), (failures, "yellow"), (left, "dim"))
        if part
    )
    return Group(head, Text("  ") + facts)


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    return f"{minutes}:{rest:02d}"
