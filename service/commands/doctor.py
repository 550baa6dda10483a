"""`tunesmith doctor`: checks what tuning here stands on."""

from __future__ import annotations

from service.exits import DONE
from service.options import DbOption, JsonOption


def doctor(db: DbOption = None, json: JsonOption = False) -> int:
    """Check versions, CPU, threads, noise and the database."""
    return DONE
