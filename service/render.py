"""How values look to people: units, intervals, tables. And to programs: JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

_UNLIMITED = 4000
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def seconds_text(value_s: float) -> str:
    """Three digits and a fitting unit: "1.23 ms"."""
    scale, unit = _time_unit(value_s)
    return f"{_three_digits(value_s / scale)} {unit}"


def latency_text(median_s: float, ci95_s: Sequence[float]) -> str:
    """ "1.23 ms [1.20, 1.26]": the interval in the median's unit."""
    scale, unit = _time_unit(median_s)
    low, high = (_three_digits(bound / scale) for bound in ci95_s)
    return f"{_three_digits(median_s / scale)} {unit} [{low}, {high}]"


def speedup_text(speedup: float, ci95: Sequence[float]) -> str:
    low, high = (_three_digits(bound) for bound in ci95)
    return f"{_three_digits(speedup)}x [{low}, {high}]"


def percent_text(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def rate_text(flop_per_s: float) -> str:
    return f"{_three_digits(flop_per_s / 1e9)} GFLOP/s"


def error_text(value: float | None) -> str:
    return "not compared" if value is None else f"{value:.2g}"


def utc_text(epoch_s: float) -> str:
    """ISO 8601 in UTC, to the second: sorts as text."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_table(*columns: str, title: str | None = None) -> Table:
    table = Table(
        title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def facts_table(title: str, facts: Sequence[tuple[str, str]]) -> Table:
    """Names on the left, values on the right."""
    table = new_table(title=title)
    table.show_header = False
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, value)
    return table


def print_out(*renderables: Any) -> None:
    """To stdout: plain text where it is no terminal, and then as wide as it needs to be."""
    if sys.stdout.isatty():
        console = Console(highlight=False, markup=False)
        console.print(*renderables, sep="\n")
        return
    console = Console(highlight=False, markup=False, no_color=True, width=_UNLIMITED)
    with console.capture() as captured:
        console.print(*renderables, sep="\n")
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_code(text: str, lexer: str) -> None:
    """Coloured on a terminal, untouched elsewhere. `lexer` is one of Pygments' names."""
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.syntax import Syntax

    Console().print(Syntax(text, lexer, background_color="default"))


def print_json(value: Any) -> None:
    """JSON has no infinity or NaN: null stands for them."""
    is_unicode = (sys.stdout.encoding or "utf-8").lower().replace("_", "-").startswith("utf")
    print(json.dumps(_finite(value), indent=2, ensure_ascii=not is_unicode, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def _time_unit(value_s: float) -> tuple[float, str]:
    return next(((scale, unit) for scale, unit in _TIME_UNITS if value_s >= scale), _TIME_UNITS[-1])


def _three_digits(value: float) -> str:
    """Plain decimals: 0.123, 1.23, 12.3, 123, 1234."""
    if value <= 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:.{min(decimals, 6)}f}"
