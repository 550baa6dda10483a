"""A build job that dies, for the tests: takes the place of the real one in the test zygote's table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tuner.search import space_jobs


def build(task: dict[str, Any], candidate: dict[str, Any] | None) -> dict[str, Any]:
    """Dies of `task["dies_of"]` as long as the file `task["lives"]` has bytes, one less each time."""
    lives = Path(task["lives"])
    if left := lives.read_bytes():
        lives.write_bytes(left[1:])
        os.kill(os.getpid(), task["dies_of"])
    return space_jobs.build_job(task, candidate)
