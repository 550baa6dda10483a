"""How values look: units, digits, intervals; and JSON that any parser reads."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.render import latency_text, print_json, seconds_text, speedup_text, utc_text


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (1.0, "1.00 s"),
        (0.00123456, "1.23 ms"),
        (0.0123, "12.3 ms"),
        (0.5, "500 ms"),
        (4.56e-7, "456 ns"),
        (75, "75.0 s"),
    ],
)
def test_seconds_have_three_digits_and_a_fitting_unit(value_s: float, text: str) -> None:
    assert seconds_text(value_s) == text


@given(st.floats(1e-9, 1e6))
def test_what_is_printed_is_the_value_to_half_a_percent(value_s: float) -> None:
    number, unit = re.fullmatch(r"([\d.]+) (s|ms|µs|ns)", seconds_text(value_s)).groups()  # type: ignore[union-attr]
    assert float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit] == pytest.approx(value_s, rel=0.005)


def test_an_interval_keeps_its_medians_unit() -> None:
    assert latency_text(0.00101, (0.00099, 0.00102)) == "1.01 ms [0.990, 1.02]"
    assert speedup_text(2.5, (2.25, 10.0)) == "2.50x [2.25, 10.0]"


def test_times_are_utc() -> None:
    assert utc_text(0.0) == "1970-01-01T00:00:00Z"


def test_json_has_no_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [math.inf, 1.5], "b": {"c": (math.nan, -math.inf)}, "d": "µ"})
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5], "b": {"c": [None, None]}, "d": "µ"}
