"""Hosts for tests, made from what LLVM says a CPU has."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.targets.catalogue import load_catalogue
from tuner.targets.host import Host
from tuner.targets.isa import FLAGS_BY_ARCH


def fake_host(
    *,
    flags_of: str = "",
    without: Iterable[str] = (),
    flags: Iterable[str] | None = None,
    arch: str = "x86_64",
    vendor: str = "GenuineIntel",
    part: tuple[int, int] = (6, 143),
    n_cores: int = 8,
) -> Host:
    """A Linux host with the flags that LLVM's CPU `flags_of` needs, less the LLVM features `without`."""
    if flags is None:
        table = FLAGS_BY_ARCH[arch]
        flags = {table[f] for f in load_catalogue().isa[arch][flags_of] if f not in set(without)} - {""}
    return Host(
        system="linux",
        arch=arch,
        vendor=vendor,
        model_name="Test CPU",
        family=part[0],
        model=part[1],
        flags=frozenset(flags),
        affinity=tuple(range(n_cores)),
        quota_cores=None,
    )


SKYLAKE_NO_AVX512 = fake_host(flags_of="skylake", part=(6, 94))
ICELAKE_VM = fake_host(flags_of="icelake-server", part=(6, 106))
ZEN3 = fake_host(flags_of="znver3", vendor="AuthenticAMD", part=(25, 33))
NEOVERSE_N1 = fake_host(flags_of="neoverse-n1", arch="aarch64", vendor="arm-0x41", part=(0x41, 0xD0C))
UNKNOWN_ARM = fake_host(
    flags=("fp", "asimd", "asimdhp", "asimddp", "sve", "atomics"), arch="aarch64", vendor="arm-0x99", part=(0x99, 1)
)
