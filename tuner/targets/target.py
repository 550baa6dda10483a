"""What code is generated for. Text, JSON, tag or `native` come in; a checked, canonical Target goes out; no TVM."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.errors import TargetError
from tuner.targets.catalogue import Catalogue, load_catalogue
from tuner.targets.cuda import CUDA_LIMITS, cuda_arch_base
from tuner.targets.forms import shown, to_dict, unknown
from tuner.targets.host import ARCH_ALIASES, Host, detect_host
from tuner.targets.isa import ARM_CPUS_BY_PART, FLAGS_BY_ARCH, OTHER_X86_CPUS, X86_CPUS_BY_VENDOR, best_llvm_cpu

MAX_CORES = 4096
SUPPORTED_KINDS = ("llvm", "cuda")
# Options that TVM takes and we don't: they act on the whole process, ask a local device, or name another target.
_REFUSED = {
    "cl-opt": "it changes LLVM for the whole process",
    "jit": "object code is always loaded with ORC",
    "from_device": "name the target instead",
    "target_device_type": "it follows from the kind",
}
_STANDARD_KEYS = {"llvm": {"cpu", "x86", "arm_cpu", "riscv_cpu"}, "cuda": {"cuda", "gpu"}}
_DEFAULTS: Mapping[str, Any] = {"opt-level": 3, "max_num_threads": 1024}
_WORD = re.compile(r"[A-Za-z0-9_.+\-]{1,64}")
_TRIPLE = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_.]+){1,3}")
_VENDORS = ("unknown", "pc", "conda")
_CPU_SYNONYMS = {"skx": "skylake-avx512"}


@dataclass(frozen=True, slots=True)
class Target:
    """A target that TVM accepts as it stands. Make it with `parse_target`; equal targets have equal JSON.

    `text` is the canonical JSON: keys sorted, no spaces, what is missing filled in, defaults left out.
    """

    text: str

    @property
    def attrs(self) -> dict[str, Any]:
        """A fresh dict for `tvm.target.Target(...)`."""
        attrs: dict[str, Any] = json.loads(self.text)
        return attrs

    def canonical_json(self) -> str:
        return self.text

    @property
    def kind(self) -> str:
        return str(self.attrs["kind"])

    @property
    def arch(self) -> str:
        """ "x86_64", "aarch64", ... for CPU targets; "sm_80", ... for CUDA."""
        attrs = self.attrs
        return str(attrs["arch"]) if self.kind == "cuda" else _arch_of(attrs["mtriple"])

    @property
    def n_cores(self) -> int:
        """Threads that a CPU target's code runs on; for CUDA those of its host, 1 if it names none."""
        attrs = self.attrs
        return int(attrs["num-cores"] if self.kind == "llvm" else attrs.get("host", {}).get("num-cores", 1))

    @property
    def label(self) -> str:
        """For people: "sapphirerapids, 2 cores"."""
        attrs = self.attrs
        if self.kind == "cuda":
            return f"cuda {attrs['arch']}"
        changed = "".join(f" {m}" for m in attrs.get("mattr", ()))
        return f"{attrs['mcpu']}{changed}, {self.n_cores} core{'s' if self.n_cores > 1 else ''}"

    def isa(self) -> frozenset[str]:
        """LLVM features that the code may use (tuner/targets/isa.py); empty where no table exists."""
        attrs = self.attrs
        if self.kind != "llvm":
            return frozenset()
        isa = set(load_catalogue().isa[self.arch].get(attrs["mcpu"], ()))
        for change in attrs.get("mattr", ()):
            if change[1:] in FLAGS_BY_ARCH.get(self.arch, {}):
                (isa.add if change[0] == "+" else isa.discard)(change[1:])
        return frozenset(isa)

    def require_measurable_here(self, host: Host | None = None) -> None:
        """Raises TargetError, with one line that says why, if this machine can't run what the target is compiled to."""
        host = host or detect_host()
        attrs = self.attrs
        if self.kind == "cuda":
            raise TargetError(
                f"CUDA tuning isn't available in this version; {self.label} can be named and looked up, "
                "only CPU targets are measured"
            )
        if host.system != "linux" or "linux" not in attrs["mtriple"] or "android" in attrs["mtriple"]:
            raise TargetError(f"{attrs['mtriple']} code can't be measured on this {host.system} machine")
        if self.arch != host.arch:
            raise TargetError(f"{attrs['mcpu']} is {self.arch} code and can't be measured on this {host.arch} machine")
        missing = sorted(self.isa() - host.isa)
        if missing:
            raise TargetError(
                f"{attrs['mcpu']} can't be measured here: this CPU lacks {', '.join(missing)}; use --target native"
            )
        if self.n_cores > host.n_cores:
            raise TargetError(
                f"the target wants {self.n_cores} cores and this process may use {host.n_cores} "
                f"({len(host.affinity)} by affinity, CPU quota {host.quota_cores or 'none'}); "
                f"use num-cores {host.n_cores} or fewer"
            )


def parse_target(target: str | dict[str, Any], host: Host | None = None) -> Target:
    """Understands every form of a target; fills in what is missing from `host` (this machine) or from our tables.

    Raises:
        TargetError: unknown kind, tag, attribute, CPU or feature (near matches are named), or a value of a wrong type.
    """
    attrs = _resolve(to_dict(target), host or detect_host(), load_catalogue())
    return Target(json.dumps(attrs, sort_keys=True, separators=(",", ":")))


def native_target(host: Host | None = None) -> Target:
    return parse_target("native", host)


def _resolve(data: dict[str, Any], host: Host, catalogue: Catalogue, depth: int = 0) -> dict[str, Any]:
    if depth > 2:
        raise TargetError("the target's hosts are nested too deeply")
    tag = data.get("tag")
    if tag:
        if not isinstance(tag, str) or tag not in catalogue.tags:
            raise unknown("target tag", tag, catalogue.tags)
        data = {**catalogue.tags[tag], **{k: v for k, v in data.items() if k != "tag"}}
    kind = data.get("kind")
    if kind == "native":
        _refuse_beside_native(data)
        data = {**_native_attrs(host, catalogue), **{k: v for k, v in data.items() if k != "kind"}}
        kind = "llvm"
    if kind is None:
        raise TargetError(f'the target names no kind; add "kind": one of {", ".join(SUPPORTED_KINDS)}')
    if not isinstance(kind, str) or kind not in SUPPORTED_KINDS:
        if isinstance(kind, str) and kind in catalogue.kinds:
            raise TargetError(f"target kind {kind} isn't supported; supported: {', '.join(SUPPORTED_KINDS)}")
        raise unknown("target kind", kind, (*SUPPORTED_KINDS, "native"))
    attrs = _typed(kind, data, catalogue)
    own_host = attrs.pop("host", None)
    if kind == "cuda":
        _fill_cuda(attrs)
        if own_host is not None:
            attrs["host"] = _resolve(to_dict(own_host), host, catalogue, depth + 1)
    else:
        _fill_llvm(attrs, host, catalogue)
    keys = attrs.get("keys")
    if keys is not None and set(keys) <= _STANDARD_KEYS[kind]:
        del attrs["keys"]
    return {
        "kind": kind,
        **{n: v for n, v in attrs.items() if v is not False and v not in ("", []) and _DEFAULTS.get(n) != v},
    }


def _refuse_beside_native(data: dict[str, Any]) -> None:
    others = sorted(str(k) for k in data if k not in ("kind", "tag", "num-cores"))
    if others:
        raise TargetError(f"native takes only num-cores, got {shown(others[0])}; start from 'llvm -mcpu=native'")


def _typed(kind: str, data: dict[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """The attributes with their values checked and turned into TVM's types."""
    options = catalogue.options[kind]
    attrs: dict[str, Any] = {}
    for name, value in data.items():
        if name in ("kind", "tag") or (isinstance(name, str) and name.startswith("feature.")):
            continue  # "feature.*" is what TVM derives and prints; it follows from the rest
        if name not in options:
            raise unknown(f"attribute of {kind}", name, options.keys() - _REFUSED.keys() - {"kind", "tag"})
        if name in _REFUSED:
            raise TargetError(f"the target attribute {name} isn't supported: {_REFUSED[name]}")
        if value is None:
            continue
        attrs[name] = _READERS[options[name]](name, value)
    return attrs


def _read_int(name: str, value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
        value = int(value)
    low, high = (1, MAX_CORES) if name == "num-cores" else (0, 2**62)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise TargetError(f"target attribute {name} must be an integer from {low} to {high}, got {shown(value)}")
    return value


def _read_bool(name: str, value: Any) -> bool:
    words = {"1": True, "true": True, "0": False, "false": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    if isinstance(value, bool) or value in (0, 1):
        return bool(value)
    raise TargetError(f"target attribute {name} must be true or false, got {shown(value)}")


def _read_word(name: str, value: Any) -> str:
    if not isinstance(value, str) or (value and not _WORD.fullmatch(value)):
        raise TargetError(f"target attribute {name} must be a word of letters, digits, _ . + -, got {shown(value)}")
    return value


def _read_words(name: str, value: Any) -> list[str]:
    words = [w for w in value.split(",") if w] if isinstance(value, str) else value
    if not isinstance(words, list) or len(words) > 256:
        raise TargetError(f"target attribute {name} must be a list of words, got {shown(value)}")
    return [_read_word(name, word) for word in words]


def _read_target(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, str | dict):
        raise TargetError(f"target attribute {name} must be a target, got {shown(value)}")
    return to_dict(value)


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "int": _read_int,
    "bool": _read_bool,
    "str": _read_word,
    "Array<str>": _read_words,
    "target.Target": _read_target,
}


def _fill_cuda(attrs: dict[str, Any]) -> None:
    arch = attrs.get("arch")
    if not arch:
        raise TargetError(
            "a CUDA target needs its architecture: 'cuda -arch=sm_80', or a tag such as nvidia/nvidia-h100"
        )
    limits = CUDA_LIMITS.get(cuda_arch_base(arch))
    if limits is None:
        raise unknown("CUDA architecture", arch, CUDA_LIMITS)
    for name, value in limits.items():
        attrs.setdefault(name, value)


def _fill_llvm(attrs: dict[str, Any], host: Host, catalogue: Catalogue) -> None:
    mcpu = attrs.get("mcpu", "")
    triple = _canonical_triple(attrs["mtriple"], catalogue) if attrs.get("mtriple") else None
    arch = _arch_of(triple) if triple else _arch_for_cpu(mcpu, host, catalogue)
    if mcpu in ("", "native"):
        if arch == host.arch:
            native = _native_attrs(host, catalogue)
            mcpu = native["mcpu"]
            attrs["mattr"] = [*native.get("mattr", []), *attrs.get("mattr", [])]
        elif mcpu == "native":
            raise TargetError(f"mcpu native is {host.arch} on this machine, and the target's mtriple is {triple}")
        else:
            mcpu = "generic"
    mcpu = _CPU_SYNONYMS.get(mcpu, mcpu)
    dashed = mcpu.replace("_", "-")
    mcpu = dashed if dashed in catalogue.cpus[arch] else mcpu
    if mcpu not in catalogue.cpus[arch]:
        raise unknown(f"{arch} CPU", mcpu, (n for n in catalogue.cpus[arch] if "_" not in n))
    attrs["mcpu"] = mcpu
    attrs["mtriple"] = triple or _default_triple(arch)
    attrs["mattr"] = _checked_mattr(attrs.get("mattr", []), arch, catalogue)
    attrs.setdefault("num-cores", host.n_cores)


def _checked_mattr(mattr: list[str], arch: str, catalogue: Catalogue) -> list[str]:
    """Each feature once, in the order given: LLVM applies them one after the other, with what they imply."""
    kept: dict[str, str] = {}
    for change in mattr:
        sign, name = change[:1], change[1:]
        if sign not in ("+", "-"):
            raise TargetError(f"a target feature is written +name or -name, got {shown(change)}")
        if name not in catalogue.features[arch]:
            raise unknown(f"{arch} feature", name, catalogue.features[arch])
        if kept.setdefault(name, sign) != sign:
            raise TargetError(f"the target's mattr both adds and removes {name}")
    return [sign + name for name, sign in kept.items()]


def _native_attrs(host: Host, catalogue: Catalogue) -> dict[str, Any]:
    isa_of_cpu = catalogue.isa.get(host.arch, {})
    if host.system != "linux" or not isa_of_cpu or not host.isa:
        raise TargetError(
            f"can't tell the CPU of this {host.system} {host.arch} machine; name it, e.g. 'llvm -mcpu=skylake-avx512'"
        )
    if host.arch == "x86_64":
        candidates = X86_CPUS_BY_VENDOR.get(host.vendor, OTHER_X86_CPUS)
    else:
        candidates = (ARM_CPUS_BY_PART.get((host.family, host.model), "generic"),)
    mcpu, mattr = best_llvm_cpu(candidates, host.isa, isa_of_cpu)
    attrs = {"kind": "llvm", "mcpu": mcpu, "mtriple": _default_triple(host.arch), "num-cores": host.n_cores}
    return {**attrs, "mattr": list(mattr)} if mattr else attrs


def _default_triple(arch: str) -> str:
    return "armv7a-linux-gnueabihf" if arch == "arm" else f"{arch}-linux-gnu"


def _arch_for_cpu(mcpu: str, host: Host, catalogue: Catalogue) -> str:
    """Where the name exists: on the host's architecture first, else on the first that has it."""
    if mcpu in ("", "native") or mcpu in catalogue.cpus.get(host.arch, ()) or mcpu in _CPU_SYNONYMS:
        return host.arch
    found = [arch for arch, cpus in catalogue.cpus.items() if mcpu in cpus]
    if not found:
        raise unknown("CPU", mcpu, (n for cpus in catalogue.cpus.values() for n in cpus if "_" not in n))
    return "aarch64" if "aarch64" in found else found[0]


def _canonical_triple(triple: str, catalogue: Catalogue) -> str:
    """Without a vendor that says nothing: x86_64-pc-linux-gnu and x86_64-unknown-linux-gnu are x86_64-linux-gnu."""
    if not _TRIPLE.fullmatch(triple):
        raise TargetError(f"mtriple is written arch-system-abi, e.g. x86_64-linux-gnu, got {shown(triple)}")
    arch, *rest = triple.split("-")
    if _arch_of(triple) not in catalogue.cpus:
        raise unknown("architecture in mtriple", arch, catalogue.cpus)
    if rest[0] in _VENDORS and len(rest) > 1:
        rest = rest[1:]
    return "-".join([ARCH_ALIASES.get(arch, arch) if "linux" in triple else arch, *rest])


def _arch_of(triple: str) -> str:
    arch = triple.split("-")[0].lower()
    if re.fullmatch(r"armv[0-9][a-z.]*|thumbv[0-9][a-z.]*", arch):
        return "arm"
    return ARCH_ALIASES.get(arch, arch)
