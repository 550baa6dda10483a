"""The search on a toy space that is known whole: it repeats, never repeats itself, ends, and finds the optimum."""

import numpy as np

from tuner.config import SearchConfig
from tuner.outcome import Failure, FailureKind, Latency
from tuner.search.candidates import Candidate, Knob, Scheduled, Space
from tuner.search.evolution import EvolutionarySearch

SPACES = (Space((Knob("choice", 8), Knob("choice", 8), Knob("choice", 4))), Space((Knob("choice", 5),)))
CONFIG = SearchConfig(population=24, generations=2, elites=8)


def schedule(candidates):
    """Closes open decisions from the seed and describes a candidate by its decisions; choice 7 is illegal."""
    scheduled = []
    for c in candidates:
        rng = np.random.default_rng(c.seed)
        knobs = SPACES[c.space].knobs
        drawn = tuple(int(rng.integers(k.limit)) if d is None else d for k, d in zip(knobs, c.decisions, strict=True))
        if 7 not in drawn:
            row = np.array([[c.space, *drawn, *([0] * (3 - len(drawn)))]], dtype=np.float32)
            scheduled.append(Scheduled(Candidate(c.space, drawn, c.seed), hash((c.space, drawn)), row))
    return scheduled


def true_latency(scheduled: Scheduled) -> float:
    space, *decisions = scheduled.features[0]
    return 1.0 + abs(decisions[0] - 5) + abs(decisions[1] - 2) + abs(decisions[2] - 1) + 2 * space


class Oracle:
    def predict(self, features):
        return np.array([-true_latency(Scheduled(Candidate(0, (), 0), 0, f)) for f in features])


class Blind:
    def predict(self, features):
        return np.zeros(len(features))


def search(seed=0, ranker=None, config=CONFIG):
    return EvolutionarySearch(SPACES, schedule, ranker or Blind(), config, np.random.default_rng(seed))


def test_the_same_seed_gives_the_same_batches_and_another_seed_others():
    def batches(seed):
        s = search(seed)
        out = []
        for _ in range(2):
            batch = [c for c, _ in s.propose(10)]
            s.observe(batch, [Latency((true_latency(c),)) for c in batch])
            out.append([c.module_hash for c in batch])
        return out

    assert batches(3) == batches(3)
    assert batches(3) != batches(4)


def test_nothing_is_proposed_twice_and_an_exhausted_space_ends():
    s = search()
    seen: list[int] = []
    batch = [c for c, _ in s.propose(16)]
    while batch:
        seen += [c.module_hash for c in batch]
        s.observe(batch, [Latency((true_latency(c),)) for c in batch])
        batch = [c for c, _ in s.propose(16)]
    assert len(seen) == len(set(seen))
    legal = 7 * 7 * 4 + 5
    assert 0.9 * legal <= len(seen) <= legal


def test_the_best_predicted_come_first_and_epsilon_adds_others():
    def scores(epsilon):
        config = SearchConfig(population=24, generations=4, elites=8, epsilon=epsilon)
        return [score for _, score in search(ranker=Oracle(), config=config).propose(8)]

    greedy, curious = scores(0.0), scores(0.25)
    assert greedy == sorted(greedy, reverse=True)
    assert greedy[0] == -1.0  # the optimum, found among 201 points
    assert curious[:6] == greedy[:6]
    assert len(curious) == 8
    assert sum(curious[6:]) < sum(greedy[6:])


def test_the_search_closes_in_on_what_was_measured_fast_and_does_not_breed_failures():
    s = search(ranker=Oracle(), config=SearchConfig(population=24, generations=4, elites=8))
    failures = []
    for _ in range(4):
        batch = [c for c, _ in s.propose(8)]
        outcomes = []
        for c in batch:
            wrong = c.candidate.space == 1
            failures.append(c.module_hash) if wrong else None
            outcomes.append(Failure(FailureKind.WRONG_ANSWER, "x") if wrong else Latency((true_latency(c),)))
        s.observe(batch, outcomes)
    assert not set(failures) & {c.module_hash for _, c in s._measured}
    assert s._measured[0][0] == 1.0
