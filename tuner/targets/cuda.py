"""CUDA architectures: the four limits that TVM needs and doesn't fill in itself."""

from __future__ import annotations

from collections.abc import Mapping

_OLD = {"registers_per_block": 32768}
_USUAL = {
    "max_shared_memory_per_block": 49152,
    "max_threads_per_block": 1024,
    "registers_per_block": 65536,
    "thread_warp_size": 32,
}

# From the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". Shared memory is the limit of
# a static allocation, the same for all; more needs an opt-in that TVM doesn't make.
CUDA_LIMITS: Mapping[str, Mapping[str, int]] = {
    **{f"sm_{cc}": _USUAL for cc in (50, 52, 60, 61, 70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)},
    **{f"sm_{cc}": {**_USUAL, **_OLD} for cc in (53, 62)},
}


def cuda_arch_base(arch: str) -> str:
    """Without the suffix: "sm_90a" (this chip only) and "sm_100f" (this family) have the limits of the plain name."""
    return arch[:-1] if arch[-1:] in ("a", "f") and arch[:-1] in CUDA_LIMITS else arch
