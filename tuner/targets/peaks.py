"""The roofline: how fast the target's code can go on this machine. Measured once by a child, kept in a file.

The file lies in a cache folder and is named by all that decides its numbers. A damaged one is measured again.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuner.targets.device import Device
from tuner.targets.target import Target
from tuner.targets.toolchain import toolchain_versions

FORMAT = 1
# Median over best of the samples: above it the machine was busy, and the peaks may be too low.
QUIET_NOISE = 1.5
MAX_MEASUREMENTS = 4

# What to use for a dtype that isn't measured; the code that TVM generates widens these.
_STAND_INS: Mapping[str, tuple[str, float]] = {
    "float16": ("float32", 1.0),
    "bfloat16": ("float32", 1.0),
    "float64": ("float32", 0.5),
    "uint8": ("int8", 1.0),
    "int16": ("int8", 0.5),
    "uint16": ("int8", 0.5),
    "uint32": ("int32", 1.0),
    "int64": ("int32", 0.5),
    "uint64": ("int32", 0.5),
    "bool": ("int8", 1.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Upper bounds of a target's code on one device with one thread count.

    `flop_per_s` by dtype counts a multiply-add as two; int8 accumulates into int32. `how` says which instruction was
    timed. `bandwidth` is ((working set in bytes, bytes per second), ...) from small to large: reads, or reads and
    writes, whichever is faster. `caches` are the bytes of each level that all threads have together. `noise` is the
    worst median over best among the samples; `n_measured` counts the measurements that this is the best of.
    """

    flop_per_s: dict[str, float]
    how: dict[str, str]
    bandwidth: tuple[tuple[float, float], ...]
    caches: dict[str, int]
    n_threads: int
    noise: float
    n_measured: int = 1

    def peak_flop_per_s(self, dtype: str) -> float:
        """For a dtype that isn't measured, that of the dtype it is computed in; float32's where none is known."""
        if dtype in self.flop_per_s:
            return self.flop_per_s[dtype]
        name, factor = _STAND_INS.get(dtype, ("float32", 1.0))
        return self.flop_per_s[name] * factor

    def bytes_per_s(self, bytes_moved: float) -> float:
        """The bandwidth of a working set of that size, interpolated between the measured ones (on log scales).

        A small operator runs from cache: against memory's bandwidth it would seem to beat the roofline.
        """
        points = self.bandwidth
        if bytes_moved <= points[0][0]:
            return points[0][1]
        for (size_a, rate_a), (size_b, rate_b) in itertools.pairwise(points):
            if bytes_moved <= size_b:
                share = math.log(bytes_moved / size_a) / math.log(size_b / size_a)
                return float(rate_a * (rate_b / rate_a) ** share)
        return points[-1][1]

    def memory_level(self, bytes_moved: float) -> str:
        """The smallest level that holds the working set: "L1d", "L2", "L3" or "memory"."""
        for name in ("L1d", "L2", "L3"):
            if bytes_moved <= self.caches.get(name, 0):
                return name
        return "memory"

    def bound_s(self, flop: float, bytes_moved: float, dtype: str) -> tuple[float, str]:
        """The least seconds one call can take, and what sets them: "compute" or "memory".

        Args:
            flop: operations of one call.
            bytes_moved: each argument read or written once; also the working set that picks the bandwidth.
            dtype: the dtype that is multiplied (int8 for int8 into int32; float32 where float16 is widened first).
        """
        compute_s = flop / self.peak_flop_per_s(dtype)
        memory_s = bytes_moved / self.bytes_per_s(bytes_moved)
        return (compute_s, "compute") if compute_s >= memory_s else (memory_s, "memory")

    def fraction(self, latency_s: float, flop: float, bytes_moved: float, dtype: str) -> float:
        """The share of the roofline that a latency reaches. Slightly above 1 is possible: the bound is measured too."""
        return self.bound_s(flop, bytes_moved, dtype)[0] / latency_s

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "bandwidth": [list(point) for point in self.bandwidth]}


def load_or_measure(
    target: Target, device: Device, folder: Path, measure: Callable[[dict[str, Any], int], dict[str, Any]]
) -> Roofline:
    """The kept roofline, or a fresh one that is then kept.

    One that was measured on a busy machine is measured again the next few times, and the best of each number kept.

    Args:
        folder: where rooflines are kept; made if missing. If it can't be written, nothing is kept.
        measure: runs the job "peaks.measure" (tuner/targets/peak_kernels.py) in a child, as (target dict, threads).
    """
    path = folder / f"{roofline_key(target, device)}.json"
    kept = load(path)
    if kept is not None and (kept.noise <= QUIET_NOISE or kept.n_measured >= MAX_MEASUREMENTS):
        return kept
    fresh = _from_measurement(measure(target.attrs, target.n_cores), device)
    roofline = fresh if kept is None else best_of(kept, fresh)
    with contextlib.suppress(OSError):
        save(path, roofline)
    return roofline


def roofline_key(target: Target, device: Device) -> str:
    """Names the file: device, target, threads, and the toolchain that made the code."""
    versions = toolchain_versions()
    parts = [FORMAT, device.key, target.canonical_json(), target.n_cores, versions["tvm"], versions["llvm"]]
    return f"roofline-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]}"


def load(path: Path) -> Roofline | None:
    """What `save` wrote; None where nothing, something damaged or something of another format lies."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("format") != FORMAT or data.pop("sha256") != _checksum(data):
            return None
        points = tuple((float(size), float(rate)) for size, rate in data.pop("bandwidth"))
        roofline = Roofline(**data, bandwidth=points)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return roofline if _is_sound(roofline) else None


def save(path: Path, roofline: Roofline) -> None:
    """Writes the file whole or not at all; readers never see half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = roofline.to_dict()
    text = json.dumps({"format": FORMAT, "sha256": _checksum(data), **data}, indent=1)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".roofline-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def best_of(a: Roofline, b: Roofline) -> Roofline:
    """Each number from the measurement that was disturbed less: the higher one."""
    return Roofline(
        flop_per_s={name: max(rate, b.flop_per_s.get(name, 0.0)) for name, rate in a.flop_per_s.items()},
        how=a.how,
        bandwidth=_never_rising([(size, max(rate, b.bytes_per_s(size))) for size, rate in a.bandwidth]),
        caches=a.caches,
        n_threads=a.n_threads,
        noise=min(a.noise, b.noise),
        n_measured=a.n_measured + b.n_measured,
    )


def _from_measurement(data: dict[str, Any], device: Device) -> Roofline:
    n_threads = int(data["n_threads"])
    shared = {"L3": 1}
    return Roofline(
        flop_per_s={str(name): float(rate) for name, rate in data["flop_per_s"].items()},
        how={str(name): str(text) for name, text in data["how"].items()},
        bandwidth=_never_rising([(float(size), float(rate)) for size, rate in data["bandwidth"]]),
        caches={name: size * shared.get(name, n_threads) for name, size in device.caches.items()},
        n_threads=n_threads,
        noise=float(data["noise"]),
    )


def _never_rising(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """A smaller working set can go at least as fast as a larger one; where it seems slower it was disturbed."""
    rates = itertools.accumulate((rate for _, rate in reversed(points)), max)
    return tuple(zip((size for size, _ in points), reversed(list(rates)), strict=True))


def _checksum(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _is_sound(roofline: Roofline) -> bool:
    rates = [*roofline.flop_per_s.values(), *(rate for _, rate in roofline.bandwidth)]
    sizes = [size for size, _ in roofline.bandwidth]
    return (
        {"float32", "int8", "int32"} <= roofline.flop_per_s.keys()
        and bool(sizes)
        and sizes == sorted(set(sizes))
        and all(math.isfinite(rate) and rate > 0 for rate in rates)
    )
