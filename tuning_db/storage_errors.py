"""Turns what a database driver raises into one StorageError line: what was wanted, what was got, what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tuner.errors import StorageError

_ADVICE = {
    sqlite3.SQLITE_BUSY: "is locked by another process that has been writing for {timeout:g} s; wait for it,"
    " or use another --db",
    sqlite3.SQLITE_LOCKED: "is locked by another connection; try again",
    sqlite3.SQLITE_READONLY: "can't be written; check its permissions and its directory's, or use another --db",
    sqlite3.SQLITE_CANTOPEN: "can't be opened or its journal can't be made; check that its directory exists and may be"
    " written, or use another --db",
    sqlite3.SQLITE_PERM: "may not be opened; check its permissions, or use another --db",
    sqlite3.SQLITE_FULL: "can't grow: the disk is full; free space and run again, everything stored before is kept",
    sqlite3.SQLITE_IOERR: "can't be read or written: the disk is full, over a limit or failing; free space or use"
    " another --db, everything stored before is kept",
    sqlite3.SQLITE_CORRUPT: "is damaged; save a copy, then recover it with: sqlite3 FILE .recover, or use another --db",
    sqlite3.SQLITE_NOTADB: "is not a database; name another file with --db",
}


@contextmanager
def storage_errors(name: str, doing: str, timeout_s: float) -> Iterator[None]:
    """`name` is the database as the user knows it, `doing` what failed ("open", "write to", "read")."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StorageError(f"can't {doing} database {name}: {_cause(error, timeout_s)}") from error
    except sqlite3.Error as error:
        raise StorageError(f"can't {doing} database {name}: {_sqlite_cause(error, timeout_s)}") from error


def _cause(error: SQLAlchemyError, timeout_s: float) -> str:
    if isinstance(error, DBAPIError) and isinstance(error.orig, sqlite3.Error):
        return _sqlite_cause(error.orig, timeout_s)
    origin = error.orig if isinstance(error, DBAPIError) else error
    return " ".join(str(origin).split())


def _sqlite_cause(error: sqlite3.Error, timeout_s: float) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
    detail = " ".join(str(error).split())
    advice = _ADVICE.get(code)
    return detail if advice is None else f"it {advice.format(timeout=timeout_s)} ({detail})"
