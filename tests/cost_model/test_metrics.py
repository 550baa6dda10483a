"""Ranking metrics: hand-worked values, and properties over ties, constants and single elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tuner.cost_model import kendall, pairwise_accuracy, peak_at, ranking_metrics, regret_at, spearman

scores = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6))
latencies = st.one_of(st.integers(1, 4).map(float), st.floats(1e-9, 1e3))
cases = st.lists(st.tuples(scores, latencies), max_size=12)


def split(case: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [s for s, _ in case], [t for _, t in case]


def test_values_worked_out_by_hand() -> None:
    s, t = [3.0, 2.0, 1.0, 0.0], [2.0, 1.0, 4.0, 3.0]  # right in 4 of 6 pairs
    assert pairwise_accuracy(s, t) == pytest.approx(4 / 6)
    assert peak_at(s, t, 1) == pytest.approx(0.5)
    assert peak_at(s, t, 2) == 1.0
    assert regret_at(s, t, 1) == pytest.approx(1.0)
    assert kendall(s, t) == pytest.approx(1 / 3)
    assert spearman(s, t) == pytest.approx(0.6)


def test_ties_in_the_score_are_the_mean_over_random_orders() -> None:
    s, t = [1.0, 1.0, 1.0, 5.0, 0.0], [3.0, 7.0, 4.0, 6.0, 1.0]
    for k in range(1, 6):
        expected = []
        for order in itertools.permutations(range(5)):
            ranked = sorted(order, key=lambda i: -s[i])
            expected.append(min(t[i] for i in ranked[:k]))
        assert regret_at(s, t, k) == pytest.approx(np.mean(expected) / 1.0 - 1.0)


@given(cases, st.integers(1, 15))
def test_always_finite_and_within_bounds(case: list[tuple[float, float]], k: int) -> None:
    s, t = split(case)
    assert 0.0 <= pairwise_accuracy(s, t) <= 1.0
    assert 0.0 < peak_at(s, t, k) <= 1.0
    assert np.isfinite(regret_at(s, t, k))
    assert regret_at(s, t, k) >= 0.0
    assert -1.0 <= spearman(s, t) <= 1.0
    assert -1.0 <= kendall(s, t) <= 1.0
    assert all(np.isfinite(v) for v in ranking_metrics(s, t).values())


@given(cases)
def test_perfect_and_reversed_scores(case: list[tuple[float, float]]) -> None:
    t = np.array(split(case)[1])
    distinct = np.unique(t).size >= 2
    assert pairwise_accuracy(-t, t) == (1.0 if distinct else 0.5)
    assert pairwise_accuracy(t, t) == (0.0 if distinct else 0.5)
    assert peak_at(-t, t, 1) == pytest.approx(1.0)
    assert regret_at(-t, t, 1) == pytest.approx(0.0, abs=1e-12)
    assert kendall(-t, t) == pytest.approx(1.0 if distinct else 0.0)
    assert spearman(-t, t) == pytest.approx(1.0 if distinct else 0.0)


@given(st.lists(latencies, max_size=10), scores)
def test_constant_scores_are_chance(t: list[float], constant: float) -> None:
    s = [constant] * len(t)
    assert pairwise_accuracy(s, t) == 0.5
    assert spearman(s, t) == kendall(s, t) == 0.0
    if t:
        assert regret_at(s, t, 1) == pytest.approx(np.mean(t) / np.min(t) - 1.0)


@given(cases)
def test_order_of_the_candidates_does_not_matter(case: list[tuple[float, float]]) -> None:
    forward, backward = ranking_metrics(*split(case)), ranking_metrics(*split(case[::-1]))
    for name, value in forward.items():
        assert value == pytest.approx(backward[name], rel=1e-9, abs=1e-9)


@given(cases)
def test_more_choices_never_hurt(case: list[tuple[float, float]]) -> None:
    s, t = split(case)
    regrets = [regret_at(s, t, k) for k in range(1, len(t) + 2)]
    assert all(a >= b - 1e-9 * (1.0 + abs(a)) for a, b in itertools.pairwise(regrets))
    if t:
        assert regrets[-1] == pytest.approx(0.0, abs=1e-12)


@given(st.lists(st.tuples(scores, latencies), min_size=3, max_size=12))
def test_correlations_agree_with_scipy(case: list[tuple[float, float]]) -> None:
    s, t = (np.array(x) for x in split(case))
    if np.unique(s).size < 2 or np.unique(t).size < 2:
        return
    assert spearman(s, t) == pytest.approx(scipy.stats.spearmanr(s, -t).statistic, abs=1e-9)
    assert kendall(s, t) == pytest.approx(scipy.stats.kendalltau(s, -t).statistic, abs=1e-9)


@pytest.mark.parametrize(
    ("s", "t"),
    [([1.0], [1.0, 2.0]), ([np.nan], [1.0]), ([1.0], [0.0]), ([1.0], [np.inf]), ([1.0], [-1.0]), ([[1.0]], [[1.0]])],
)
def test_meaningless_input_is_refused(s: list[float], t: list[float]) -> None:
    for metric in (pairwise_accuracy, spearman, kendall, ranking_metrics):
        with pytest.raises(ValueError):
            metric(s, t)
    with pytest.raises(ValueError):
        peak_at([1.0], [1.0], 0)
