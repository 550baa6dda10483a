"""`tunesmith replay`: rebuilds, re-validates and re-times a record, and compares it with what is stored."""

from __future__ import annotations

from typing import Annotated

import typer

from service.exits import DONE
from service.options import DbOption, JsonOption


def replay(
    record: Annotated[str, typer.Argument(metavar="RECORD", help="A record's id, or its first digits.")],
    db: DbOption = None,
    json: JsonOption = False,
) -> int:
    """Build a record again, prove and time it, and compare with what is stored."""
    return DONE
