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

from tuner.errors import TunesmithError

APP = "tunesmith"


class SettingsError(TunesmithError):
    """The environment asks for what can't be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    db_url: str
    cache_dir: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """An empty variable counts as unset.

        Raises:
            SettingsError: a directory of a user that this machine doesn't have.
        """
        return cls(
            db_url=environment.get("TUNESMITH_DB") or str(Path(platformdirs.user_data_dir(APP)) / "tunesmith.db"),
            cache_dir=_expanded(environment.get("TUNESMITH_CACHE_DIR") or platformdirs.user_cache_dir(APP)),
        )


def wants_traceback(environment: Mapping[str, str] = os.environ) -> bool:
    return bool(environment.get("TUNESMITH_TRACEBACK"))


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"can't use the cache directory {name!r}: {error}; write out the directory") from error
