"""The command's first lines. They import next to nothing, so that a Ctrl-C during the imports ends in one line too."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from service.cli import run
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
