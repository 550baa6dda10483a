from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tuner.measure.protocol import decode, encode
from tuner.outcome import FailureKind

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner) | st.tuples(inner, inner),
    max_leaves=12,
)


@given(plain)
def test_plain_data_comes_back_equal_and_of_the_same_type(value):
    back = decode(encode(value))
    assert back == value
    assert type(back) is type(value)


@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, min_side=0)))
def test_arrays_come_back_bit_for_bit(array):
    back = decode(encode({"a": array}))["a"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4])
def test_ml_dtypes_come_back(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    back = decode(encode(array))
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()
    back[0, 0] = 1  # arrays are writable


def test_non_contiguous_arrays_are_sent_by_value():
    array = np.arange(12).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(decode(encode(array)), array)


def test_numpy_scalars_and_string_enums():
    assert decode(encode(np.float64(0.5))) == 0.5
    assert decode(encode(FailureKind.RUN_ERROR)) == "run_error"


@pytest.mark.parametrize("value", [object(), np.array([object()]), {"a": {1}}, lambda: 0])
def test_anything_else_is_refused(value):
    with pytest.raises(TypeError):
        encode(value)


def test_foreign_bytes_are_refused():
    for data in (b"", b"\xc1", encode([1, 2])[:-1], b"\x93\x01"):
        with pytest.raises(ValueError):
            decode(data)
