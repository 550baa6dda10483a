"""The three standard streams made safe: present, and never the reason why a run is lost."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _Channel(io.FileIO):
    """A descriptor that remembers its first failure; from then on, and always when `forgiving`, what can't be written
    is dropped.
    """

    def __init__(self, descriptor: int, *, forgiving: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.failure: OSError | None = None
        self._forgiving = forgiving

    def write(self, data: Any, /) -> int:
        size = memoryview(data).nbytes
        if self.failure is not None:
            return size
        try:
            written = super().write(data)
        except OSError as error:
            self.failure = error
            if not self._forgiving:
                raise
            return size
        return size if written is None and self._forgiving else written  # None: it would block


def make_streams_safe() -> None:
    """Once, at the start of a process.

    A closed stream becomes /dev/null: otherwise the next file that is opened, such as the database, takes its place.
    Characters that the stream's encoding lacks are escaped. A stderr that is full or closed early loses lines, no more.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  it lives as long as the process
    sys.stdout = _stream(1, sys.stdout, forgiving=False)
    sys.stderr = _stream(2, sys.stderr, forgiving=True)


def stdout_failure() -> OSError | None:
    """Why stdout can't be written any more; None while it can."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.failure if isinstance(raw, _Channel) else None


def _stream(descriptor: int, old: Any, *, forgiving: bool) -> io.TextIOWrapper:
    if old is not None:
        old.flush()
    raw = _Channel(descriptor, forgiving=forgiving)
    lines = forgiving or raw.isatty()
    encoding = "utf-8" if old is None else old.encoding
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, encoding=encoding, errors="backslashreplace", line_buffering=lines)
