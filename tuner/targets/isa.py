"""Instruction-set features: how Linux spells them, how LLVM does, and which LLVM CPU fits a host best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# LLVM feature -> flag in /proc/cpuinfo. Only features that generated code may use: a host without one of them
# would stop with SIGILL (or, for AMX, can't be offered tile code).
X86_FLAGS: Mapping[str, str] = {
    "cmov": "cmov",
    "cx16": "cx16",
    "sahf": "lahf_lm",
    "sse": "sse",
    "sse2": "sse2",
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "sse4a": "sse4a",
    "popcnt": "popcnt",
    "lzcnt": "abm",
    "movbe": "movbe",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "tbm": "tbm",
    "xop": "xop",
    "fma4": "fma4",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "gfni": "gfni",
    "avxvnni": "avx_vnni",
    "avxifma": "avx_ifma",
    "avxneconvert": "avx_ne_convert",
    "avxvnniint8": "avx_vnni_int8",
    "avxvnniint16": "avx_vnni_int16",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512vp2intersect": "avx512_vp2intersect",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
    "amx-fp16": "amx_fp16",
    "amx-complex": "amx_complex",
    # Linux has no flag for these: a host never counts as having them.
    "avx10.1": "",
    "avx10.2": "",
    "amx-avx512": "",
    "amx-fp8": "",
    "amx-movrs": "",
    "amx-tf32": "",
    "egpr": "",
}

ARM_FLAGS: Mapping[str, str] = {
    "neon": "asimd",
    "fullfp16": "asimdhp",
    "fp16fml": "asimdfhm",
    "dotprod": "asimddp",
    "rdm": "asimdrdm",
    "complxnum": "fcma",
    "lse": "atomics",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
    "sme": "sme",
    "sme2": "sme2",
}

FLAGS_BY_ARCH: Mapping[str, Mapping[str, str]] = {"x86_64": X86_FLAGS, "aarch64": ARM_FLAGS}

# In order of preference among equally fitting names: servers first, since that is where tuning is run.
INTEL_CPUS = (
    *("sapphirerapids", "graniterapids", "graniterapids-d", "diamondrapids", "icelake-server", "cooperlake"),
    *("cascadelake", "skylake-avx512", "tigerlake", "cannonlake", "alderlake", "arrowlake-s", "sierraforest"),
    *("clearwaterforest", "lunarlake", "pantherlake", "skylake", "broadwell", "haswell", "ivybridge", "sandybridge"),
    *("westmere", "nehalem", "tremont", "goldmont", "silvermont", "penryn", "core2"),
)
AMD_CPUS = ("znver5", "znver4", "znver3", "znver2", "znver1", "bdver4", "bdver3", "bdver2", "bdver1", "btver2")
OTHER_X86_CPUS = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64")
X86_CPUS_BY_VENDOR: Mapping[str, tuple[str, ...]] = {
    "GenuineIntel": INTEL_CPUS + OTHER_X86_CPUS,
    "AuthenticAMD": AMD_CPUS + OTHER_X86_CPUS,
    "HygonGenuine": AMD_CPUS + OTHER_X86_CPUS,
}

# (CPU implementer, CPU part) of /proc/cpuinfo, from Arm's, Ampere's and Fujitsu's reference manuals (MIDR_EL1).
ARM_CPUS_BY_PART: Mapping[tuple[int, int], str] = {
    (0x41, 0xD03): "cortex-a53",
    (0x41, 0xD05): "cortex-a55",
    (0x41, 0xD07): "cortex-a57",
    (0x41, 0xD08): "cortex-a72",
    (0x41, 0xD09): "cortex-a73",
    (0x41, 0xD0A): "cortex-a75",
    (0x41, 0xD0B): "cortex-a76",
    (0x41, 0xD0C): "neoverse-n1",
    (0x41, 0xD0D): "cortex-a77",
    (0x41, 0xD40): "neoverse-v1",
    (0x41, 0xD41): "cortex-a78",
    (0x41, 0xD42): "cortex-a78ae",
    (0x41, 0xD49): "neoverse-n2",
    (0x41, 0xD4F): "neoverse-v2",
    (0x41, 0xD84): "neoverse-v3",
    (0x41, 0xD8E): "neoverse-n3",
    (0x46, 0x001): "a64fx",
    (0x48, 0xD01): "tsv110",
    (0xC0, 0xAC3): "ampere1",
    (0xC0, 0xAC4): "ampere1a",
}


def isa_from_flags(arch: str, flags: Iterable[str]) -> frozenset[str]:
    """LLVM's names of the features among /proc/cpuinfo's `flags`; empty for an architecture without a table."""
    have = set(flags)
    return frozenset(name for name, flag in FLAGS_BY_ARCH.get(arch, {}).items() if flag in have)


def best_llvm_cpu(
    candidates: Iterable[str], isa: frozenset[str], isa_of_cpu: Mapping[str, frozenset[str]]
) -> tuple[str, tuple[str, ...]]:
    """The candidate whose features differ least from `isa`, and the "-x" and "+x" that remove the difference.

    LLVM's own detection goes by family and model, which a hypervisor may fake; this goes by what is there.
    `candidates` come in order of preference and those LLVM doesn't know are skipped; at least one must be known.
    """
    known = [name for name in candidates if name in isa_of_cpu]
    best = min(known, key=lambda name: len(isa_of_cpu[name] ^ isa))
    lacking = sorted(isa_of_cpu[best] - isa)
    extra = sorted(isa - isa_of_cpu[best])
    return best, tuple([f"-{name}" for name in lacking] + [f"+{name}" for name in extra])
