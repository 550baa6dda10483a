"""A stream for news that nobody may be left to read: a run goes on when its terminal or pipe is closed."""

from __future__ import annotations

import contextlib
from typing import TextIO


class LastingStream:
    """Passes text on to `stream`, and drops what that can't take. None stands for a stream that was never open."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.encoding = "utf-8" if stream is None else stream.encoding

    def write(self, text: str) -> int:
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.flush()

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        """Raises OSError when there is no stream."""
        if self._stream is None:
            raise OSError("the stream is closed")
        return self._stream.fileno()
