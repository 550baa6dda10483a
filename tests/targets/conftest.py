"""One zygote for the tests of this folder that need TVM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tuner.measure.worker import IsolatedWorker
from tuner.measure.zygote import Zygote

N_THREADS = 2
JOBS = {
    "test.catalogue": "tuner.targets.llvm:catalogue_job",
    "test.disassemble": "tests.targets.child_jobs:disassemble",
    "test.placement": "tests.targets.child_jobs:placement",
    "test.late_starter": "tests.targets.child_jobs:time_late_starter",
    "test.check_all": "tests.targets.child_jobs:check_all",
}


@pytest.fixture(scope="package")
def zygote() -> Iterator[Zygote]:
    with Zygote(N_THREADS, more_jobs=JOBS) as zygote:
        zygote.start()
        yield zygote


@pytest.fixture
def worker(zygote: Zygote) -> Iterator[IsolatedWorker]:
    with IsolatedWorker(zygote, jobs_per_worker=100, extra_memory_bytes=1 << 30) as worker:
        yield worker
