"""What this process may use of the machine it runs on: CPU, instruction set, cores. Read from /proc and /sys only."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tuner.targets.isa import isa_from_flags

ARCH_ALIASES: Mapping[str, str] = {"arm64": "aarch64", "amd64": "x86_64"}
_MAX_CPUINFO_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """`n_cores` is what this process may use: affinity mask and cgroup quota, at least 1.

    `family` and `model` are x86's, or Arm's implementer and part. `isa` holds LLVM's feature names. `quota_cores` is
    the tightest cgroup CPU quota in cores, None without one.
    """

    system: str
    arch: str
    vendor: str
    model_name: str
    family: int
    model: int
    flags: frozenset[str]
    affinity: tuple[int, ...]
    quota_cores: float | None

    @property
    def isa(self) -> frozenset[str]:
        return isa_from_flags(self.arch, self.flags)

    @property
    def n_cores(self) -> int:
        n = len(self.affinity)
        if self.quota_cores is not None:
            n = min(n, int(self.quota_cores))
        return max(1, n)


def detect_host(root: Path = Path("/"), affinity: Iterable[int] | None = None, machine: str | None = None) -> Host:
    """Reads the host in about a millisecond. `root`, `affinity` and `machine` replace the real ones in tests."""
    machine = (machine or platform.machine()).lower()
    arch = ARCH_ALIASES.get(machine, machine)
    info = _first_cpu(root)
    if affinity is None:
        affinity = _own_affinity()
    flags = info.get("flags") or info.get("Features") or ""
    arm = "CPU implementer" in info
    return Host(
        system=platform.system().lower(),
        arch=arch,
        vendor=info.get("vendor_id") or (f"arm-{info['CPU implementer']}" if arm else "unknown"),
        model_name=" ".join((info.get("model name") or info.get("Processor") or "unknown").split()),
        family=_int(info.get("CPU implementer" if arm else "cpu family")),
        model=_int(info.get("CPU part" if arm else "model")),
        flags=frozenset(flags.split()),
        affinity=tuple(sorted(affinity)),
        quota_cores=cpu_quota_cores(root),
    )


def read_text(path: Path) -> str | None:
    """A small /proc or /sys file, stripped; None where it is missing or unreadable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def cpu_quota_cores(root: Path = Path("/")) -> float | None:
    """The tightest CPU quota over this process's cgroup and its ancestors, in cores; v1 and v2. None: no limit."""
    mounts = _cgroup_mounts(root)
    quotas: list[float] = []
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        _, controllers, path = parts
        kind = "v2" if controllers == "" else "v1" if "cpu" in controllers.split(",") else None
        if kind is None or kind not in mounts:
            continue
        mount, mount_root = mounts[kind]
        for folder in _ancestors(root / mount.lstrip("/"), mount_root, path):
            quota = _quota_v2(folder) if kind == "v2" else _quota_v1(folder)
            if quota is not None:
                quotas.append(quota)
    return min(quotas) if quotas else None


def _ancestors(mount: Path, mount_root: str, path: str) -> list[Path]:
    """The cgroup's folder and those above it, up to the mount; just the mount if `path` lies outside of it."""
    try:
        relative = PurePosixPath(path).relative_to(mount_root)
    except ValueError:
        return [mount]
    parts = [p for p in relative.parts if p not in ("/", "..")]
    return [mount.joinpath(*parts[:n]) for n in range(len(parts), -1, -1)]


def _cgroup_mounts(root: Path) -> dict[str, tuple[str, str]]:
    """{"v1" or "v2": (mount point, root within the hierarchy)} for the hierarchies that can limit the CPU."""
    found: dict[str, tuple[str, str]] = {}
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        before, separator, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if not separator or len(fields) < 5 or not kind:
            continue
        if kind[0] == "cgroup2":
            found.setdefault("v2", (fields[4], fields[3]))
        elif kind[0] == "cgroup" and len(kind) > 2 and "cpu" in kind[2].split(","):
            found.setdefault("v1", (fields[4], fields[3]))
    return found


def _quota_v2(folder: Path) -> float | None:
    fields = (read_text(folder / "cpu.max") or "").split()
    return _ratio(fields[0], fields[1]) if len(fields) == 2 else None


def _quota_v1(folder: Path) -> float | None:
    quota, period = read_text(folder / "cpu.cfs_quota_us"), read_text(folder / "cpu.cfs_period_us")
    return _ratio(quota, period) if quota and period else None


def _ratio(quota: str, period: str) -> float | None:
    """None for "max", -1 and anything that isn't a positive number."""
    try:
        q, p = int(quota), int(period)
    except ValueError:
        return None
    return q / p if q > 0 and p > 0 else None


def _own_affinity() -> Iterable[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _first_cpu(root: Path) -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo: the file is long and slow to make on large machines."""
    fields: dict[str, str] = {}
    try:
        with open(root / "proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, separator, value = line.partition(":")
                name = name.strip()
                if (not separator and fields) or (name == "processor" and "processor" in fields):
                    break
                if separator:
                    fields.setdefault(name, value.strip()[:_MAX_CPUINFO_BYTES])
    except OSError:
        return {}
    return fields


def _int(text: str | None) -> int:
    try:
        return int(text or "0", 0)
    except ValueError:
        return 0
