"""Exit codes, and the one line on stderr that goes with them."""

from __future__ import annotations

import sys

from tuner.errors import TunesmithError, UsageError

DONE = 0
FAILED = 1
BAD_USAGE = 2
STRICT_MISS = 3
INTERRUPTED = 130
"""128 + SIGINT, as shells have it; after SIGTERM it is 143."""
_LONGEST_LINE = 900
_HEAD, _TAIL = 600, 200  # of a longer one: what went wrong is at its start, what to do at its end


def exit_code(error: TunesmithError) -> int:
    return BAD_USAGE if isinstance(error, UsageError) else FAILED


def print_error(message: str) -> None:
    """Whatever the message holds and quotes, it is one line, printable and short."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(message.split()))
    if len(line) > _LONGEST_LINE:
        line = f"{line[:_HEAD]} [...] {line[-_TAIL:]}"
    print(f"error: {line}", file=sys.stderr, flush=True)
