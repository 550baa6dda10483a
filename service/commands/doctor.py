"""`tunesmith doctor`: checks what tuning here stands on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from service.exits import DONE, FAILED
from service.options import DbOption, JsonOption, database_url
from service.render import new_table, print_json, print_out
from tuner.errors import StorageError
from tuning_db.engine import open_database
from tuning_db.repository import Repository

if TYPE_CHECKING:
    from tuner.targets.doctor import Check

HARD = frozenset({"tvm", "threads", "cpu", "disk", "database"})
"""Without these nothing can be tuned or stored; the others cost quality."""


def doctor(db: DbOption = None, json: JsonOption = False) -> int:
    """Check versions, CPU, threads, noise and the database. Exits with 1 when tuning can't work here."""
    from tuner.targets.doctor import run_checks  # what it needs is not needed by the other commands

    url = database_url(db)
    database, folder = _check_database(url)
    checks = [*run_checks(folder), database]
    broken = [c for c in checks if not c.ok and c.name in HARD]
    if json:
        print_json({"ok": not broken, "checks": [{**c.to_dict(), "hard": c.name in HARD} for c in checks]})
    else:
        table = new_table("", "check", "found", "what to do")
        for check in checks:
            mark = "ok" if check.ok else ("FAIL" if check.name in HARD else "warn")
            table.add_row(mark, check.name, check.detail, check.hint)
        print_out(table)
    return FAILED if broken else DONE


def _check_database(url: str) -> tuple[Check, Path | None]:
    """The check, and the folder that it lies in where that is known."""
    from tuner.targets.doctor import Check

    try:
        with open_database(url) as database:
            problem = database.damage()
            n_records = Repository(database).count_records()
            folder = Path(database.name).parent
    except StorageError as error:
        return Check(name="database", ok=False, detail=str(error), hint="give another place with --db"), None
    if problem is not None:
        hint = "save a copy, then recover it with: sqlite3 FILE .recover"
        return Check(name="database", ok=False, detail=f"{database.name} is damaged: {problem}", hint=hint), folder
    return Check(name="database", ok=True, detail=f"{database.name}, {n_records} records"), folder
