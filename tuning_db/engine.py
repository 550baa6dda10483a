"""Opens a database: SQLite in one file, made on first use. Every failure is one StorageError line.

WAL mode, so that lookups never wait for a running tune. synchronous=FULL: a commit is on the disk when it returns, and
survives kill -9 and a power cut; its fsync costs a few milliseconds beside a trial's hundreds. A writer takes the write
lock at BEGIN (IMMEDIATE), so two processes queue up instead of failing halfway.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, inspect, select, text

from tuner.errors import StorageError
from tuning_db.canonical import canonical_json
from tuning_db.models import SCHEMA_VERSION, metadata, schema_version
from tuning_db.storage_errors import storage_errors

BUSY_TIMEOUT_S = 20.0
_SQLITE = "sqlite:///"


class Database:
    """An opened database whose schema fits this program. A connection is borrowed for one read or one write."""

    def __init__(self, engine: Engine, name: str, busy_timeout_s: float) -> None:
        self.name = name
        self._engine = engine
        self._writing = engine.execution_options(tunesmith_write=True)
        self._busy_timeout_s = busy_timeout_s
        self._file = _identity(name)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent view that blocks nobody.

        Raises:
            StorageError: the file was damaged, removed or locked.
        """
        with storage_errors(self.name, "read", self._busy_timeout_s), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction: committed and durable when the block ends, undone when it raises.

        Raises:
            StorageError: locked for longer than the busy timeout, full, read-only or damaged; nothing was written.
        """
        with storage_errors(self.name, "write to", self._busy_timeout_s), self._writing.begin() as connection:
            yield connection
            self._require_the_same_file()

    def _require_the_same_file(self) -> None:
        """SQLite goes on writing to a file that was deleted or replaced, where nobody would find the records."""
        if _identity(self.name) != self._file:
            raise StorageError(
                f"can't write to database {self.name}: the file was deleted or replaced while in use; "
                "what was stored before is in the old file"
            )

    def damage(self) -> str | None:
        """Reads the whole file once; what is wrong with it in one line, None when it is sound."""
        try:
            with self.read() as connection:
                found = connection.execute(text("PRAGMA quick_check(1)")).scalar_one()
        except StorageError as error:
            return str(error)
        return None if found == "ok" else " ".join(str(found).split())

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _identity(path: str) -> tuple[int, int] | None:
    """Device and inode of the file; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_database(url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Database:
    """Opens, or makes, the database at `url`: "sqlite:///FILE" (four slashes for an absolute path) or a plain path.

    Raises:
        StorageError: can't be opened, made or understood, or its schema is newer than this program.
    """
    path = _sqlite_path(url)
    _check_path(path)
    engine = _sqlite_engine(path, busy_timeout_s)
    try:
        with storage_errors(str(path), "open", busy_timeout_s):
            _ensure_schema(engine, path)
    except BaseException:
        engine.dispose()
        raise
    return Database(engine, str(path), busy_timeout_s)


def _sqlite_path(url: str) -> Path:
    if "://" not in url and not url.startswith("sqlite:"):
        name = url
    elif url.startswith(_SQLITE):
        name = url.removeprefix(_SQLITE)
    else:
        scheme = url.split(":", 1)[0]
        hint = "" if scheme != "sqlite" else " with three slashes before a relative path, four before an absolute one"
        raise StorageError(f"can't open a {scheme!r} database: want sqlite:///FILE{hint}, or a path")
    if name in ("", ":memory:"):
        raise StorageError(f"database {url!r} names no file, so nothing would be kept; want sqlite:///FILE or a path")
    if "\0" in name:
        raise StorageError(f"can't open database {name!r}: a file name has no null byte; name another file with --db")
    try:
        name.encode()
    except UnicodeEncodeError:  # SQLite's URIs are UTF-8
        raise StorageError(f"can't open database {name!a}: its name is not UTF-8; use another --db") from None
    try:
        return Path(name).expanduser().absolute()
    except FileNotFoundError as error:
        raise StorageError(
            f"can't open database {name!r}: the working directory is gone; use an absolute path"
        ) from error
    except RuntimeError as error:  # ~somebody unknown
        raise StorageError(f"can't open database {name!r}: {error}; write out the directory") from error


def _check_path(path: Path) -> None:
    """Says plainly what SQLite would call "unable to open database file"; makes the parent directory."""
    try:
        if path.is_dir():
            raise StorageError(
                f"can't open database {path}: it is a directory; name a file in it, e.g. {path}/tunesmith.db"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StorageError(
            f"can't make the directory of database {path}: {reason.lower()}; use another --db"
        ) from error


def _sqlite_engine(path: Path, busy_timeout_s: float) -> Engine:
    # A file: URI keeps names with '?', '#' and '%' what they are.
    engine = create_engine(
        URL.create("sqlite", database=f"file:{quote(str(path.absolute()))}", query={"uri": "true"}),
        json_serializer=canonical_json,
        connect_args={"timeout": busy_timeout_s, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        _use_wal(connection, busy_timeout_s)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("tunesmith_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _use_wal(connection: sqlite3.Connection, timeout_s: float) -> None:
    """SQLite does not wait for its busy timeout when the journal mode changes; two first openers must."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _ensure_schema(engine: Engine, path: Path) -> None:
    with engine.connect() as connection:
        version = _stored_version(connection, path)
    if version is None:
        with engine.execution_options(tunesmith_write=True).begin() as connection:
            version = _stored_version(connection, path)  # another process may have made it meanwhile
            if version is None:
                metadata.create_all(connection)
                made = {"id": 1, "version": SCHEMA_VERSION, "created_at_s": time.time()}
                connection.execute(insert(schema_version).values(made))
                return
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"database {path} has schema {version}, this tunesmith knows up to {SCHEMA_VERSION};"
            " upgrade it (pip install --upgrade tunesmith), or use another --db"
        )
    if version < SCHEMA_VERSION:
        raise StorageError(
            f"database {path} has schema {version}, this tunesmith needs {SCHEMA_VERSION}; use another --db"
        )


def _stored_version(connection: Connection, path: Path) -> int | None:
    """None for an empty database.

    Raises:
        StorageError: it is an SQLite file of some other program.
    """
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    if schema_version.name not in tables:
        raise StorageError(
            f"database {path} belongs to another program (it has tables {', '.join(tables[:3])});"
            " name another file with --db"
        )
    version: int | None = connection.scalar(select(schema_version.c.version))
    if version is None:
        raise StorageError(f"database {path} has no schema version, so it can't be understood; use another --db")
    return version
