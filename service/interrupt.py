"""Ctrl-C, SIGTERM and a closed terminal while tuning: the first asks the run to stop, the second ends it at once."""

from __future__ import annotations

import contextlib
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
        # A handler may run in the middle of another write to the same stream, which then refuses.
        with contextlib.suppress(RuntimeError):
            self._tell("stopping after the step at hand, then confirming the best so far; once more to stop at once")


@contextmanager
def interruptible(tell: Callable[[str], None]) -> Iterator[Interrupt]:
    """Handles the signals inside the block; only in the main thread. Under nohup a closed terminal stops nothing."""
    interrupt = Interrupt(tell)
    heard = {signal.SIGINT, signal.SIGTERM}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heard.add(signal.SIGHUP)
    before = {number: signal.signal(number, interrupt.on_signal) for number in heard}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
