"""Each check finds its fault on a made-up machine, and the whole runs on this one."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.targets.hosts import fake_host
from tests.targets.test_host import write
from tuner.targets import doctor
from tuner.targets.device import detect_device
from tuner.targets.target import native_target

HOST = fake_host(flags_of="sapphirerapids", n_cores=2)
DEVICE = detect_device(native_target(HOST), HOST)


def test_all_checks_run_here() -> None:
    checks = doctor.run_checks()
    names = [check.name for check in checks]
    assert len(set(names)) == len(names)
    assert {"tvm", "threads", "cpu", "cores", "noise", "clock", "memory", "disk", "cuda"} <= set(names)
    by_name = {check.name: check for check in checks}
    assert by_name["tvm"].ok
    assert by_name["threads"].ok
    assert all(check.detail and "\n" not in check.detail + check.hint for check in checks)
    assert all(check.ok or check.hint for check in checks)
    json.dumps([check.to_dict() for check in checks])


def test_a_tvm_that_cannot_start_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tvm.py").write_text("raise ImportError('broken install')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (check,) = doctor.check_tvm(native_target())
    assert not check.ok
    assert "requirements.lock" in check.hint


def test_fractional_quota() -> None:
    assert doctor.check_cores(replace(HOST, quota_cores=2.0)).ok
    check = doctor.check_cores(replace(HOST, quota_cores=1.5))
    assert not check.ok
    assert check.detail.startswith("1 usable")


def test_clock_memory_and_governor(tmp_path: Path) -> None:
    clock = "sys/devices/system/clocksource/clocksource0/current_clocksource"
    assert doctor.check_clock(write(tmp_path, {clock: "tsc\n"})).ok
    assert not doctor.check_clock(write(tmp_path, {clock: "hpet\n"})).ok
    assert doctor.check_memory(write(tmp_path, {"proc/meminfo": "MemAvailable:   8000000 kB\n"})).ok
    assert not doctor.check_memory(write(tmp_path, {"proc/meminfo": "MemAvailable:   1000000 kB\n"})).ok
    assert doctor.check_memory(tmp_path / "nothing").ok
    assert doctor.check_frequency(replace(DEVICE, governor=None)).ok
    assert not doctor.check_frequency(replace(DEVICE, governor="powersave")).ok


def test_uneven_work_is_noise(tmp_path: Path) -> None:
    calls = iter(range(10**9))
    uneven = doctor.check_timing(HOST, tmp_path, lambda: time.sleep(0.02 if next(calls) % 4 == 0 else 0.002))
    assert [check.name for check in uneven] == ["noise"]  # no /proc/stat there
    assert not uneven[0].ok


def test_steal_and_load_come_from_proc_stat(tmp_path: Path) -> None:
    stat = "cpu {busy} 0 0 1000 0 0 0 {steal} 0 0\n"
    write(tmp_path, {"proc/stat": stat.format(busy=0, steal=0)})
    calls = iter(range(10**9))

    def work() -> None:
        if next(calls) == 5:
            write(tmp_path, {"proc/stat": stat.format(busy=200, steal=50)})
        time.sleep(0.001)

    by_name = {check.name: check for check in doctor.check_timing(HOST, tmp_path, work)}
    assert not by_name["steal"].ok
    assert not by_name["load"].ok


def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = doctor.check_disk(tmp_path / "not" / "there" / "yet")
    assert str(tmp_path) in check.detail
    monkeypatch.setattr(doctor, "MIN_FREE_DISK_BYTES", 1 << 60)
    assert not doctor.check_disk(tmp_path).ok


def test_cuda_compiler(tmp_path: Path) -> None:
    assert doctor.check_cuda([str(tmp_path / "nvcc")]).ok
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho compute_75\necho compute_90\n")
    nvcc.chmod(0o755)
    assert "sm_75, sm_90" in doctor.check_cuda([str(nvcc)]).detail
    nvcc.write_text("#!/bin/sh\nexit 1\n")
    assert not doctor.check_cuda([str(nvcc)]).ok
