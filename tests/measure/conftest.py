"""One zygote for the tests of this folder; each test gets workers of its own."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from tests.measure import faults
from tuner.measure.worker import IsolatedWorker
from tuner.measure.zygote import Zygote

# Not imported from kernels.py: that needs TVM, which belongs in children.
KERNEL_JOBS = {n: f"tests.measure.kernels:{n}" for n in ("affine_workload", "kernel", "normalised_workload", "untuned")}
MODULE_JOBS = {"odd_module": "tests.measure.odd_modules:odd_module"}


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote(2, more_jobs={**faults.JOBS, **KERNEL_JOBS, **MODULE_JOBS}) as zygote:
        zygote.start()
        yield zygote
    assert not psutil.Process().children(recursive=True)


@pytest.fixture
def worker(zygote: Zygote) -> Iterator[IsolatedWorker]:
    with IsolatedWorker(zygote, jobs_per_worker=100, extra_memory_bytes=1 << 29) as worker:
        yield worker
