"""Inputs expose errors: the whole range, no constants, indices within bounds, the same for the same seed."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import WorkloadError
from tuner.workloads.inputs import draw_inputs, numpy_dtype
from tuner.workloads.op_def import FLOAT_DTYPES, INT_RANGE
from tuner.workloads.workload import ArgSpec


def arg(shape: tuple[int, ...], dtype: str, role: str = "in", **bounds: float) -> ArgSpec:
    return ArgSpec(name="x", shape=shape, dtype=dtype, role=role, **bounds)  # type: ignore[arg-type]


@given(
    dtype=st.sampled_from([*FLOAT_DTYPES, *INT_RANGE]),
    shape=st.lists(st.integers(0, 5), max_size=3).map(tuple),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=150, deadline=None)
def test_every_dtype_and_shape(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    (value,) = draw_inputs([arg(shape, dtype)], np.random.default_rng(seed))
    assert isinstance(value, np.ndarray)
    assert (value.shape, value.dtype) == (shape, numpy_dtype(dtype))
    assert np.isfinite(value.astype(np.float64)).all()
    if value.size >= 2:
        assert len(np.unique(value.astype(np.float64))) > 1
    (again,) = draw_inputs([arg(shape, dtype)], np.random.default_rng(seed))
    np.testing.assert_array_equal(np.asarray(again), value)


@pytest.mark.parametrize("dtype", INT_RANGE)
def test_integers_reach_both_ends_of_their_dtype(dtype: str) -> None:
    (value,) = draw_inputs([arg((1000,), dtype)], np.random.default_rng(0))
    assert (int(np.min(value)), int(np.max(value))) == INT_RANGE[dtype]


@given(low=st.integers(-100, 100), width=st.integers(1, 50), seed=st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_bounded_integers_stay_within_and_reach_both_ends(low: int, width: int, seed: int) -> None:
    (value,) = draw_inputs([arg((40,), "int32", low=low, high=low + width)], np.random.default_rng(seed))
    assert (int(np.min(value)), int(np.max(value))) == (low, low + width - 1)


def test_roles() -> None:
    args = [
        arg((3,), "float32", "out"),
        arg((3,), "float32", "inout"),
        arg((), "bfloat16", "scalar"),
        arg((), "float32"),
    ]
    out, inout, scalar, zero_d = draw_inputs(args, np.random.default_rng(0))
    assert out is None
    assert isinstance(inout, np.ndarray)
    assert isinstance(scalar, ml_dtypes.bfloat16)
    assert isinstance(zero_d, np.ndarray)
    assert zero_d.shape == ()


def test_long_sums_stay_within_float16() -> None:
    (value,) = draw_inputs([arg((1 << 16,), "float16", "in")], np.random.default_rng(0))
    assert abs(float(np.sum(np.asarray(value, np.float64)))) < 6e4


def test_bounded_floats() -> None:
    (value,) = draw_inputs([arg((500,), "float32", low=2.0, high=3.0)], np.random.default_rng(0))
    assert 2.0 <= np.min(value) < 2.1 < 2.9 < np.max(value) <= 3.0


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(WorkloadError, match="'int4' is not supported"):
        numpy_dtype("int4")
