"""What a person sees while a run goes on: live on a terminal, sparse lines elsewhere; and what Ctrl-C does."""

from __future__ import annotations

import io
import os
import signal
from typing import Any

import pytest
from rich.console import Console

from service.interrupt import interruptible
from service.watch import LineWatcher, LiveWatcher, best_so_far, new_watcher
from tuner.progress import Progress


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def progress(**changes: Any) -> Progress:
    fields: dict[str, Any] = {
        "workload": "matmul",
        "phase": "measure",
        "trials": 32,
        "max_trials": 128,
        "ok": 30,
        "failed": {"wrong_answer": 2, "build_error": 0},
        "best_s": 0.00125,
        "baseline_s": 0.005,
        "roofline_fraction": 0.42,
        "elapsed_s": 65.0,
        "remaining_s": 125.0,
    }
    return Progress(**{**fields, **changes})


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=140, highlight=False, color_system=None), out


PARTS = ("32/128", "best 1.25 ms (4.00x over untuned)", "42.0 % of the roofline", "2 wrong_answer", "2:05 left")


def test_a_terminal_is_told_everything_that_matters() -> None:
    screen, out = console(terminal=True)
    with new_watcher(screen, "matmul:m=1") as watcher:
        assert isinstance(watcher, LiveWatcher)
        watcher.on_progress(progress())
        watcher.on_note("the space is exhausted")
    for part in (*PARTS, "matmul:m=1", "1:05", "note: the space is exhausted"):
        assert part in out.getvalue(), part
    assert "build_error" not in out.getvalue(), "kinds that did not happen are left out"


def test_a_terminal_is_not_redrawn_for_every_trial() -> None:
    """Drawing takes the processor from what is being measured."""
    screen, out = console(terminal=True)
    clock = Clock()
    with LiveWatcher(screen, "x", clock) as watcher:
        for trial in range(1000):
            clock.now_s += 0.001
            watcher.on_progress(progress(trials=trial, max_trials=1000))
    assert 5 <= out.getvalue().count("/1000") <= 15


def test_elsewhere_a_line_comes_now_and_then() -> None:
    screen, out = console(terminal=False)
    clock = Clock()
    watcher = LineWatcher(screen, "x", clock)
    for phase in ("setup", "setup"):
        watcher.on_progress(progress(phase=phase, trials=0, best_s=None, remaining_s=None))
    for trial in range(1, 21):
        clock.now_s += 1.0
        watcher.on_progress(progress(trials=trial))
    watcher.on_progress(progress(phase="confirm"))
    lines = out.getvalue().splitlines()
    assert len(lines) == 1 + 4 + 1, lines
    assert "preparing" in lines[0]
    assert lines[-1].startswith("x: confirm")
    for part in PARTS:
        assert part in lines[-1]


def test_before_anything_was_measured_nothing_is_claimed() -> None:
    screen, out = console(terminal=False)
    clock = Clock()
    watcher = LineWatcher(screen, "x", clock)
    watcher.on_progress(
        progress(best_s=None, baseline_s=None, roofline_fraction=None, remaining_s=None, trials=1, failed={})
    )
    assert out.getvalue().strip() == "x: measure 1/128 trials"
    assert best_so_far(None) == best_so_far(watcher.last) == "nothing was measured yet"
    assert "1.25 ms, not confirmed" in best_so_far(progress())


def test_names_with_brackets_are_printed_as_they_are() -> None:
    for terminal in (True, False):
        screen, out = console(terminal=terminal)
        with new_watcher(screen, "[1/2] module:[bold]x[/bold].json") as watcher:
            watcher.on_progress(progress())
            watcher.on_note("a [red]note[/red]")
        assert "[1/2] module:[bold]x[/bold].json" in out.getvalue()
        assert "a [red]note[/red]" in out.getvalue()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_asks_and_the_second_insists(number: int, code: int) -> None:
    told: list[str] = []
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interruptible(told.append) as interrupt:  # noqa: PT012
        assert not interrupt.stop.is_set()
        os.kill(os.getpid(), number)
        assert interrupt.stop.is_set()
        assert interrupt.exit_code == code
        assert len(told) == 1
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
