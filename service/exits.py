"""Exit codes, and the one line on stderr that goes with them."""

from __future__ import annotations

import contextlib
import sys

from tuner.errors import TunesmithError, UsageError

DONE = 0
FAILED = 1
BAD_USAGE = 2
STRICT_MISS = 3
INTERRUPTED = 130
"""128 + SIGINT, as shells have it; after SIGTERM it is 143."""


def exit_code(error: TunesmithError) -> int:
    return BAD_USAGE if isinstance(error, UsageError) else FAILED


def print_error(message: str) -> None:
    """Whatever the message holds, it is one line. Nobody may be there to read it: a closed terminal or pipe."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"error: {' '.join(message.split())}", file=sys.stderr, flush=True)
