"""What may train the model: usable latencies only, scored within their workload, each candidate once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.cost_model.dataset import Dataset, throughput_scores, tied_within_noise, usable
from tuner.cost_model.pooling import N_POOLED


def vectors(*values: float) -> np.ndarray:
    return np.array([[v] * N_POOLED for v in values], dtype=np.float32)


@given(st.lists(st.floats(1e-9, 1e3), max_size=20), st.floats(1e-3, 1e3))
def test_scores_lie_in_the_unit_interval_and_know_no_unit(latency_s: list[float], factor: float) -> None:
    times = np.array(latency_s)
    scores = throughput_scores(times)
    assert ((scores > 0) & (scores <= 1)).all()
    if latency_s:
        assert scores.max() == 1.0
        assert scores[times.argmin()] == 1.0
    np.testing.assert_allclose(throughput_scores(times * factor), scores, rtol=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_bad_latency_is_refused_whole(bad: float) -> None:
    data = Dataset()
    with pytest.raises(ValueError):
        data.add("w", vectors(1, 2), np.zeros(2), np.array([1.0, bad]))
    assert len(data) == 0
    assert data.training_set() is None


def test_near_ties_become_ties_and_the_rest_keeps_its_order() -> None:
    tied = tied_within_noise(np.array([1.0, 0.99, 0.8, 0.5, 0.49, 0.001]))
    assert tied[0] == tied[1] == 1.0
    assert tied[3] == tied[4]
    assert (np.diff(tied[[0, 2, 3, 5]]) < 0).all()
    np.testing.assert_allclose(tied, [1.0, 0.99, 0.8, 0.5, 0.49, 0.001], rtol=0.026)


def test_usable_keeps_positions_of_finite_positive_latencies() -> None:
    positions, seconds = usable([None, 2.0, math.nan, 0.0, -1.0, math.inf, 1e-9])
    assert positions == [1, 6]
    assert seconds.tolist() == [2.0, 1e-9]
    assert usable([])[1].shape == (0,)


def test_of_equal_candidates_the_faster_measurement_stands() -> None:
    data = Dataset()
    assert data.add("w", vectors(1, 2, 1), np.zeros(3), np.array([4.0, 2.0, 3.0])) == 2
    assert data.add("w", vectors(2), np.zeros(1), np.array([6.0])) == 0
    training = data.training_set()
    assert training is not None
    assert training.score.tolist() == [pytest.approx(2 / 3), 1.0]
    assert data.add("other", vectors(1), np.zeros(1), np.array([6.0])) == 1  # another workload is another candidate


def test_each_workload_is_scored_on_its_own_and_one_alone_ranks_nothing() -> None:
    data = Dataset()
    data.add("slow", vectors(1, 2), np.array([0.1, 0.2]), np.array([10.0, 20.0]))
    data.add("alone", vectors(3), np.array([0.3]), np.array([1.0]))
    data.add("fast", vectors(4, 5), np.array([0.4, 0.5]), np.array([4e-6, 1e-6]))
    training = data.training_set()
    assert training is not None
    assert training.sizes.tolist() == [2, 2]
    assert training.score.tolist() == [1.0, 0.5, 0.25, 1.0]
    assert training.pooled[:, 0].tolist() == [1.0, 2.0, 4.0, 5.0]
    assert training.log_prior.tolist() == [0.1, 0.2, 0.4, 0.5]


def test_arrays_bring_everything_back_and_misfits_are_refused() -> None:
    data = Dataset()
    data.add("a", vectors(1, 2), np.array([0.1, 0.2]), np.array([10.0, 20.0]))
    data.add("b", vectors(4), np.array([0.4]), np.array([4.0]))
    arrays = data.to_arrays()
    again = Dataset.from_arrays(data.group_names(), arrays)
    assert again.group_names() == ["a", "b"]
    for name, array in again.to_arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
    with pytest.raises(ValueError):
        Dataset.from_arrays(["a"], arrays)
    with pytest.raises(ValueError):
        Dataset.from_arrays(["a", "b"], {**arrays, "latency_s": arrays["latency_s"][:2]})
    with pytest.raises(ValueError):
        Dataset.from_arrays(["a", "b"], {**arrays, "latency_s": arrays["latency_s"] * np.nan})
    assert len(Dataset.from_arrays([], Dataset().to_arrays())) == 0
