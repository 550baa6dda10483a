"""How candidates vary: fresh draws, mutation of one or more knobs, crossover within a space. Pure functions."""

from __future__ import annotations

import math

import numpy as np

from tuner.search.candidates import Candidate, Decision, Knob, Space

LOCATION_SPAN = 12  # compute locations seen in practice: -2 (inline), -1 (root), then loop indices
KNOB_WEIGHT = {"tile": 6.0, "choice": 2.0, "location": 2.0}


def random_candidate(spaces: tuple[Space, ...], rng: np.random.Generator) -> Candidate:
    """A candidate with every decision open, so that the child draws them all."""
    space = int(rng.integers(len(spaces)))
    return Candidate(space, (None,) * len(spaces[space].knobs), _seed(rng))


def mutate(candidate: Candidate, spaces: tuple[Space, ...], rng: np.random.Generator) -> Candidate:
    """Changes one knob, sometimes two or three. A space without knobs gives back an equal candidate."""
    knobs = spaces[candidate.space].knobs
    decisions = list(candidate.decisions)
    if knobs:
        weights = np.array([KNOB_WEIGHT[k.kind] for k in knobs])
        n_changes = min(len(knobs), 1 + int(rng.geometric(0.7)) - 1)
        picked = rng.choice(len(knobs), size=max(1, n_changes), replace=False, p=weights / weights.sum())
        for index in picked:
            decisions[index] = _mutate_decision(decisions[index], knobs[index], rng)
    return Candidate(candidate.space, tuple(decisions), _seed(rng))


def crossover(one: Candidate, other: Candidate, rng: np.random.Generator) -> Candidate:
    """Takes each knob from one of two parents of the same space.

    Tilings of different parents may not divide their loops any more; the child replaces such a tiling by a legal one.
    """
    if one.space != other.space:
        raise ValueError(f"crossover needs parents of one space, got {one.space} and {other.space}")
    take = rng.random(len(one.decisions)) < 0.5
    mixed = tuple(a if t else b for t, a, b in zip(take, one.decisions, other.decisions, strict=True))
    return Candidate(one.space, mixed, _seed(rng))


def _mutate_decision(decision: Decision, knob: Knob, rng: np.random.Generator) -> Decision:
    if knob.kind == "tile" and isinstance(decision, tuple):
        return _move_factor(decision, knob.limit, rng)
    if knob.kind == "choice" and isinstance(decision, int) and knob.limit > 1:
        return int((decision + 1 + rng.integers(knob.limit - 1)) % knob.limit)
    if knob.kind == "location":
        return int(rng.integers(-2, LOCATION_SPAN))
    return None


def _move_factor(factors: tuple[int, ...], innermost_limit: int, rng: np.random.Generator) -> Decision:
    """Moves one divisor from one level to another; the product stays. None (draw anew) when nothing can move.

    Code before and after, for i in 512: (8, 2, 4, 8) -> (8, 1, 8, 8).
    """
    for _ in range(8):
        source, sink = (int(i) for i in rng.choice(len(factors), size=2, replace=False))
        divisors = _divisors(factors[source])
        if len(divisors) < 2:
            continue
        moved = int(rng.choice(divisors[1:]))
        changed = list(factors)
        changed[source] //= moved
        changed[sink] *= moved
        if innermost_limit <= 0 or changed[-1] <= innermost_limit:
            return tuple(changed)
    return None


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return small + [n // d for d in reversed(small) if d * d != n]


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1, 2**31 - 1))
