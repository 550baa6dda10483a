"""A zygote for the tests of this folder that need a child they can lose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tuner.measure.worker import IsolatedWorker
from tuner.measure.zygote import Zygote


@pytest.fixture(scope="session")
def resolver() -> Iterator[IsolatedWorker]:
    with Zygote(1) as zygote, IsolatedWorker(zygote, jobs_per_worker=1000, extra_memory_bytes=1 << 30) as worker:
        yield worker
