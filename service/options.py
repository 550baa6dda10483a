"""Options that several commands share, each with one meaning."""

from __future__ import annotations

from typing import Annotated

import typer

from service.settings import Settings
from tuning_db.engine import open_database
from tuning_db.repository import Repository

WorkloadsArgument = Annotated[
    list[str],
    typer.Argument(metavar="WORKLOAD", help="e.g. matmul:m=512,n=512,k=512, its JSON form, or module:FILE.json."),
]
TargetOption = Annotated[
    str, typer.Option("--target", metavar="T", help="native, a tag, TVM's JSON, or e.g. 'llvm -mcpu=skylake'.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs on stdout.")]
DbOption = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="sqlite:///FILE or a path; by default $TUNESMITH_DB or the user's own."),
]


def database_url(db: str | None) -> str:
    """The database the user means: --db, else the environment's, else the user's own."""
    return Settings.from_environment().db_url if db is None else db


def open_repository(db: str | None) -> Repository:
    """Opens the database that `database_url` names; makes it if it isn't there.

    Raises:
        StorageError: it can't be opened.
    """
    return Repository(open_database(database_url(db)))
