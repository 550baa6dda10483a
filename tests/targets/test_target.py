"""Every form of a target gives a Target that TVM takes, or one clear line."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.targets.hosts import ICELAKE_VM, NEOVERSE_N1, SKYLAKE_NO_AVX512, UNKNOWN_ARM, ZEN3, fake_host
from tuner.errors import TargetError
from tuner.targets.catalogue import load_catalogue
from tuner.targets.host import detect_host
from tuner.targets.target import Target, native_target, parse_target

SPR = fake_host(flags_of="sapphirerapids", n_cores=8)


@pytest.mark.parametrize(
    "forms",
    [
        [
            "llvm -mcpu=skylake-avx512 -num-cores=8",
            "llvm -mcpu skylake-avx512 -num-cores 8",
            "llvm -mcpu=skylake_avx512 -mtriple=x86_64-unknown-linux-gnu",
            '{"kind": "llvm", "mcpu": "skx", "num-cores": 8}',
            {"kind": "llvm", "tag": "", "keys": ["cpu"], "num-cores": 8, "mcpu": "skylake-avx512", "opt-level": 3},
            {"tag": "aws/cpu/c5.4xlarge"},
            "aws/cpu/c5.4xlarge",
        ],
        ["native", "llvm", "llvm -mcpu=native", '{"kind":"native"}', "llvm -mcpu=sapphirerapids", " native "],
        ["cuda -arch=sm_80", '{"kind":"cuda","arch":"sm_80","max_num_threads":1024}', "cuda --arch sm_80"],
    ],
)
def test_all_spellings_of_a_target_are_one(forms: list[str | dict[str, Any]]) -> None:
    assert len({parse_target(form, SPR) for form in forms}) == 1


def test_canonical_json_parses_to_itself() -> None:
    for text in ("native", "cuda -arch=sm_90a", "llvm -mcpu=cortex-a72", "nvidia/jetson-agx-thor"):
        target = parse_target(text, SPR)
        assert parse_target(target.canonical_json(), SPR) == target
        assert json.loads(target.canonical_json()) == target.attrs


def test_cuda_gets_its_four_limits() -> None:
    attrs = parse_target("cuda -arch=sm_80", SPR).attrs
    assert attrs["max_threads_per_block"] == 1024
    assert attrs["max_shared_memory_per_block"] == 49152
    assert attrs["thread_warp_size"] == 32
    assert attrs["registers_per_block"] == 65536
    assert parse_target("cuda -arch=sm_80 -registers_per_block=1024", SPR).attrs["registers_per_block"] == 1024


def test_architecture_follows_from_the_cpu_name() -> None:
    assert parse_target("llvm -mcpu=cortex-a72", SPR).arch == "aarch64"
    assert parse_target("llvm -mcpu=neoverse-n1 -num-cores=64", SPR).n_cores == 64
    assert parse_target("llvm -mcpu=sifive-u74", SPR).arch == "riscv64"
    assert parse_target("llvm -mtriple=aarch64-linux-gnu", SPR).attrs["mcpu"] == "generic"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("llvm -mcpu=skylak", "skylake"),
        ("llvm -mcpu=SapphireRapid", "sapphirerapids"),
        ("lvm", "llvm"),
        ("llvm -numcores=2", "num-cores"),
        ("llvm -mattr=+avx512", "avx512f"),
        ("nvidia/h100", "nvidia/nvidia-h100"),
        ("cuda -arch=sm_81", "sm_80"),
        ("cuda", "-arch=sm_80"),
        ("vulkan", "isn't supported"),
        ("llvm -mcpu", "mcpu must be a word"),
        ("llvm -num-cores=two", "integer from 1"),
        ("llvm -num-cores=0", "integer from 1"),
        ("llvm -num-cores=2 -num-cores=3", "twice"),
        ("llvm extra", "can't read 'extra'"),
        ("llvm 'open", "can't read the target"),
        ("llvm -mtriple=sparc-sun-solaris", "architecture"),
        ("llvm -mcpu=haswell -mtriple=aarch64-linux-gnu", "unknown aarch64 CPU"),
        ("llvm -mattr=avx", "+name or -name"),
        ("llvm -mattr=+avx,-avx", "both adds and removes"),
        ("llvm -cl-opt=-x", "isn't supported"),
        ("native -mattr=+avx", "native takes only num-cores"),
        ("", "empty"),
        ("{", "isn't"),
        ("{}", "names no kind"),
        ('{"kind": "llvm", "mcpu": 3}', "mcpu must be a word"),
        ('{"kind": "llvm", "fast-math": "maybe"}', "true or false"),
        pytest.param("[" * 100_000, "characters long", id="long"),
        pytest.param('{"kind":' + "[" * 50_000, "isn't", id="deep"),
    ],
)
def test_a_mistake_is_one_line_that_helps(text: str, expected: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(text, SPR)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from([*load_catalogue().options["llvm"], *load_catalogue().options["cuda"], "nope", "feature.x"])
VALUES = JSON | st.sampled_from(
    ["llvm", "cuda", "native", "sm_80", "haswell", "+avx", ["+avx"], "nvidia/t4", {"kind": "llvm"}]
)
WORDS = st.lists(
    st.sampled_from(["native", "llvm", "cuda", "-mcpu=haswell", "-mcpu", "-arch=sm_80", "-", "--", "=", "-num-cores=3"])
    | st.text(max_size=6),
    max_size=4,
).map(" ".join)


def target_or_error(anything: Any) -> Target | str:
    """The target, or the error's line; any other exception is the test's failure."""
    try:
        return parse_target(anything, SPR)
    except TargetError as error:
        return str(error)


@given(st.text() | WORDS | JSON | JSON.map(json.dumps) | st.dictionaries(NAMES, VALUES, max_size=5))
def test_anything_is_a_target_or_a_target_error(anything: Any) -> None:
    answer = target_or_error(anything)
    if isinstance(answer, str):
        assert "\n" not in answer
        assert 0 < len(answer) < 600
    else:
        assert parse_target(answer.canonical_json(), SPR) == answer
        assert answer.n_cores >= 1
        assert answer.label


def test_native_takes_what_the_cpu_has() -> None:
    assert native_target(SPR).attrs == {
        "kind": "llvm",
        "mcpu": "sapphirerapids",
        "mtriple": "x86_64-linux-gnu",
        "num-cores": 8,
    }
    assert native_target(SKYLAKE_NO_AVX512).attrs["mcpu"] == "skylake"
    assert native_target(ZEN3).attrs["mcpu"] == "znver3"
    assert native_target(ICELAKE_VM).attrs["mcpu"] == "icelake-server"
    assert native_target(NEOVERSE_N1).attrs["mcpu"] == "neoverse-n1"
    arm = native_target(UNKNOWN_ARM).attrs
    assert arm["mcpu"] == "generic"
    assert {"+sve", "+dotprod"} <= set(arm["mattr"])


@pytest.mark.parametrize("masked", ["avx512fp16", "amx-tile", "avx512vnni", "gfni", "avx2"])
def test_native_never_asks_for_a_feature_the_hypervisor_masks(masked: str) -> None:
    host = fake_host(flags_of="sapphirerapids", without=(masked,))
    target = native_target(host)
    assert target.isa() == host.isa
    assert masked not in target.isa()
    target.require_measurable_here(host)


def test_native_without_a_readable_cpu_says_so() -> None:
    with pytest.raises(TargetError, match="name it"):
        native_target(fake_host(flags=()))
    assert parse_target("llvm -mcpu=haswell", fake_host(flags=())).n_cores == 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cuda -arch=sm_80", "isn't available in this version"),
        ("llvm -mcpu=cortex-a72", "aarch64 code"),
        ("llvm -mcpu=sapphirerapids", "lacks amx-bf16, amx-int8"),
        ("llvm -mcpu=skylake -mattr=+avx512f", "lacks avx512f"),
        ("llvm -mcpu=haswell -num-cores=9", "wants 9 cores"),
        ("llvm -mcpu=haswell -mtriple=x86_64-pc-windows-msvc", "can't be measured"),
    ],
)
def test_what_cannot_run_here_is_refused_in_one_line(text: str, expected: str) -> None:
    with pytest.raises(TargetError, match=expected):
        parse_target(text, SKYLAKE_NO_AVX512).require_measurable_here(SKYLAKE_NO_AVX512)


def test_lesser_targets_can_be_measured() -> None:
    for text in ("llvm -mcpu=haswell -num-cores=1", "llvm -mcpu=x86-64-v3", "llvm -mcpu=generic"):
        parse_target(text, SKYLAKE_NO_AVX512).require_measurable_here(SKYLAKE_NO_AVX512)


def test_native_of_this_machine_is_quick_and_measurable() -> None:
    target = native_target()
    target.require_measurable_here()
    assert target.n_cores == detect_host().n_cores
    code = (
        "import sys, time; t = time.perf_counter()\n"
        "from tuner.targets.target import native_target; native_target()\n"
        "print(time.perf_counter() - t, 'tvm' in sys.modules, 'numpy' in sys.modules)"
    )
    seconds, tvm_loaded, numpy_loaded = min(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(3)
    )
    assert (tvm_loaded, numpy_loaded) == ("False", "False")
    assert float(seconds) < 0.5


def test_every_tag_parses_or_names_its_fault() -> None:
    answers = {tag: target_or_error(tag) for tag in load_catalogue().tags}
    targets = [a for a in answers.values() if isinstance(a, Target)]
    faults = [a for a in answers.values() if isinstance(a, str)]
    assert sum(t.kind == "cuda" for t in targets) > 100
    assert sum(t.kind == "llvm" for t in targets) > 20
    assert all("isn't supported" in fault or "unknown" in fault for fault in faults)
