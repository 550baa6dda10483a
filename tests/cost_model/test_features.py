"""The column layout, checked against numbers worked out by hand for one small kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.cost_model.conftest import Rows, add_schedule, extract
from tuner.cost_model.features import BUFFER_FIELDS, COLUMNS, GROUPS, IS_LOG, N_COLUMNS, as_rows, column, unlog


def arrange(sch: Any) -> None:
    """for i in parallel(64), for j_outer in 16 with unroll pragma, for j in vectorized(8)."""
    i, j = sch.get_loops(sch.get_sblock("out"))
    _, j_inner = sch.split(j, [None, 8])
    sch.parallel(i)
    sch.vectorize(j_inner)
    sch.annotate(i, "pragma_auto_unroll_max_step", 16)
    sch.annotate(i, "pragma_unroll_explicit", 1)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return extract(arrange, add_schedule(64, 128))


def logged(value: float) -> float:
    return math.log2(value + 1.0)


N = 64 * 128
EXPECTED = {
    "float_add_sub": logged(N),
    "float_mul": 0.0,
    "int_add_sub": logged(2 * N),  # j_outer * 8 + j_inner in two loads; the store's own index isn't counted
    "int_mul": logged(2 * N),
    "vectorize.num": logged(1),
    "vectorize.len": logged(8),
    "vectorize.pos_none": 0.0,
    "vectorize.pos_mixed": 1.0,
    "unroll.num": 0.0,
    "unroll.pos_none": 1.0,
    "parallel.num": logged(1),
    "parallel.prod": logged(64),
    "is_gpu": 0.0,
    "buffer0.bytes": logged(4 * N),
    "buffer0.unique_bytes": logged(4 * N),
    "buffer0.lines": logged(N / 16),
    "buffer0.stride": logged(1),
    "buffer0.reuse_none": 1.0,
    "buffer2.bytes": logged(4 * N),
    "buffer3.bytes": 0.0,
    "intensity9": logged(1 / 12),
    "alloc_size": logged(4 * N),
    "alloc_prod": logged(N),
    "outer_prod": logged(N),
    "num_loops": logged(3),
    "auto_unroll_max_step": logged(16),
    "buffer0.is_read": 1.0,
    "buffer2.is_write": 1.0,
}


def test_one_row_of_164_named_columns(rows: Rows) -> None:
    assert rows.shape == (1, N_COLUMNS)
    assert N_COLUMNS == 164
    assert len(set(COLUMNS)) == N_COLUMNS


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_column_holds_the_value_worked_out_by_hand(rows: Rows, name: str) -> None:
    assert rows[0, column(name)] == pytest.approx(EXPECTED[name], abs=1e-5)


def test_reduction_shows_its_accumulators_and_their_reuse(blocked_matmul: Rows) -> None:
    (row,) = blocked_matmul  # the init writes a constant and has no row of its own
    assert row[column("float_mul")] == pytest.approx(logged(512**3), abs=1e-4)
    accumulators = [i for i in range(5) if row[column(f"buffer{i}.is_read_write")] == 1.0]
    assert len(accumulators) == 1
    name = f"buffer{accumulators[0]}"
    assert row[column(f"{name}.reuse_loop")] == 1.0
    assert row[column(f"{name}.reuse_dis_iter")] == pytest.approx(logged(8 * 32))
    assert row[column(f"{name}.reuse_ct")] == pytest.approx(logged(16))


def test_groups_tile_the_columns_in_order() -> None:
    covered = [i for group in GROUPS.values() for i in range(group.start, group.stop)]
    assert covered == list(range(N_COLUMNS))
    assert COLUMNS[GROUPS["buffer3"].start] == "buffer3.is_read"
    assert COLUMNS[GROUPS["buffer3"].stop - 1] == f"buffer3.{BUFFER_FIELDS[-1]}"
    assert COLUMNS[GROUPS["intensity"].start] == "intensity0"
    assert COLUMNS[GROUPS["nest"].stop - 1] == "auto_unroll_max_step"


def test_flags_are_the_columns_that_only_hold_0_and_1(rows: Rows, blocked_matmul: Rows) -> None:
    flags = np.concatenate([rows, blocked_matmul])[:, ~IS_LOG]
    assert set(np.unique(flags)) == {0.0, 1.0}
    names = {c for c, is_log in zip(COLUMNS, IS_LOG, strict=True) if not is_log}
    assert {"is_gpu", "unroll.pos_mixed", "buffer4.is_read_write", "buffer0.reuse_none"} <= names
    assert not {"buffer0.reuse_ct", "parallel.prod", "buffer0.stride", "intensity0"} & names


def test_unlog_undoes_the_scaling_and_never_overflows() -> None:
    values = np.array([0.0, 1.0, -3.0, 1e18])
    scaled = np.sign(values) * np.log2(np.abs(values) + 1.0)
    np.testing.assert_allclose(unlog(scaled), values)
    assert np.isfinite(unlog(np.array([1e308, -1e308]))).all()


def test_rows_are_checked_and_cleaned() -> None:
    assert as_rows(np.zeros((0, 3))).shape == (0, N_COLUMNS)
    cleaned = as_rows(np.array([[np.nan, np.inf, -np.inf, 2.0] + [0.0] * (N_COLUMNS - 4)], dtype=np.float32))
    assert cleaned.dtype == np.float64
    assert cleaned[0, :4].tolist() == [0.0, 0.0, 0.0, 2.0]
    with pytest.raises(ValueError, match="164"):
        as_rows(np.zeros((2, N_COLUMNS + 8)))  # the extractor's other layout, with a workload embedding
