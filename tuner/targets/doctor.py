"""Is this machine fit to tune on? Each check is plain data; nothing is printed, nothing is changed."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from tuner.config import Limits
from tuner.errors import TargetError, TunesmithError
from tuner.measure.worker import IsolatedWorker
from tuner.measure.zygote import Zygote
from tuner.targets.device import Device, detect_device
from tuner.targets.host import Host, detect_host, read_text
from tuner.targets.target import Target, native_target
from tuner.targets.toolchain import toolchain_versions

MIN_FREE_DISK_BYTES = 1 << 30
MIN_FREE_MEMORY_BYTES = 2 << 30
MAX_SPREAD = 1.25
MAX_STEAL = 0.02
MAX_OTHERS = 0.25
GOOD_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen")
_TVM_TIMEOUT_S = 60.0
_LOOK_S = 0.6
_ROOT = Path("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`detail` is what was found, in one line; `hint` what to do about it, empty where nothing need be done."""

    name: str
    ok: bool
    detail: str
    hint: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def run_checks(data_dir: Path | None = None) -> list[Check]:
    """All checks of the machine and the toolchain; takes about two seconds. The database's own is the caller's.

    `data_dir` is where results are kept; by default the user's data folder.
    """
    host = detect_host()
    try:
        target = native_target(host)
    except TargetError as error:
        return [Check(name="cpu", ok=False, detail=str(error), hint="give --target to name the CPU")]
    device = detect_device(target, host)
    return [
        *check_tvm(target),
        check_cpu(host, device),
        check_cores(host),
        *check_timing(host),
        check_clock(),
        check_frequency(device),
        check_memory(),
        check_disk(data_dir or platformdirs.user_data_path("tunesmith")),
        check_cuda(),
    ]


def check_tvm(target: Target) -> list[Check]:
    """Starts TVM in a child: the versions fit together, and its threads are the target's cores."""
    versions = toolchain_versions()
    text = ", ".join(f"{name} {versions[name]}" for name in ("tvm", "tvm-ffi", "llvm", "python"))
    limits = Limits()
    start = time.perf_counter()
    try:
        with (
            Zygote(target.n_cores) as zygote,
            IsolatedWorker(zygote, jobs_per_worker=1, extra_memory_bytes=limits.extra_memory_bytes) as worker,
        ):
            answer = worker.call("target.check", {"target": target.attrs}, _TVM_TIMEOUT_S)
    except TunesmithError as error:
        hint = "reinstall from the lock file: pip install --require-hashes -r requirements.lock"
        return [Check(name="tvm", ok=False, detail=f"{text}: {error}", hint=hint)]
    seconds = time.perf_counter() - start
    threads, cores = int(answer["n_threads"]), target.n_cores
    return [
        Check(name="tvm", ok=True, detail=f"{text}; ready in {seconds:.1f} s"),
        Check(
            name="threads",
            ok=threads == cores,
            detail=f"TVM uses {threads} of {cores} cores",
            hint="" if threads == cores else "something overrides TVM_NUM_THREADS",
        ),
    ]


def check_cpu(host: Host, device: Device) -> Check:
    vectors = [n for n in ("amx-int8", "avx512fp16", "avx512f", "avx2", "sve", "neon") if n in host.isa]
    where = f", virtual ({device.hypervisor})" if device.hypervisor else ""
    return Check(name="cpu", ok=True, detail=f"{device.label}; {', '.join(vectors) or 'no vectors'}{where}")


def check_cores(host: Host) -> Check:
    quota = host.quota_cores
    detail = f"{host.n_cores} usable: {len(host.affinity)} by affinity, CPU quota {quota or 'none'}"
    if quota is not None and quota != int(quota):
        hint = "a quota of whole cores gives steadier timings: a fraction is taken away in pauses"
        return Check(name="cores", ok=False, detail=detail, hint=hint)
    return Check(name="cores", ok=True, detail=detail)


def check_timing(host: Host, root: Path = _ROOT, work: Callable[[], object] | None = None) -> list[Check]:
    """Times the same work many times while watching /proc/stat: spread, stolen time, what others take."""
    work = work or (lambda: sum(range(20_000)))
    before, own_before = _cpu_seconds(root), time.process_time()
    start = time.perf_counter()
    samples: list[float] = []
    while time.perf_counter() < start + _LOOK_S or len(samples) < 10:
        begin = time.perf_counter()
        work()
        samples.append(time.perf_counter() - begin)
    elapsed = time.perf_counter() - start
    after, own = _cpu_seconds(root), time.process_time() - own_before
    spread = statistics.quantiles(samples, n=10)[-1] / statistics.median(samples)
    checks = [
        Check(
            name="noise",
            ok=spread <= MAX_SPREAD,
            detail=f"one in ten samples of the same work takes {spread:.2f} times the median or more",
            hint="" if spread <= MAX_SPREAD else "close other programs; a quiet machine tunes better",
        )
    ]
    if before is None or after is None:
        return checks
    steal = (after["steal"] - before["steal"]) / elapsed
    others = max(0.0, (after["busy"] - before["busy"] - own) / elapsed)
    n_cpus = max(1, len(host.affinity))
    return [
        *checks,
        Check(
            name="steal",
            ok=steal / n_cpus <= MAX_STEAL,
            detail=f"the hypervisor takes {steal / n_cpus:.1%} of the CPU time",
            hint="" if steal / n_cpus <= MAX_STEAL else "another virtual machine competes; use a dedicated one",
        ),
        Check(
            name="load",
            ok=others <= MAX_OTHERS,
            detail=f"other processes use {others:.1f} of {n_cpus} cores",
            hint="" if others <= MAX_OTHERS else "stop them while tuning: latencies and speed-ups suffer",
        ),
    ]


def check_clock(root: Path = _ROOT) -> Check:
    name = read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    if name is None:
        return Check(name="clock", ok=True, detail="clock source not readable")
    ok = name in GOOD_CLOCKS
    hint = "" if ok else "short kernels can't be timed well; boot with clocksource=tsc if the machine allows"
    return Check(name="clock", ok=ok, detail=f"clock source {name}", hint=hint)


def check_frequency(device: Device) -> Check:
    turbo = {None: "not readable", True: "on", False: "off"}[device.turbo]
    ok = device.governor in (None, "performance", "schedutil")
    hint = "" if ok else "cpupower frequency-set -g performance gives steadier timings"
    detail = f"governor {device.governor or 'not readable'}, turbo {turbo}"
    return Check(name="frequency", ok=ok, detail=detail, hint=hint)


def check_memory(root: Path = _ROOT) -> Check:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", read_text(root / "proc/meminfo") or "", re.MULTILINE)
    if found is None:
        return Check(name="memory", ok=True, detail="free memory not readable")
    free = int(found[1]) << 10
    ok = free >= MIN_FREE_MEMORY_BYTES
    hint = "" if ok else f"{MIN_FREE_MEMORY_BYTES / 2**30:.0f} GiB are needed for the workers; close other programs"
    return Check(name="memory", ok=ok, detail=f"{free / 2**30:.1f} GiB available", hint=hint)


def check_disk(folder: Path) -> Check:
    existing = next((p for p in (folder, *folder.parents) if p.exists()), _ROOT)
    free = shutil.disk_usage(existing).free
    if not os.access(existing, os.W_OK):
        return Check(name="disk", ok=False, detail=f"{existing} can't be written", hint="choose a place with --db")
    ok = free >= MIN_FREE_DISK_BYTES
    hint = "" if ok else f"keep {MIN_FREE_DISK_BYTES / 2**30:.0f} GiB free, or choose another place with --db"
    return Check(name="disk", ok=ok, detail=f"{free / 2**30:.1f} GiB free in {existing}", hint=hint)


def check_cuda(nvcc: Sequence[str] = ("nvcc",)) -> Check:
    """CUDA is not tuned in this version, so its absence is no fault; a broken compiler is."""
    path = shutil.which(nvcc[0])
    if path is None:
        return Check(name="cuda", ok=True, detail="no nvcc; CPU targets don't need it")
    try:
        done = subprocess.run(
            [path, *nvcc[1:], "--list-gpu-arch"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        hint = "reinstall the CUDA toolkit, or ignore this for CPU targets"
        return Check(name="cuda", ok=False, detail=f"{path} fails: {error}", hint=hint)
    arches = re.findall(r"compute_(\w+)", done.stdout)
    detail = f"{path}, architectures {', '.join(f'sm_{a}' for a in arches) or 'none'}"
    return Check(name="cuda", ok=True, detail=detail)


def _cpu_seconds(root: Path) -> dict[str, float] | None:
    """{"busy", "steal"} in CPU seconds since boot, of all CPUs together; None if unreadable."""
    fields = (read_text(root / "proc/stat") or "").partition("\n")[0].split()
    if len(fields) < 9 or fields[0] != "cpu":
        return None
    user, nice, system, _, _, irq, softirq, steal = (int(f) / os.sysconf("SC_CLK_TCK") for f in fields[1:9])
    return {"busy": user + nice + system + irq + softirq, "steal": steal}
