"""Evolutionary search in the main process: draws, mutates and crosses candidates, ranked by the cost model.

Everything random comes from one generator, and children answer in order, so a seed repeats its first batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tuner.config import SearchConfig
from tuner.outcome import Latency, Outcome
from tuner.search.candidates import Candidate, Decision, Scheduled, Space
from tuner.search.mutation import crossover, mutate, random_candidate

EXTRA_DRAWS = 4  # populations drawn at random before a space counts as exhausted
Schedule = Callable[[Sequence[Candidate]], list[Scheduled]]


class Ranker(Protocol):
    """What the search needs of tuner.cost_model."""

    def predict(self, features: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Higher is better; float64 [n]."""


class EvolutionarySearch:
    """Proposes batches of distinct candidates and learns from their outcomes.

    A candidate whose scheduled module equals one already proposed is never proposed again. Until something was
    measured it only draws: breeding towards the prior would narrow the first look.
    """

    def __init__(
        self,
        spaces: tuple[Space, ...],
        schedule: Schedule,
        ranker: Ranker,
        config: SearchConfig,
        rng: np.random.Generator,
    ) -> None:
        self._spaces = spaces
        self._schedule = schedule
        self._ranker = ranker
        self._config = config
        self._rng = rng
        self._proposed: set[int] = set()
        self._tried: set[tuple[int, tuple[Decision, ...]]] = set()
        self._reserve: list[Scheduled] = []
        self._measured: list[tuple[float, Scheduled]] = []

    def propose(self, count: int) -> list[tuple[Scheduled, float]]:
        """At most `count` new candidates, best predicted first, each with its predicted score.

        An empty list means that the space holds nothing new, as far as many populations' draws can tell.
        """
        if 8 * count <= min(len(self._reserve), self._config.population):
            return self._take(self._reserve, count)  # the tail of a budget: not worth a whole breeding
        population = self._first_generation()
        pool = {s.module_hash: s for s in population}
        for _ in range(self._config.generations if self._measured else 0):
            population = self._fittest(population)
            children = self._new(self._offspring(population))
            fresh = {c.module_hash: c for c in children if c.module_hash not in pool}
            pool.update(fresh)
            population = population + list(fresh.values())
        unseen = self._unseen(pool)
        for _ in range(EXTRA_DRAWS):
            if len(unseen) >= count:
                break
            drawn = self._new([random_candidate(self._spaces, self._rng) for _ in range(self._config.population)])
            pool.update((s.module_hash, s) for s in drawn)
            unseen = self._unseen(pool)
        return self._take(unseen, count)

    def observe(self, scheduled: Sequence[Scheduled], outcomes: Sequence[Outcome]) -> None:
        """Failures are not bred from; the fastest measured candidates seed the next generation."""
        for candidate, outcome in zip(scheduled, outcomes, strict=True):
            if isinstance(outcome, Latency):
                self._measured.append((outcome.median_s, candidate))
        self._measured.sort(key=lambda pair: pair[0])
        del self._measured[self._config.elites :]

    def _first_generation(self) -> list[Scheduled]:
        """The fastest measured, the best of what the last batch left, and fresh draws."""
        kept = [s for _, s in self._measured] + self._reserve
        n_fresh = max(
            self._config.population - len(kept), round(self._config.population * self._config.random_fraction)
        )
        drawn = self._new([random_candidate(self._spaces, self._rng) for _ in range(n_fresh)])
        return list({s.module_hash: s for s in kept + drawn}.values())

    def _new(self, candidates: Sequence[Candidate]) -> list[Scheduled]:
        """Schedules the candidates whose decisions were not tried before in this run."""
        untried = {}
        for c in candidates:
            if (c.space, c.decisions) not in self._tried:
                open_seed = c.seed if None in c.decisions else 0  # open decisions are drawn from the seed
                untried[c.space, c.decisions, open_seed] = c
        scheduled = self._schedule(list(untried.values()))
        self._tried.update((s.candidate.space, s.candidate.decisions) for s in scheduled)
        return scheduled

    def _take(self, unseen: list[Scheduled], count: int) -> list[tuple[Scheduled, float]]:
        chosen = self._choose(unseen, count)
        self._proposed.update(s.module_hash for s, _ in chosen)
        self._reserve = self._fittest([s for s in unseen if s.module_hash not in self._proposed])
        return chosen

    def _unseen(self, pool: dict[int, Scheduled]) -> list[Scheduled]:
        return [s for s in pool.values() if s.module_hash not in self._proposed]

    def _fittest(self, population: list[Scheduled]) -> list[Scheduled]:
        if len(population) <= self._config.population:
            return population
        scores = self._ranker.predict([s.features for s in population])
        keep = np.argsort(-scores, kind="stable")[: self._config.population]
        return [population[i] for i in keep]

    def _offspring(self, population: list[Scheduled]) -> list[Candidate]:
        if not population:
            return []
        scores = self._ranker.predict([s.features for s in population])
        ranks = np.argsort(np.argsort(-scores, kind="stable"), kind="stable")
        weights = 1.0 / (10.0 + ranks)  # rank-based, so that the model's scale does not matter
        parents = self._rng.choice(len(population), size=self._config.population, p=weights / weights.sum())
        by_space: dict[int, list[Scheduled]] = {}
        for s in population:
            by_space.setdefault(s.candidate.space, []).append(s)
        children = []
        for index in parents:
            parent = population[int(index)].candidate
            mates = by_space[parent.space]
            if len(mates) > 1 and self._rng.random() < self._config.crossover_fraction:
                mate = mates[int(self._rng.integers(len(mates)))].candidate
                children.append(crossover(parent, mate, self._rng))
            else:
                children.append(mutate(parent, self._spaces, self._rng))
        return children

    def _choose(self, unseen: list[Scheduled], count: int) -> list[tuple[Scheduled, float]]:
        """The best predicted, but a share `epsilon` drawn at random so that the model meets what it doubts."""
        if not unseen:
            return []
        scores = self._ranker.predict([s.features for s in unseen])
        order = np.argsort(-scores, kind="stable")
        n_random = round(count * self._config.epsilon)
        greedy, rest = order[: max(count - n_random, 0)], order[max(count - n_random, 0) :]
        random = self._rng.permutation(rest)[: count - len(greedy)]
        return [(unseen[int(i)], float(scores[int(i)])) for i in (*greedy, *random)]
