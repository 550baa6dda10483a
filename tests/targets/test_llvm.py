"""Our tables say what TVM and LLVM say. Each test asks them, in a child."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.targets.hosts import NEOVERSE_N1, SKYLAKE_NO_AVX512, UNKNOWN_ARM, ZEN3, fake_host
from tests.targets.test_target import SPR, target_or_error
from tuner.measure.worker import IsolatedWorker
from tuner.targets.catalogue import CATALOGUE_PATH, CATALOGUE_TVM_VERSION, load_catalogue
from tuner.targets.target import Target, native_target, parse_target
from tuner.targets.toolchain import LLVM_VERSION, toolchain_versions


def test_catalogue_is_tvms_own(worker: IsolatedWorker) -> None:
    fresh = worker.call("test.catalogue", {}, 60)
    kept = json.loads(CATALOGUE_PATH.read_text())
    assert fresh["tvm"] == CATALOGUE_TVM_VERSION == toolchain_versions()["tvm"]
    assert fresh == kept, "run: python -m tuner.targets.llvm catalogue > tuner/targets/data/tvm-VERSION.json"


def test_llvm_version_is_what_tvm_was_built_with() -> None:
    code = "from tuner.tvm_api import tvm; tvm.target.codegen.llvm_get_cpu_features(tvm.target.Target({!r}))"
    bad = {"kind": "llvm", "mcpu": "no-such-cpu", "mtriple": "x86_64-linux-gnu"}
    done = subprocess.run([sys.executable, "-c", code.format(bad)], capture_output=True, text=True, check=False)
    assert f"Using LLVM {LLVM_VERSION} with" in done.stderr


def test_tvm_takes_every_target_we_make(worker: IsolatedWorker) -> None:
    targets = [a for tag in load_catalogue().tags if isinstance(a := target_or_error(tag), Target)]
    targets += [parse_target(f"llvm -mcpu={cpu}", SPR) for cpu in sorted(load_catalogue().cpus["x86_64"])]
    targets += [native_target(host) for host in (SPR, SKYLAKE_NO_AVX512, ZEN3, NEOVERSE_N1, UNKNOWN_ARM)]
    masked = ("avx512fp16", "amx-tile", "amx-int8", "amx-bf16")
    targets += [native_target(fake_host(flags_of="sapphirerapids", without=masked))]
    answers = worker.call("test.check_all", {"targets": [t.attrs for t in targets]}, 60)
    for target, answer in zip(targets, answers, strict=True):
        assert answer["target"]["kind"] == target.kind
        if target.kind == "llvm":
            assert answer["valid_cpu"], target
            assert target.isa() <= set(answer["features"])


def test_native_is_what_llvm_would_generate_for(worker: IsolatedWorker) -> None:
    target = native_target()
    answer = worker.call("target.check", {"target": target.attrs}, 60)
    assert target.isa() <= set(answer["features"])
    assert answer["n_threads"] == 2  # the zygote's; the engine starts it with the target's cores
    assert answer["llvm_major"] == int(LLVM_VERSION.split(".")[0])
