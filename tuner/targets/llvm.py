"""Child-side work on targets: what TVM and LLVM themselves say. Imports TVM; never imported by the main process."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from tuner.targets.isa import FLAGS_BY_ARCH
from tuner.tvm_api import TVM_VERSION, tvm

# The architectures whose CPU names are known by heart, and a triple to ask LLVM with.
ARCH_TRIPLES = {
    "x86_64": "x86_64-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "arm": "armv7a-linux-gnueabihf",
    "riscv64": "riscv64-linux-gnu",
    "riscv32": "riscv32-linux-gnu",
    "powerpc64le": "powerpc64le-linux-gnu",
    "s390x": "s390x-linux-gnu",
    "loongarch64": "loongarch64-linux-gnu",
}
# Names LLVM accepts but leaves out of its list.
CPU_ALIASES = {"aarch64": ("apple-m1", "apple-m2", "apple-m3")}
WORD_SIZE = {"x86_64": 64, "riscv64": 64, "riscv32": 32, "powerpc64le": 64, "loongarch64": 64}
CATALOGUE_KINDS = ("llvm", "cuda")


def llvm_features(target: Any) -> frozenset[str]:
    """LLVM's features of a tvm Target of kind llvm, with what its mattr implies."""
    codegen = importlib.import_module("tvm.target.codegen")
    return frozenset(str(f) for f in codegen.llvm_get_cpu_features(target))


def check_job(target: dict[str, Any]) -> dict[str, Any]:
    """Builds the real TVM Target: {"target", "features", "vector_width_bits", "llvm_major", "n_threads"}.

    Raises whatever TVM raises when it refuses the target.
    """
    codegen = importlib.import_module("tvm.target.codegen")
    made = tvm.target.Target(target)
    features: list[str] = []
    width = 0
    if made.kind.name == "llvm":
        features = sorted(llvm_features(made))
        width = int(codegen.llvm_get_vector_width(made))
    return {
        "target": json.loads(str(made)),
        "features": features,
        "vector_width_bits": width,
        "llvm_major": int(codegen.llvm_version_major()),
        "n_threads": int(tvm.get_global_func("runtime.NumThreads")()),
    }


def catalogue_job() -> dict[str, Any]:
    """All that TVM knows of targets, as tuner/targets/data/ keeps it (see tuner/targets/catalogue.py)."""
    options = tvm.get_global_func("target.ListTargetKindOptionsFromName")
    tags = {str(name): json.loads(str(target)) for name, target in tvm.target.list_tags().items()}
    arches = {arch: _arch_entry(arch, triple) for arch, triple in ARCH_TRIPLES.items()}
    return {
        "tvm": TVM_VERSION,
        "kinds": sorted(str(kind) for kind in tvm.get_global_func("target.ListTargetKinds")()),
        "options": {kind: {str(k): str(v) for k, v in options(kind).items()} for kind in CATALOGUE_KINDS},
        "tags": {name: _strip(tags[name]) for name in sorted(tags)},
        "arches": arches,
    }


def _arch_entry(arch: str, triple: str) -> dict[str, Any]:
    """{"cpus", "features", "isa": {cpu: hex mask over the table of tuner/targets/isa.py, in its order}}."""
    codegen = importlib.import_module("tvm.target.codegen")

    def features_of(cpu: str) -> set[str]:
        made = tvm.target.Target({"kind": "llvm", "mtriple": triple, "mcpu": cpu})
        return {str(f) for f in codegen.llvm_get_cpu_features(made)}

    listed = codegen.llvm_get_cpu_archlist(tvm.target.Target({"kind": "llvm", "mtriple": triple, "mcpu": "generic"}))
    aliases = [name for name in CPU_ALIASES.get(arch, ()) if codegen.llvm_is_valid_cpu(name, triple)]
    by_cpu = {cpu: features_of(cpu) for cpu in sorted({str(name) for name in listed} | set(aliases))}
    if arch in WORD_SIZE:
        # LLVM lists them together, and ends the process when asked for 64-bit code on a 32-bit CPU.
        by_cpu = {cpu: f for cpu, f in by_cpu.items() if ("64bit" in f) == (WORD_SIZE[arch] == 64)}
    table = list(FLAGS_BY_ARCH.get(arch, {}))
    return {
        "cpus": list(by_cpu),
        "features": sorted(set().union(*by_cpu.values())),
        "isa": {
            cpu: f"{sum(1 << i for i, name in enumerate(table) if name in features):x}"
            for cpu, features in by_cpu.items()
            if table
        },
    }


def _strip(target: dict[str, Any]) -> dict[str, Any]:
    """Without the tag's own name and what TVM derives ("feature.*")."""
    kept = {k: v for k, v in target.items() if k != "tag" and not k.startswith("feature.")}
    if isinstance(kept.get("host"), dict):
        kept["host"] = _strip(kept["host"])
    return kept


def _main() -> None:
    """`python -m tuner.targets.llvm catalogue | check TARGET_JSON`: the jobs above, printed as JSON."""
    if sys.argv[1] == "catalogue":
        lines = [f"{json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in catalogue_job().items()]
        text = "{\n" + ",\n".join(lines) + "\n}"
    else:
        text = json.dumps(check_job(json.loads(sys.argv[2])))
    os.write(1, text.encode() + b"\n")


if __name__ == "__main__":
    _main()
