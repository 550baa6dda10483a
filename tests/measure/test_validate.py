from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.measure.validate import (
    Comparison,
    Expected,
    compare,
    is_float,
    normalized_error,
    tolerance,
    typical_magnitude,
    unit_roundoff,
    worst,
)

BF16 = np.dtype(ml_dtypes.bfloat16)


def expected_of(values, t=1e-5):
    return Expected(values, typical_magnitude(values), t)


def sums(order, dtype, terms):
    """Sums along the last axis in `dtype`, in the given order of additions."""
    rows = terms.astype(dtype)
    if order == "sequential":
        total = np.zeros(rows.shape[0], dtype)
        for k in range(rows.shape[1]):
            total = (total + rows[:, k]).astype(dtype)
        return total
    lanes = 16 if order == "lanes" else rows.shape[1] // 2
    total = np.zeros((rows.shape[0], lanes), dtype)
    for k in range(0, rows.shape[1], lanes):
        total = (total + rows[:, k : k + lanes]).astype(dtype)
    while total.shape[1] > 1:
        total = (total[:, ::2] + total[:, 1::2]).astype(dtype)
    return total[:, 0]


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float16"), BF16], ids=str)
@pytest.mark.parametrize("order", ["sequential", "lanes", "halves"])
def test_any_order_of_additions_passes(dtype, order):
    rng = np.random.default_rng(0)
    n = 2048
    terms = rng.standard_normal((512, n)).astype(dtype)
    want = terms.astype(np.float64).sum(axis=1)
    expected = expected_of(want, tolerance(dtype, dtype, n))
    assert compare(sums(order, dtype, terms), expected, "C").wrong is None


@pytest.mark.parametrize("fault", ["one_term_missing", "one_term_twice", "neighbour", "zero"])
def test_one_wrong_element_of_a_million_is_found(fault):
    rng = np.random.default_rng(1)
    n, t = 2048, tolerance("float32", "float32", 2048)
    want = rng.standard_normal(1 << 20) * np.sqrt(n)  # as sums of n standard normal terms are
    got = want.astype(np.float32)
    at = 654321
    change = {"one_term_missing": -0.3, "one_term_twice": 0.3, "neighbour": want[at + 1] - want[at], "zero": -want[at]}
    got[at] += change[fault]
    found = compare(got.reshape(1024, 1024), expected_of(want.reshape(1024, 1024), t), "C")
    assert found.wrong is not None
    assert found.wrong.startswith(f"output 'C' at [{at // 1024}, {at % 1024}]: got ")
    assert "(1 of 1048576 elements are wrong)" in found.wrong
    assert found.max_abs_error == pytest.approx(abs(change[fault]), rel=1e-3)


def test_tolerance_grows_with_length_and_roundoff_and_is_zero_for_integers():
    assert tolerance("int32", "int32", 100) == 0
    assert tolerance("float32", "float32", 10) < tolerance("float32", "float32", 1000) < 1e-4
    assert tolerance("float16", "float32", 1000) < tolerance("float16", "float16", 1000) < 0.1
    assert tolerance("float32", "float16", 1) >= unit_roundoff("float16")
    assert tolerance(BF16, "float32", 10_000) < 0.05


@pytest.mark.parametrize(("got", "want", "right"), [
    (np.nan, np.nan, True),
    (np.nan, 1.0, False),
    (1.0, np.nan, False),
    (np.inf, np.inf, True),
    (-np.inf, np.inf, False),
    (np.inf, 1.0, False),
    (1.0, np.inf, False),
    (np.nan, np.inf, False),
    (0.0, -0.0, True),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float16", BF16], ids=str)
def test_nan_equals_nan_and_inf_equals_inf(got, want, right, dtype):
    expected = expected_of(np.array([2.0, want, 3.0]))
    found = compare(np.array([2.0, got, 3.0]).astype(dtype), expected, "C")
    assert (found.wrong is None) is right
    assert np.isfinite(found.max_abs_error)


def test_rounding_to_infinity_at_the_largest_number_is_right():
    almost = np.array([65490.0, 1.0], np.float32)
    inf = np.array([np.inf, 1.0], np.float16)
    assert compare(inf, Expected(almost, 1.0, 1e-3), "C").wrong is None
    assert compare(inf, Expected(almost / 2, 1.0, 1e-3), "C").wrong is not None
    assert compare(-inf, Expected(almost, 1.0, 1e-3), "C").wrong is not None


def test_where_an_accumulator_overflowed_both_values_are_right():
    want, untuned = np.array([9.0, 5.0], np.float32), np.array([np.inf, 5.0], np.float16)
    expected = Expected(want, 5.0, 1e-3, also=untuned)
    for got, right in (([9.0, 5.0], True), ([np.inf, 5.0], True), ([np.inf, np.inf], False), ([8.0, 5.0], False)):
        assert (compare(np.array(got, np.float16), expected, "C").wrong is None) is right


def test_integers_are_exact_and_a_bool_is_0_or_1():
    want = np.array([-3, 7, 127], np.int8)
    assert compare(want.copy(), Expected(want, 0, 0), "C") == Comparison(0.0, 0.0)
    found = compare(np.array([-3, 8, 127], np.int8), Expected(want, 0, 0), "C")
    assert found.wrong == "output 'C' at [1]: got 8, want 7 (1 of 3 elements are wrong)"
    assert found.max_abs_error == 1
    flags = np.array([True, False])
    assert compare(np.array([2, 0], np.uint8).view(bool), Expected(flags, 0, 0), "C").wrong is not None


def test_strided_and_empty_outputs():
    want = np.arange(12, dtype=np.float32).reshape(3, 4)
    wide = np.zeros((3, 8), np.float32)
    wide[:, :4] = want
    assert compare(wide[:, :4], expected_of(want), "C").wrong is None
    empty = np.zeros((0, 4), np.float32)
    assert compare(empty, expected_of(empty), "C") == Comparison(0.0, 0.0)


def test_a_few_huge_values_do_not_hide_the_others():
    want = np.full(1000, 1.0)
    want[0] = -1e9
    got = want.astype(np.float32)
    got[500] = 1.01
    assert compare(got, expected_of(want), "C").wrong is not None


def test_worst_keeps_the_first_wrong_one():
    found = worst([Comparison(1, 0.5), Comparison(0, 0, "a"), Comparison(2, 0.1, "b")])
    assert found == Comparison(2, 0.5, "a")
    assert worst([]) == Comparison(0.0, 0.0)


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40),
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=40, max_size=40),
)
def test_normalized_error_is_the_smallest_tolerance_that_passes(values, errors):
    want = np.array(values, np.float32)
    got = want + np.array(errors[: len(values)], np.float32)
    scale = typical_magnitude(want)
    needed = normalized_error(got, Expected(want, scale, 0.0))
    if np.isfinite(needed):
        assert compare(got, Expected(want, scale, needed * 1.0001), "C").wrong is None
        if needed > 0:
            assert compare(got, Expected(want, scale, needed * 0.999), "C").wrong is not None
    else:
        assert scale == 0


def test_which_dtypes_are_float():
    assert all(is_float(d) for d in ("float16", "float64", BF16, ml_dtypes.float8_e4m3fn))
    assert not any(is_float(d) for d in ("int8", "bool", ml_dtypes.int4))
