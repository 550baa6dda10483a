"""What TVM knows of targets, kept as data so that checking a target costs no TVM import.

`python -m tuner.targets.llvm catalogue > tuner/targets/data/tvm-VERSION.json` makes it anew after an upgrade of TVM;
a test compares it with TVM's own answer.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.targets.isa import FLAGS_BY_ARCH

CATALOGUE_TVM_VERSION = "0.27.0.post1"
CATALOGUE_PATH = Path(__file__).parent / "data" / f"tvm-{CATALOGUE_TVM_VERSION}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """`options[kind]` maps an attribute to TVM's name of its type; only for the kinds that are supported.

    `cpus`, `features` and `isa` go by architecture; `isa[arch][cpu]` holds only the features that generated code may
    use (tuner/targets/isa.py), and is there for x86_64 and aarch64.
    """

    kinds: tuple[str, ...]
    options: Mapping[str, Mapping[str, str]]
    tags: Mapping[str, Mapping[str, Any]]
    cpus: Mapping[str, frozenset[str]]
    features: Mapping[str, frozenset[str]]
    isa: Mapping[str, Mapping[str, frozenset[str]]]


@functools.cache
def load_catalogue() -> Catalogue:
    data = json.loads(CATALOGUE_PATH.read_text(encoding="utf-8"))
    arches = data["arches"]
    return Catalogue(
        kinds=tuple(data["kinds"]),
        options=data["options"],
        tags=data["tags"],
        cpus={arch: frozenset(entry["cpus"]) for arch, entry in arches.items()},
        features={arch: frozenset(entry["features"]) for arch, entry in arches.items()},
        isa={arch: _unpack(arch, entry["isa"]) for arch, entry in arches.items()},
    )


def _unpack(arch: str, masks: Mapping[str, str]) -> dict[str, frozenset[str]]:
    table = list(FLAGS_BY_ARCH.get(arch, {}))
    sets = {mask: frozenset(n for i, n in enumerate(table) if int(mask, 16) >> i & 1) for mask in set(masks.values())}
    return {cpu: sets[mask] for cpu, mask in masks.items()}
