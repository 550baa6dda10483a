"""Properties of the search's moves: tilings keep their product, everything repeats from a seed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.candidates import Candidate, Knob, Space
from tuner.search.mutation import crossover, mutate, random_candidate

factors = st.lists(st.sampled_from([1, 2, 3, 4, 7, 8, 64]), min_size=2, max_size=4).map(tuple)
seeds = st.integers(0, 2**31)


@given(factors, seeds)
def test_a_mutated_tiling_keeps_its_product_and_its_innermost_limit(tiling, seed):
    limit = 64
    space = Space((Knob("tile", limit),))
    mutated = mutate(Candidate(0, (tiling,), 1), (space,), np.random.default_rng(seed)).decisions[0]
    if mutated is not None:
        assert math.prod(mutated) == math.prod(tiling)
        assert mutated != tiling
        assert mutated[-1] <= limit


@given(st.integers(2, 9), seeds)
def test_a_mutated_choice_is_another_one_in_range(n_choices, seed):
    space = Space((Knob("choice", n_choices),))
    mutated = mutate(Candidate(0, (1,), 1), (space,), np.random.default_rng(seed)).decisions[0]
    assert mutated in range(n_choices)
    assert mutated != 1


@given(seeds)
def test_moves_repeat_from_their_seed(seed):
    spaces = (Space((Knob("tile", 64), Knob("choice", 4))), Space((Knob("location", 0),)))

    def moves():
        rng = np.random.default_rng(seed)
        drawn = random_candidate(spaces, rng)
        closed = Candidate(0, ((2, 4), 3), 5)
        return drawn, mutate(closed, spaces, rng), crossover(closed, Candidate(0, ((8, 1), 0), 6), rng)

    assert moves() == moves()


def test_a_space_without_knobs_mutates_to_itself():
    mutated = mutate(Candidate(0, (), 1), (Space(()),), np.random.default_rng(0))
    assert (mutated.space, mutated.decisions) == (0, ())


def test_crossover_takes_every_knob_from_one_of_its_parents():
    one, other = Candidate(0, (1, 2, 3, 4), 1), Candidate(0, (5, 6, 7, 8), 2)
    children = [crossover(one, other, np.random.default_rng(s)).decisions for s in range(30)]
    assert all(c[i] in (one.decisions[i], other.decisions[i]) for c in children for i in range(4))
    assert len(set(children)) > 3


def test_crossover_refuses_parents_of_different_spaces():
    with pytest.raises(ValueError, match="one space"):
        crossover(Candidate(0, (), 1), Candidate(1, (), 1), np.random.default_rng(0))
