"""Builders that time out or die, through real workers: each is one typed failure, and only the machine's is retried."""

from __future__ import annotations

import signal

import pytest

from tests.search import modules
from tuner.config import Limits
from tuner.measure.pool import WorkerPool
from tuner.measure.zygote import Zygote
from tuner.outcome import FailureKind
from tuner.search.builder import Builder


@pytest.fixture(scope="module")
def pool():
    with (
        Zygote(1, more_jobs={"space.build": "tests.search.dying_builds:build"}) as zygote,
        WorkerPool(zygote, 1, Limits()) as pool,
    ):
        yield pool


@pytest.fixture
def build(pool, tmp_path):
    def build(dies_of=signal.SIGKILL, times=0, timeout_s=30.0):
        lives = tmp_path / "lives"
        lives.write_bytes(b"x" * times)
        task = {**modules.task(modules.matmul()), "dies_of": int(dies_of), "lives": str(lives)}
        return Builder(pool, task, timeout_s)([None])[0], len(lives.read_bytes())

    return build


@pytest.mark.parametrize(
    ("dies_of", "times", "kind", "left"),
    [
        (signal.SIGKILL, 1, None, 0),  # the machine took it once: built at the second try
        (signal.SIGKILL, 3, FailureKind.WORKER_LOST, 1),
        (signal.SIGSEGV, 3, FailureKind.BUILD_ERROR, 2),  # the candidate's fault: never retried
    ],
)
def test_a_builder_that_dies_is_one_typed_failure(build, dies_of, times, kind, left):
    built, lives = build(dies_of, times)
    assert (built.failure and built.failure.kind, lives) == (kind, left)
    assert (built.sha256 is None, built.code == b"") == (kind is not None, kind is not None)
    if built.failure is not None:
        assert dies_of.name in built.failure.detail
    again, _ = build()
    assert again.failure is None


def test_a_build_that_takes_too_long_is_told_apart(build):
    built, _ = build(timeout_s=1e-4)
    assert built.failure is not None
    assert built.failure.kind is FailureKind.BUILD_TIMEOUT
    assert "0.0001 s" in built.failure.detail
