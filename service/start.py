"""The command's first lines. They import next to nothing, so that a Ctrl-C during the imports ends in one line too."""

from __future__ import annotations

import sys

from service.streams import make_streams_safe


def main() -> None:
    try:
        make_streams_safe()
        from service.cli import run
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
