from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.measure.stats import Estimate, choose_winner, median_with_ci, paired_speedup, verdict

latency = st.floats(1e-7, 10.0)
samples = st.lists(latency, min_size=1, max_size=20)
settings.register_profile("few", max_examples=30, deadline=None)
settings.load_profile("few")


@given(samples)
def test_the_interval_holds_the_median_and_lies_within_the_samples(values):
    e = median_with_ci(values)
    assert e.median == pytest.approx(np.median(values))
    assert min(values) <= e.low <= e.median <= e.high <= max(values)
    assert median_with_ci(values) == e


@given(samples, st.floats(1e-3, 1e3))
def test_the_interval_scales_with_the_samples(values, factor):
    e, f = median_with_ci(values), median_with_ci([v * factor for v in values])
    assert (f.low, f.median, f.high) == pytest.approx((e.low * factor, e.median * factor, e.high * factor))


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        e = median_with_ci(rng.lognormal(0.0, 0.3, 15).tolist())
        hits += e.low <= 1.0 <= e.high
    assert 175 <= hits <= 200


@given(samples)
def test_speedup_of_a_thing_against_itself_is_a_tie(values):
    e = paired_speedup(values, values)
    assert e == Estimate(1.0, 1.0, 1.0)
    assert verdict(e) == "tie"


@given(samples, st.floats(1.5, 5))
def test_what_slows_a_round_cancels(noise, factor):
    candidate = [1e-3 * n for n in noise]
    e = paired_speedup([c * factor for c in candidate], candidate)
    assert (e.low, e.median, e.high) == pytest.approx((factor, factor, factor))
    assert verdict(e) == "faster"
    assert verdict(paired_speedup(candidate, [c * factor for c in candidate])) == "slower"


def test_an_interval_that_holds_one_is_a_tie():
    assert verdict(Estimate(1.1, 0.99, 1.2)) == "tie"
    assert verdict(Estimate(0.9, 0.8, 1.0)) == "tie"


def test_the_winner_is_good_in_most_rounds_not_once():
    lucky = [0.1, *[1.2] * 8]
    steady = [1.0] * 9
    assert choose_winner({3: lucky, 8: steady}) == 8
    assert choose_winner({8: steady, 3: steady}) == 3
    assert choose_winner({}) is None


def test_the_winner_survives_drift():
    """Both get slower over time; by plain medians of different rounds the order would be chance."""
    drift = np.linspace(1.0, 3.0, 15)
    assert choose_winner({1: (drift * 1.02).tolist(), 2: drift.tolist()}) == 2


@given(st.dictionaries(st.integers(0, 50), st.lists(latency, min_size=5, max_size=5), min_size=1, max_size=5))
def test_a_candidate_that_is_fastest_in_every_round_wins(secs):
    best = [0.9 * min(column) for column in zip(*secs.values(), strict=True)]
    assert choose_winner({**secs, 99: best}) == 99


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0], [np.inf], [np.nan]])
def test_bad_samples_are_refused(bad):
    with pytest.raises(ValueError):
        paired_speedup(bad, bad)
    with pytest.raises(ValueError):
        choose_winner({1: bad})


def test_unequal_rounds_are_refused():
    with pytest.raises(ValueError):
        paired_speedup([1.0], [1.0, 2.0])
    with pytest.raises(ValueError):
        median_with_ci([])
