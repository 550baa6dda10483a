"""The roofline prior against facts that any CPU schedule obeys, on features that TVM extracts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cost_model.conftest import Rows, add_schedule, extract, matmul_schedule
from tuner.cost_model import MachineModel, machine_model
from tuner.cost_model.features import N_COLUMNS, column
from tuner.cost_model.prior import estimate_many_s, estimate_s, estimate_stores
from tuner.targets.peaks import Roofline

MACHINE = MachineModel(n_cores=2)
BIG = 4096


def nothing(sch: Any) -> None:
    pass


def loops(sch: Any) -> list[Any]:
    return list(sch.get_loops(sch.get_sblock("out")))


def vectorized(sch: Any) -> None:
    _, inner = sch.split(loops(sch)[-1], [None, 16])
    sch.vectorize(inner)


def parallel(sch: Any) -> None:
    sch.parallel(loops(sch)[0])


def rows_outside(sch: Any) -> None:
    """matmul as i, k, j with j vectorised: all of b streams past for every row of a."""
    i, j, k = loops(sch)
    sch.reorder(i, k, j)
    vectorized(sch)
    parallel(sch)


def column_walk(sch: Any) -> None:
    """out[i, j] with i innermost: one cache line for every element."""
    i, j = loops(sch)
    sch.reorder(j, i)


def tiled(sch: Any) -> None:
    i, j, k = loops(sch)
    i_outer, i_inner = sch.split(i, [None, 8])
    j_outer, j_inner = sch.split(j, [None, 32])
    k_outer, k_inner = sch.split(k, [None, 16])
    sch.reorder(i_outer, j_outer, k_outer, k_inner, i_inner, j_inner)
    sch.vectorize(j_inner)
    sch.parallel(i_outer)


def one_accumulator(sch: Any) -> None:
    """The whole reduction innermost over one vector: each addition waits for the last."""
    i, j, k = loops(sch)
    j_outer, j_inner = sch.split(j, [None, 8])
    sch.reorder(i, j_outer, k, j_inner)
    sch.vectorize(j_inner)
    sch.parallel(i)


def eight_accumulators(sch: Any) -> None:
    i, j, k = loops(sch)
    j_outer, j_inner = sch.split(j, [None, 64])
    sch.reorder(i, j_outer, k, j_inner)
    sch.vectorize(j_inner)
    sch.parallel(i)


Maker = Callable[[], Any]
FACTS: dict[str, tuple[Maker, Callable[[Any], None], Callable[[Any], None]]] = {
    "vectors beat scalars": (lambda: matmul_schedule(128), rows_outside, lambda s: s.parallel(loops(s)[0])),
    "cores beat one core on big work": (lambda: add_schedule(BIG, BIG), parallel, nothing),
    "cores beat one core on matmul": (lambda: matmul_schedule(256), parallel, nothing),
    "one core beats waking others on tiny work": (lambda: add_schedule(4, 16), nothing, parallel),
    "tiles beat streaming": (lambda: matmul_schedule(2048), tiled, rows_outside),
    "rows beat columns": (lambda: add_schedule(BIG, BIG), nothing, column_walk),
    "many accumulators beat one": (lambda: matmul_schedule(256), eight_accumulators, one_accumulator),
}


@pytest.mark.parametrize("fact", FACTS)
def test_the_better_schedule_has_the_lower_estimate(fact: str) -> None:
    make, better, worse = FACTS[fact]
    assert estimate_s(extract(better, make()), MACHINE) < 0.95 * estimate_s(extract(worse, make()), MACHINE)


def test_one_accumulator_waits_for_its_latency() -> None:
    """One vector accumulated 256 times in a row keeps two ports of latency 4 an eighth busy."""
    few, many = (extract(f, matmul_schedule(256)) for f in (one_accumulator, eight_accumulators))
    ratio = estimate_stores(few, MACHINE).arithmetic_s / estimate_stores(many, MACHINE).arithmetic_s
    assert ratio == pytest.approx(8.0, rel=0.01)


def test_a_tile_in_the_second_level_is_loaded_once_each_time_it_runs() -> None:
    """Tiles of 64 x 64 x 64, rows outermost: b comes anew for each of the 8 panels of a, if one panel's work fits."""

    def arrange(sch: Any) -> None:
        i, j, k = loops(sch)
        (i_outer, i_inner), (j_outer, j_inner), (k_outer, k_inner) = (sch.split(x, [None, 64]) for x in (i, j, k))
        sch.reorder(i_outer, j_outer, k_outer, i_inner, k_inner, j_inner)
        sch.vectorize(j_inner)

    rows = extract(arrange, matmul_schedule(512))
    machine = MachineModel(n_cores=1, cache_bytes=(32e3, 1.5e6, 8e6))
    second_bytes = estimate_stores(rows, machine).traffic_s[0, 1] * machine.refill_bytes_per_s[1]
    by_hand = 8 * 4 * (512 * 512 + 2 * 64 * 512)
    assert second_bytes == pytest.approx(by_hand, rel=0.15)


def test_a_walk_down_columns_moves_more_bytes_than_one_along_rows() -> None:
    along, down = (estimate_stores(extract(f, add_schedule(BIG, BIG)), MACHINE) for f in (nothing, column_walk))
    assert (down.traffic_s > 2.0 * along.traffic_s).all()


def test_estimates_are_of_the_right_magnitude(blocked_matmul: Rows) -> None:
    at_peak_s = 2 * 512**3 / MACHINE.peak_flop_per_s
    assert at_peak_s <= estimate_s(blocked_matmul, MACHINE) < 10 * at_peak_s
    copied_bytes = 3 * 4 * BIG * BIG
    streaming_s = copied_bytes / MACHINE.refill_bytes_per_s[-1]
    assert streaming_s <= estimate_s(extract(parallel, add_schedule(BIG, BIG)), MACHINE) < 3 * streaming_s


@pytest.mark.parametrize(("chunks", "busy"), [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 2.5), (8, 4.0), (4096, 4.0)])
def test_cores_are_as_busy_as_the_last_round_lets_them(blocked_matmul: Rows, chunks: int, busy: float) -> None:
    """Time is inversely proportional to the average number of busy cores, of 4."""
    machine = MachineModel(n_cores=4)

    def compute_s(n: int) -> float:
        rows = blocked_matmul.copy()
        rows[:, column("parallel.prod")] = np.log2(n + 1.0)
        return float(estimate_stores(rows, machine).arithmetic_s.max())

    assert compute_s(4) / compute_s(chunks) == pytest.approx(busy / 4.0)


def test_a_faster_machine_is_never_slower(blocked_matmul: Rows) -> None:
    streaming = extract(parallel, add_schedule(512, 512))
    for rows in (blocked_matmul, streaming):
        base = estimate_s(rows, MACHINE)
        assert estimate_s(rows, MachineModel(peak_flop_per_s=2 * MACHINE.peak_flop_per_s)) <= base
        doubled = tuple(2 * rate for rate in MACHINE.cache_bytes_per_s)
        assert estimate_s(rows, MachineModel(cache_bytes_per_s=doubled)) <= base
        assert estimate_s(rows, MachineModel(memory_bytes_per_s=2 * MACHINE.memory_bytes_per_s)) <= base
        assert estimate_s(rows, MachineModel(parallel_launch_s=0.0)) < base


def test_a_measured_machine_replaces_the_default() -> None:
    caches = {"L1d": 2 * 48_000, "L2": 2 * 2_000_000, "L3": 32_000_000}
    bandwidth = ((48e3, 8e11), (3e6, 3e11), (2e7, 1e11), (1e9, 2e10))
    roofline = Roofline(
        flop_per_s={"float32": 4e11, "int8": 1e12},
        how={},
        bandwidth=bandwidth,
        caches=caches,
        n_threads=2,
        noise=1.0,
    )
    machine = machine_model(roofline, {"avx", "avx512f"})
    assert (machine.n_cores, machine.vector_bytes, machine.n_vector_registers) == (2, 64, 32)
    assert machine.peak_flop_per_s == 4e11
    assert machine_model(roofline, {"sse2"}, "int8").peak_flop_per_s == 1e12
    assert machine.cache_bytes == (48_000, 2_000_000, 16_000_000)
    assert 8e11 > machine.cache_bytes_per_s[0] > machine.cache_bytes_per_s[1] > machine.cache_bytes_per_s[2]
    assert machine.cache_bytes_per_s[2] > machine.memory_bytes_per_s > 2e10
    assert machine.refill_bytes_per_s == (*machine.cache_bytes_per_s[1:], machine.memory_bytes_per_s)
    bare = machine_model(dataclasses.replace(roofline, caches={}), frozenset())
    assert (bare.vector_bytes, len(bare.cache_bytes)) == (16, 3)


def test_one_by_one_and_together_agree(blocked_matmul: Rows) -> None:
    batch = [blocked_matmul, np.zeros((0, N_COLUMNS)), extract(nothing, add_schedule(8, 8))]
    np.testing.assert_allclose(estimate_many_s(batch, MACHINE), [estimate_s(f, MACHINE) for f in batch], rtol=1e-12)
    assert estimate_many_s([], MACHINE).shape == (0,)


@given(st.lists(st.lists(st.floats(-50, 60), min_size=N_COLUMNS, max_size=N_COLUMNS), min_size=1, max_size=3))
def test_any_row_gives_a_finite_positive_estimate(values: list[list[float]]) -> None:
    seconds = estimate_s(np.array(values), MACHINE)
    assert np.isfinite(seconds)
    assert seconds > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_cores": 0},
        {"peak_flop_per_s": 0.0},
        {"cache_bytes_per_s": (1.0, 1.0, float("nan"))},
        {"cache_bytes": (1e4,)},
        {"parallel_launch_s": -1.0},
        {"vector_bytes": 0},
    ],
)
def test_impossible_machines_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        MachineModel(**wrong)
