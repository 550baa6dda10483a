"""The roofline: real kernels give plausible peaks, bounds behave, and the kept file is trusted only when whole."""

from __future__ import annotations

import os
import timeit
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.targets.conftest import N_THREADS
from tests.targets.hosts import fake_host
from tuner.measure.worker import IsolatedWorker
from tuner.targets.device import detect_device
from tuner.targets.peaks import MAX_MEASUREMENTS, Roofline, best_of, load, load_or_measure, roofline_key, save
from tuner.targets.target import native_target, parse_target

ROOFLINE = Roofline(
    flop_per_s={"float32": 100e9, "int32": 40e9, "int8": 400e9},
    how={"float32": "x"},
    bandwidth=((64e3, 400e9), (1e6, 100e9), (100e6, 10e9)),
    caches={"L1d": 64 << 10, "L2": 2 << 20, "L3": 32 << 20},
    n_threads=2,
    noise=1.0,
)
MEASURED = {
    "flop_per_s": {"float32": 1e9, "int32": 1e9, "int8": 1e9},
    "how": {"float32": "x"},
    "bandwidth": [[1e5, 2e9], [1e8, 1e9]],
    "noise": 1.1,
    "n_threads": 2,
}
HOST = fake_host(flags_of="sapphirerapids", n_cores=2)
TARGET = native_target(HOST)
DEVICE = detect_device(TARGET, HOST)


class Meter:
    """A measuring job that counts its calls."""

    def __init__(self, **changes: Any) -> None:
        self.answer = {**MEASURED, **changes}
        self.calls: list[tuple[dict[str, Any], int]] = []

    def __call__(self, target: dict[str, Any], n_threads: int) -> dict[str, Any]:
        self.calls.append((target, n_threads))
        return self.answer


def test_bound_is_the_slower_of_compute_and_memory() -> None:
    assert ROOFLINE.bound_s(100e9, 1e6, "float32") == (1.0, "compute")
    seconds, bound = ROOFLINE.bound_s(1.0, 1e9, "float32")
    assert (seconds, bound) == (pytest.approx(0.1), "memory")
    assert ROOFLINE.bound_s(0.0, 0.0, "float32") == (0.0, "compute")
    assert ROOFLINE.fraction(2.0, 100e9, 1e6, "float32") == pytest.approx(0.5)


def test_dtypes_without_a_measurement_use_what_they_are_computed_in() -> None:
    assert ROOFLINE.peak_flop_per_s("bfloat16") == 100e9
    assert ROOFLINE.peak_flop_per_s("float16") == 100e9
    assert ROOFLINE.peak_flop_per_s("uint8") == 400e9
    assert ROOFLINE.peak_flop_per_s("float8_e4m3fn") == 100e9
    with_half = replace(ROOFLINE, flop_per_s={**ROOFLINE.flop_per_s, "float16": 200e9})
    assert with_half.peak_flop_per_s("float16") == 200e9


def test_small_working_sets_run_from_cache() -> None:
    assert ROOFLINE.bytes_per_s(100.0) == 400e9
    assert ROOFLINE.bytes_per_s(1e6) == pytest.approx(100e9)
    assert ROOFLINE.bytes_per_s(1e12) == 10e9
    assert [ROOFLINE.memory_level(n) for n in (1e3, 1e6, 1e7, 1e9)] == ["L1d", "L2", "L3", "memory"]


@given(st.floats(1, 1e12), st.floats(1, 1e12))
def test_a_larger_working_set_never_takes_less_time(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert ROOFLINE.bytes_per_s(low) >= ROOFLINE.bytes_per_s(high) * (1 - 1e-9)
    assert ROOFLINE.bound_s(0, low, "float32")[0] <= ROOFLINE.bound_s(0, high, "float32")[0] * (1 + 1e-9)


def test_measured_once_and_kept(tmp_path: Path) -> None:
    meter = Meter()
    first = load_or_measure(TARGET, DEVICE, tmp_path / "new", meter)
    assert load_or_measure(TARGET, DEVICE, tmp_path / "new", meter) == first
    assert meter.calls == [(TARGET.attrs, 2)]
    assert first.caches == {n: s * (1 if n == "L3" else 2) for n, s in DEVICE.caches.items()}
    assert len(list((tmp_path / "new").iterdir())) == 1


def test_a_disturbed_point_is_as_fast_as_the_next_larger(tmp_path: Path) -> None:
    points = [[1e5, 1e9], [1e6, 5e9], [1e7, 3e9], [1e8, 4e9], [1e9, 1e9]]
    roofline = load_or_measure(TARGET, DEVICE, tmp_path, Meter(bandwidth=points))
    assert [rate for _, rate in roofline.bandwidth] == [5e9, 5e9, 4e9, 4e9, 1e9]


def test_another_target_or_device_is_measured_for_itself(tmp_path: Path) -> None:
    other = parse_target("llvm -mcpu=haswell", HOST)
    assert (
        len({roofline_key(TARGET, DEVICE), roofline_key(other, DEVICE), roofline_key(TARGET, replace(DEVICE, key="x"))})
        == 3
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("1000000000.0", "9000000000.0", 1),
        lambda text: text.replace('"format": 1', '"format": 0'),
        lambda text: "[" * 100_000,
        lambda text: "[1]",
        lambda text: "\0" * 100,
    ],
)
def test_a_damaged_file_is_measured_again(tmp_path: Path, damage: Any) -> None:
    meter = Meter()
    first = load_or_measure(TARGET, DEVICE, tmp_path, meter)
    (path,) = tmp_path.iterdir()
    path.write_text(damage(path.read_text()))
    assert load(path) is None
    assert load_or_measure(TARGET, DEVICE, tmp_path, meter) == first
    assert len(meter.calls) == 2
    assert load(path) == first


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_file_with_impossible_numbers_is_not_used(tmp_path: Path, rate: float) -> None:
    path = tmp_path / "r.json"
    save(path, replace(ROOFLINE, flop_per_s={**ROOFLINE.flop_per_s, "float32": rate}))
    assert load(path) is None
    save(path, ROOFLINE)
    assert load(path) == ROOFLINE


def test_a_busy_machine_is_measured_again_and_the_best_kept(tmp_path: Path) -> None:
    slow = Meter(noise=3.0)
    fast = Meter(noise=3.0, flop_per_s={"float32": 2e9, "int32": 0.5e9, "int8": 1e9})
    load_or_measure(TARGET, DEVICE, tmp_path, slow)
    merged = load_or_measure(TARGET, DEVICE, tmp_path, fast)
    assert merged.flop_per_s == {"float32": 2e9, "int32": 1e9, "int8": 1e9}
    for _ in range(10):
        load_or_measure(TARGET, DEVICE, tmp_path, slow)
    assert len(slow.calls) + len(fast.calls) == MAX_MEASUREMENTS
    quiet = replace(ROOFLINE, noise=1.0)
    assert best_of(replace(ROOFLINE, noise=9.0), quiet).noise == 1.0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_costs_only_the_keeping(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert load_or_measure(TARGET, DEVICE, tmp_path, Meter()).flop_per_s == MEASURED["flop_per_s"]


def test_a_folder_that_cannot_be_made_costs_only_the_keeping(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert load_or_measure(TARGET, DEVICE, tmp_path / "file", Meter()).flop_per_s == MEASURED["flop_per_s"]


def test_peaks_of_this_machine_are_plausible(worker: IsolatedWorker) -> None:
    target = native_target()
    answer = worker.call("peaks.measure", {"target": target.attrs, "n_threads": N_THREADS}, 60)
    rates, sizes = answer["flop_per_s"], [size for size, _ in answer["bandwidth"]]
    assert {"float32", "int32", "int8"} <= rates.keys()
    # One thread of any CPU since 2013 does at least a vector operation in four cycles at 1 GHz; none does 1e13.
    assert all(1e9 < rate < N_THREADS * 1e13 for rate in rates.values())
    assert rates["int8"] >= rates["int32"] / 2
    assert sizes == sorted(sizes)
    assert all(1e8 < rate < N_THREADS * 1e12 for _, rate in answer["bandwidth"])
    assert answer["noise"] >= 1.0
    # No matrix product beats it, not even a library's; the slack is for what else runs here.
    a = np.ones((512, 512), dtype=np.float32)
    seconds = min(timeit.repeat(lambda: a @ a, number=1, repeat=20))
    assert 2 * 512**3 / seconds < 1.3 * rates["float32"] * max(1, (os.cpu_count() or 1) / N_THREADS)


def test_slow_first_calls_do_not_hide_the_cost_of_a_call(worker: IsolatedWorker) -> None:
    per_count_us = worker.call("test.late_starter", {"n_slow": 4, "us_per_count": 1.0}, 60)
    assert 1.0 <= per_count_us < 1.2  # 12 us for each call would be 2.2 a count if ten counts were timed


def test_peak_kernels_use_full_vectors(worker: IsolatedWorker) -> None:
    def text(mcpu: str, dtype: str) -> str:
        attrs = parse_target(f"llvm -mcpu={mcpu}", HOST).attrs
        return str(worker.call("test.disassemble", {"target": attrs, "dtype": dtype}, 60))

    spr = text("sapphirerapids", "float32")
    multiply_adds = [line for line in spr.splitlines() if "vfmadd" in line and "ps" in line]
    assert len(multiply_adds) >= 12
    assert all("zmm" in line and "(" not in line for line in multiply_adds)  # registers only
    assert "vfmadd213ph" in text("sapphirerapids", "float16")
    assert "vpdpbusd" in text("sapphirerapids", "int8")
    haswell = [line for line in text("haswell", "float32").splitlines() if "vfmadd" in line]
    assert len(haswell) >= 10
    assert all("ymm" in line and "(" not in line for line in haswell)
    assert "vpmaddwd" in text("haswell", "int8")
    assert "sdot" in text("neoverse-n1", "int8")
    assert "fmla" in text("neoverse-n1", "float32")


def test_each_thread_is_pinned_to_a_cpu_of_its_own(worker: IsolatedWorker) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    answer = worker.call("test.placement", {"n_threads": N_THREADS}, 60)
    if len(allowed) < N_THREADS:
        assert answer["cpus"] == []
        return
    assert len(set(answer["cpus"])) == N_THREADS
    assert set(answer["cpus"]) <= set(allowed)
    assert answer["threads"] == [[cpu] for cpu in answer["cpus"]]
    if len(allowed) == N_THREADS:
        assert answer["again"] == answer["cpus"]
