from __future__ import annotations

import threading
import time

import pytest

from tuner.config import Limits
from tuner.errors import JobRaised, WorkerDied, WorkerTimeout
from tuner.measure.pool import WorkerPool


@pytest.fixture
def pool(zygote):
    with WorkerPool(zygote, 2, Limits()) as pool:
        yield pool


def test_answers_come_in_order_and_workers_persist(pool):
    seen = []
    answers = pool.map("echo", [{"x": i} for i in range(20)], 10, lambda i, answer: seen.append(i))
    assert answers == [{"x": i} for i in range(20)]
    assert sorted(seen) == list(range(20))
    pids = set(pool.pids)
    pool.map("echo", [{"x": i} for i in range(20)], 10)
    assert set(pool.pids) == pids
    assert pool.map("echo", [], 10) == []


@pytest.mark.parametrize(("job", "kind"), [("segfault", WorkerDied), ("hang", WorkerTimeout), ("busy", WorkerTimeout)])
def test_a_lost_worker_is_replaced(pool, job, kind):
    assert isinstance(pool.map(job, [{}], 0.3)[0], kind)
    assert pool.map("echo", [{"x": 1}, {"x": 2}], 10) == [{"x": 1}, {"x": 2}]


def test_a_failing_item_hurts_no_other(pool):
    mixed = pool.map("die_by", [{"signal_number": 9}, {"bad": 1}, {"signal_number": 11}], 5)
    assert [type(answer) for answer in mixed] == [WorkerDied, JobRaised, WorkerDied]


def test_an_interrupt_ends_the_map_at_once(pool):
    def interrupt(index, answer):
        raise KeyboardInterrupt

    start = time.monotonic()
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        pool.map("echo", [{"x": 1}], 10, interrupt)
    # One item answers, the other is busy when the interrupt comes.
    with pytest.raises(KeyboardInterrupt):
        pool.map("sleep_for", [{"seconds": 0.05}, {"seconds": 60}], 100, interrupt)
    assert time.monotonic() - start < 5
    assert threading.active_count() == before
    assert pool.map("echo", [{"x": 1}], 10) == [{"x": 1}]
