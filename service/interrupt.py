"""Ctrl-C and SIGTERM while tuning: the first asks the run to stop after the trial at hand, the second ends at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """`stop` is set once a signal came; `exit_code` is then 128 + its number, else None."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.stop = threading.Event()
        self.exit_code: int | None = None
        self._tell = tell

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.stop.is_set():
            raise KeyboardInterrupt
        self.exit_code = 128 + number
        self.stop.set()
        self._tell("stopping after the trial at hand and confirming the best so far; once more to stop at once")


@contextmanager
def interruptible(tell: Callable[[str], None]) -> Iterator[Interrupt]:
    """Handles both signals inside the block; only in the main thread."""
    interrupt = Interrupt(tell)
    before = {number: signal.signal(number, interrupt.on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
