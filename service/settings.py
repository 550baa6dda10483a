"""The only file that reads the environment.

TUNESMITH_DB         the database: sqlite:///FILE or a path; by default tunesmith.db in the user's data directory
TUNESMITH_CACHE_DIR  what may be deleted, such as measured peaks; by default the user's cache directory
TUNESMITH_TRACEBACK  not empty: an error nobody foresaw shows where it came from
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

APP = "tunesmith"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    db_url: str
    cache_dir: Path
    wants_traceback: bool

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """An empty variable counts as unset."""
        return cls(
            db_url=environment.get("TUNESMITH_DB") or str(Path(platformdirs.user_data_dir(APP)) / "tunesmith.db"),
            cache_dir=Path(environment.get("TUNESMITH_CACHE_DIR") or platformdirs.user_cache_dir(APP)).expanduser(),
            wants_traceback=bool(environment.get("TUNESMITH_TRACEBACK")),
        )
