"""Runs, trials and confirmations made by hand, and an opened repository on a real SQLite file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tuning_db.engine import open_database
from tuning_db.repository import Repository


@pytest.fixture
def db_path(tmp_path: Path) -> Path:
    return tmp_path / "tunesmith.db"


@pytest.fixture
def repository(db_path: Path) -> Iterator[Repository]:
    with open_database(f"sqlite:///{db_path}") as database:
        yield Repository(database)
