"""Which schedule a lookup serves, and what it never serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tuning_db.examples import DEVICE, POLICY, TARGET, TOOLCHAIN, confirmation, context, trial, workload
from tuner.outcome import Failure, FailureKind
from tuner.records import Confirmation
from tuning_db.canonical import spec_digest
from tuning_db.publish import standing
from tuning_db.repository import Repository
from tuning_db.views import LookupAnswer


def run(repository: Repository, run_id: str, agreed: Confirmation | None, **changes: Any) -> str | None:
    repository.open_run(context(run_id, **changes))
    for number in range(3):
        repository.record(run_id, trial(number))
    return None if agreed is None else repository.confirm(run_id, agreed)


def ask(repository: Repository, **changes: Any) -> LookupAnswer:
    question: dict[str, Any] = {"target": TARGET, "device_key": DEVICE["key"], "toolchain": TOOLCHAIN}
    if "digest" not in changes:
        question["workload_key"] = workload().key
    return repository.lookup(**{**question, **changes})


def test_a_confirmed_winner_is_served_by_key_and_by_spec(repository: Repository) -> None:
    winner = run(repository, "run-1", confirmation(1, 2.0))
    for answer in (ask(repository), ask(repository, digest=spec_digest(workload().spec))):
        assert answer.tier == "exact"
        assert answer.record is not None
        assert answer.record.id == winner
        assert answer.workload_key == workload().key


@pytest.mark.parametrize(
    ("second", "replaces"),
    [
        (confirmation(2, 3.0), True),
        (confirmation(2, 1.5), False),
        # Seen as faster in the middle, but so noisy that it may as well be slower: luck does not win.
        (confirmation(2, 2.2, spread=0.9), False),
        (confirmation(2, 0.5, verdict="slower"), False),
        (confirmation(None, 1.0, verdict="tie"), False),
    ],
)
def test_only_a_solidly_better_speedup_replaces_what_is_published(
    repository: Repository, second: Confirmation, replaces: bool
) -> None:
    first_id = run(repository, "run-1", confirmation(1, 2.0, spread=0.1))
    second_id = run(repository, "run-2", second)
    served = ask(repository).record
    assert served is not None
    assert served.id == (second_id if replaces else first_id)
    assert len(repository.list_records(only_published=True)) == 1


def test_a_winner_slower_than_untuned_is_kept_but_not_served(repository: Repository) -> None:
    winner = run(repository, "run-1", confirmation(1, 0.9, verdict="slower"))
    assert winner is not None
    answer = ask(repository)
    assert (answer.tier, answer.record) == ("miss", None)
    assert "3 trials in 1 run" in answer.reason
    assert repository.get_record(winner).published is None


def test_measured_but_not_confirmed_is_not_served(repository: Repository) -> None:
    run(repository, "run-1", None)
    assert ask(repository).tier == "miss"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device_key": "cpu-9999"}, "Example CPU [cpu-0011]"),
        ({"target": {"kind": "cuda", "arch": "sm_80"}}, "another target only (llvm mcpu=skylake num-cores=2)"),
        ({"target": {**TARGET, "num-cores": 4}}, "another target"),
        ({"toolchain": {**TOOLCHAIN, "tvm": "0.28.0"}}, "tvm 0.27.0.post1"),
        ({"digest": spec_digest(workload().spec), "toolchain": {"tvm": "0.28.0"}}, "tvm 0.27.0.post1"),
        ({"workload_key": "b" * 64}, "never tuned"),
        ({"digest": spec_digest({"op": "softmax"})}, "never tuned"),
    ],
)
def test_what_was_made_for_something_else_is_named_and_not_served(
    repository: Repository, changes: dict[str, Any], said: str
) -> None:
    run(repository, "run-1", confirmation(1, 2.0))
    answer = ask(repository, **changes)
    assert (answer.tier, answer.record) == ("miss", None)
    assert said in answer.reason
    assert "\n" not in answer.reason


def test_an_empty_database_says_so(repository: Repository) -> None:
    assert "nothing was tuned" in ask(repository).reason


def test_versions_that_leave_the_code_alone_are_not_compared(repository: Repository) -> None:
    winner = run(repository, "run-1", confirmation(1, 2.0), toolchain={**TOOLCHAIN, "python": "3.11.7"})
    run(repository, "run-2", confirmation(1, 1.5), toolchain={**TOOLCHAIN, "python": "3.12.1"})
    answer = ask(repository, toolchain={**TOOLCHAIN, "python": "3.13.0"})
    assert answer.record is not None
    assert answer.record.id == winner
    assert ask(repository, toolchain={**TOOLCHAIN, "something new": "1"}).tier == "miss"


def test_policies_do_not_compete(repository: Repository) -> None:
    first = run(repository, "run-1", confirmation(1, 3.0))
    second = run(repository, "run-2", confirmation(1, 2.0), policy="median-r3-s1ms-warm-c5")
    by_policy = {p: ask(repository, policy=p).record for p in (POLICY, "median-r3-s1ms-warm-c5", "never used")}
    assert [r and r.id for r in by_policy.values()] == [first, second, second]


def test_a_new_toolchain_starts_afresh_and_the_old_one_is_still_served(repository: Repository) -> None:
    newer = {**TOOLCHAIN, "tvm": "0.28.0"}
    old = run(repository, "run-1", confirmation(1, 3.0))
    new = run(repository, "run-2", confirmation(1, 1.1), toolchain=newer)
    got = [ask(repository, toolchain=t).record for t in (TOOLCHAIN, newer)]
    assert [r and r.id for r in got] == [old, new]


def test_a_spec_means_what_this_toolchain_last_made_of_it(repository: Repository) -> None:
    """The catalogue's definition changed: the old module's schedule is not served for the new one."""
    spec = {"op": "dense"}
    run(repository, "run-1", confirmation(1, 2.0), workload=workload("c" * 64, **spec))
    run(repository, "run-2", None, workload=workload("d" * 64, **spec))
    answer = ask(repository, digest=spec_digest(spec))
    assert (answer.tier, answer.workload_key) == ("miss", "d" * 64)


def test_two_specs_of_one_computation_share_its_schedule(repository: Repository) -> None:
    run(repository, "run-1", confirmation(1, 2.0), workload=workload(op="matmul"))
    run(repository, "run-2", None, workload=workload(op="module"))
    assert ask(repository, digest=spec_digest({"op": "module"})).tier == "exact"


def test_records_and_devices_are_listed(repository: Repository) -> None:
    run(repository, "run-1", confirmation(1, 2.0))
    repository.open_run(context("run-2", device={**DEVICE, "key": "cpu-2222"}, workload=workload("e" * 64, op="x")))
    failed = trial(9, Failure(FailureKind.BUILD_ERROR, "no"), measured_at=1_800_000_000.0)
    repository.record("run-2", failed)
    listed = repository.list_records()
    assert [(r.trial, r.kind) for r in listed] == [(9, "build_error"), (2, "ok"), (1, "ok"), (0, "ok")]
    assert [r.trial for r in listed if r.is_published] == [1]
    assert [r.trial for r in repository.list_records(device_key="cpu-2222")] == [9]
    assert [r.trial for r in repository.list_records(digest=spec_digest({"op": "x"}))] == [9]
    assert len(repository.list_records(limit=2)) == 2
    assert {(d.key, d.n_runs) for d in repository.list_devices()} == {("cpu-0011", 1), ("cpu-2222", 1)}


@given(st.lists(st.tuples(st.floats(1e-6, 10), st.floats(1e-6, 10)), min_size=1, max_size=40))
def test_the_interval_holds_the_speedup(pairs: list[tuple[float, float]]) -> None:
    candidate, baseline = zip(*pairs, strict=True)
    now = standing(candidate, baseline)
    assert 0 < now.speedup_low <= now.speedup <= now.speedup_high
    assert now.speedup_low >= min(b / c for c, b in pairs) * (1 - 1e-12)


def test_a_candidate_refuted_by_its_confirmation_loses_its_latency(repository: Repository) -> None:
    repository.open_run(context())
    ids = [repository.record(context().run_id, trial(number)) for number in (0, 1)]
    wrong = Failure(FailureKind.WRONG_ANSWER, "not the same in every run: output 'out' at [3]")
    found = confirmation(0, 2.0)
    repository.confirm(context().run_id, replace(found, refuted={1: wrong}))
    assert repository.get_record(ids[1]).outcome == wrong
    assert repository.get_record(ids[0]).outcome != wrong
