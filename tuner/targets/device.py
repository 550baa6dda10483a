"""The machine that is timed: what it is, and the key under which its latencies compare."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuner.targets.host import Host, detect_host, read_text
from tuner.targets.target import Target, native_target


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A fingerprint. Latencies compare only between devices of one `key`.

    `key` covers what makes latencies comparable: vendor, model, microarchitecture, instruction set, cores used and
    threads per core. The rest is for people: `caches` in bytes by name ("L1d", "L2", "L3"), each of one core's view;
    `os` is the kernel's class ("linux 6.1"); `governor`, `turbo` and `hypervisor` are None where unreadable or absent.
    """

    key: str
    kind: str
    vendor: str
    model: str
    family: int
    model_number: int
    microarch: str
    features: tuple[str, ...]
    cores_used: int
    cores_usable: int
    threads_per_core: int
    caches: dict[str, int]
    memory_bytes: int
    os: str
    governor: str | None
    turbo: bool | None
    hypervisor: str | None

    @property
    def label(self) -> str:
        """For people: "Intel(R) Xeon(R) Processor (sapphirerapids), 2 cores"."""
        return f"{self.model} ({self.microarch}), {self.cores_used} core{'s' if self.cores_used > 1 else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for records and JSON, with "label" added."""
        return {**asdict(self), "features": list(self.features), "label": self.label}


def detect_device(target: Target, host: Host | None = None, root: Path = Path("/")) -> Device:
    """This machine as `target` uses it: a target of fewer cores is another device."""
    host = host or detect_host(root)
    cpu = root / "sys/devices/system/cpu"
    first = cpu / f"cpu{host.affinity[0] if host.affinity else 0}"
    microarch = str(native_target(host).attrs["mcpu"])
    features = tuple(sorted(host.isa))
    threads_per_core = _threads_per_core(first)
    identity = {
        "arch": host.arch,
        "vendor": host.vendor,
        "model": host.model_name,
        "family": host.family,
        "model_number": host.model,
        "microarch": microarch,
        "features": features,
        "cores_used": target.n_cores,
        "threads_per_core": threads_per_core,
    }
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return Device(
        key=hashlib.sha256(text.encode()).hexdigest()[:16],
        kind="cpu",
        vendor=host.vendor,
        model=host.model_name,
        family=host.family,
        model_number=host.model,
        microarch=microarch,
        features=features,
        cores_used=target.n_cores,
        cores_usable=host.n_cores,
        threads_per_core=threads_per_core,
        caches=cache_sizes(first),
        memory_bytes=_memory_bytes(root),
        os=f"{host.system} {'.'.join(platform.release().split('.')[:2])}",
        governor=read_text(first / "cpufreq/scaling_governor"),
        turbo=_turbo(cpu),
        hypervisor=_hypervisor(host, root),
    )


def cache_sizes(cpu: Path) -> dict[str, int]:
    """Bytes of each data or unified cache that one CPU (its folder in /sys) sees: {"L1d": ..., "L2": ...}."""
    sizes: dict[str, int] = {}
    for folder in sorted((cpu / "cache").glob("index*")):
        level, kind, size = (read_text(folder / name) for name in ("level", "type", "size"))
        if level and kind in ("Data", "Unified") and size and size[:-1].isdigit() and size[-1] in "KMG":
            sizes[f"L{level}{'d' if kind == 'Data' else ''}"] = int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]
    return sizes


def _threads_per_core(cpu: Path) -> int:
    siblings = read_text(cpu / "topology/thread_siblings_list") or ""
    count = 0
    for part in siblings.split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            count += int(high) - int(low) + 1 if high.isdigit() else 1
    return max(1, count)


def _memory_bytes(root: Path) -> int:
    for line in (read_text(root / "proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) << 10
    return 0


def _turbo(cpu: Path) -> bool | None:
    no_turbo = read_text(cpu / "intel_pstate/no_turbo")
    if no_turbo is not None:
        return no_turbo == "0"
    boost = read_text(cpu / "cpufreq/boost")
    return None if boost is None else boost == "1"


def _hypervisor(host: Host, root: Path) -> str | None:
    """Who virtualises: the firmware's vendor name if readable, else "yes"; None on bare metal."""
    if "hypervisor" not in host.flags:
        return None
    return read_text(root / "sys/class/dmi/id/sys_vendor") or read_text(root / "sys/hypervisor/type") or "yes"
