"""Real design spaces in real children: they repeat everywhere, survive JSON, and fall back to labelled defaults."""

import json

import numpy as np
import pytest

from tests.search import modules
from tuner.config import Limits, SearchConfig
from tuner.measure.pool import WorkerPool
from tuner.measure.zygote import Zygote
from tuner.outcome import FailureKind
from tuner.search import space_jobs
from tuner.search.builder import Builder
from tuner.search.candidates import Candidate, decisions_from_wire, spaces_from_wire
from tuner.search.evaluator import Evaluator
from tuner.search.evolution import EvolutionarySearch
from tuner.search.mutation import crossover, mutate, random_candidate
from tuner.tvm_api import Schedule, structural_hash, tirx


class Blind:
    def predict(self, features):
        return np.array([-float(f.sum()) for f in features])


def closed_candidates(task, count, seed=0):
    spaces = spaces_from_wire(space_jobs.open_job(task)["spaces"])
    rng = np.random.default_rng(seed)
    drawn = [random_candidate(spaces, rng) for _ in range(count)]
    answers = space_jobs.evaluate_job(task, [c.to_wire() for c in drawn])
    closed = [
        Candidate(c.space, decisions_from_wire(a["decisions"]), c.seed) for c, a in zip(drawn, answers, strict=True)
    ]
    return spaces, closed, answers


def test_closed_decisions_replay_to_the_same_schedule_whatever_the_seed():
    task = modules.task(modules.matmul())
    _, closed, answers = closed_candidates(task, 12)
    again = space_jobs.evaluate_job(task, [{**c.to_wire(), "seed": c.seed + 1} for c in closed])
    assert [a["module_hash"] for a in again] == [a["module_hash"] for a in answers]
    assert [tuple(map(_hashable, a["decisions"])) for a in again] == [c.decisions for c in closed]
    assert len({a["module_hash"] for a in answers}) > 6


def test_mutated_and_crossed_candidates_are_legal_schedules():
    task = modules.task(modules.matmul())
    spaces, closed, _ = closed_candidates(task, 12)
    rng = np.random.default_rng(1)
    children = [mutate(c, spaces, rng) for c in closed for _ in range(3)]
    children += [crossover(a, b, rng) for a in closed for b in closed if a.space == b.space]
    answers = space_jobs.evaluate_job(task, [c.to_wire() for c in children])
    refused = [a for a in answers if "refused" in a]
    assert len(refused) <= 0.1 * len(answers)
    assert all(a["features"].shape[1] == 164 for a in answers if "features" in a)


def test_a_stored_trace_replays_onto_the_stored_module():
    task = modules.task(modules.matmul())
    _, closed, answers = closed_candidates(task, 4)
    for candidate, answer in zip(closed, answers, strict=True):
        built = space_jobs.build_job(task, candidate.to_wire())
        stored = json.loads(json.dumps({"trace": built["trace_json"]}))["trace"]
        assert structural_hash(space_jobs.apply_trace(task["module_json"], stored)) == answer["module_hash"]
        assert space_jobs.rebuild_job(task, stored)["object"] == built["object"]


@pytest.mark.parametrize("make", [modules.accumulate_in_place, modules.triangular_sum])
def test_what_the_rules_cannot_touch_gets_labelled_defaults(make):
    opened = space_jobs.open_job(modules.task(make(), key=make.__name__))
    assert opened["level"] == "default"
    assert opened["notes"]
    assert all(knobs == [] for knobs in opened["spaces"])


@pytest.mark.parametrize("level", ["rules", "default"])
def test_a_scatter_add_is_never_offered_in_parallel(level):
    task = modules.task(modules.scatter_add(), level=level, key="scatter")
    spaces = spaces_from_wire(space_jobs.open_job(task)["spaces"])
    rng = np.random.default_rng(0)
    clearing = set()
    for candidate in [random_candidate(spaces, rng) for _ in range(16)]:
        built = space_jobs.build_job(task, candidate.to_wire())
        scheduled = Schedule(space_jobs.apply_trace(task["module_json"], built["trace_json"]))
        adding = [scheduled.get(loop).kind for loop in scheduled.get_loops(scheduled.get_sblock("add"))]
        assert set(adding) <= {tirx.ForKind.SERIAL, tirx.ForKind.UNROLLED}
        clearing |= {scheduled.get(loop).kind for loop in scheduled.get_loops(scheduled.get_sblock("clear"))}
    assert tirx.ForKind.PARALLEL in clearing  # that loop may be, so the check above sees parallel loops


def test_a_layout_transform_survives_storing_and_what_can_not_is_refused_by_its_own_error():
    module = modules.matmul()
    schedule = Schedule(module)
    schedule.annotate(schedule.get_sblock("C"), "note", "text")
    schedule.transform_layout(schedule.get_sblock("C"), ("read", 1), lambda i, j: (j, i))
    stored = json.loads(json.dumps(space_jobs.trace_to_json(schedule.trace)))
    replayed = space_jobs.apply_trace(modules.task(module)["module_json"], stored)
    assert structural_hash(replayed) == structural_hash(schedule.mod)
    schedule.annotate(schedule.get_sblock("C"), "map", {"key": 1})
    with pytest.raises(TypeError, match="does not survive JSON"):
        space_jobs.trace_to_json(schedule.trace)


def test_show_gives_both_modules_and_the_assembly():
    task = modules.task(modules.matmul())
    _, closed, _ = closed_candidates(task, 1)
    trace = space_jobs.build_job(task, closed[0].to_wire())["trace_json"]
    before, after, source = (space_jobs.show_job(task, trace, what)["text"] for what in ("before", "after", "source"))
    assert "T.parallel" not in before
    assert before != after
    assert ".text" in source


@pytest.fixture(scope="module")
def zygote():
    with Zygote(2) as z:
        yield z


def first_batch(zygote, n_workers, seed):
    task = modules.task(modules.matmul())
    with WorkerPool(zygote, n_workers, Limits()) as pool:
        opened = pool.map("space.open", [{"task": task}], 60)[0]
        config = SearchConfig(population=24, generations=1)
        rng = np.random.default_rng(seed)
        evaluator = Evaluator(pool, task)
        search = EvolutionarySearch(spaces_from_wire(opened["spaces"]), evaluator, Blind(), config, rng)
        return [(c.candidate, score) for c, score in search.propose(12)]


def test_the_same_seed_gives_the_same_first_batch_with_any_number_of_workers(zygote):
    assert first_batch(zygote, 1, 7) == first_batch(zygote, 2, 7)
    assert first_batch(zygote, 2, 7) != first_batch(zygote, 2, 8)


def test_a_candidate_that_kills_its_worker_is_dropped_and_the_others_stay(zygote):
    task = modules.task(modules.matmul())
    _, closed, _ = closed_candidates(task, 6)
    bad = Candidate(99, (1, 2), 3)  # no such space: the job raises
    with WorkerPool(zygote, 2, Limits()) as pool:
        evaluator = Evaluator(pool, task)
        scheduled = evaluator([*closed[:3], bad, *closed[3:]])
        assert [s.candidate for s in scheduled] == closed
        assert (evaluator.lost, evaluator.refused) == (1, 0)
        built = Builder(pool, task, 30)([closed[0], bad])
    assert built[0].failure is None
    assert built[0].sha256
    assert built[1].failure is not None
    assert built[1].failure.kind is FailureKind.BUILD_ERROR


def _hashable(decision):
    return tuple(decision) if isinstance(decision, list | tuple) else decision
