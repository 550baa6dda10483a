"""Cores are what this process may use; the machine is read from /proc and /sys, in any of their shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.targets.device import cache_sizes, detect_device
from tuner.targets.host import cpu_quota_cores, detect_host
from tuner.targets.isa import best_llvm_cpu
from tuner.targets.pinning import choose_cpus
from tuner.targets.target import parse_target

V2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
V1_DOCKER = "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"

X86 = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 94
model name\t: Intel(R) Core(TM)  i7-6700 CPU @ 3.40GHz
flags\t\t: fpu lm sse sse2 pni avx avx2 fma
\t
processor\t: 1
model name\t: another
flags\t\t: fpu
"""
ARM = """processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes atomics asimdhp asimdrdm asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd0c

processor\t: 1
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/self/mountinfo": V2, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"proc/self/mountinfo": V2, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000"}, 2.5),
        (  # the tightest of the group and its ancestors
            {
                "proc/self/mountinfo": V2,
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "700000 100000",
                "sys/fs/cgroup/a/cpu.max": "300000 100000",
            },
            3.0,
        ),
        (
            {
                "proc/self/mountinfo": V1,
                "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "150000",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000",
            },
            1.5,
        ),
        (  # no limit in v1 is -1
            {
                "proc/self/mountinfo": V1,
                "proc/self/cgroup": "3:cpu,cpuacct:/\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            None,
        ),
        (  # in a container the mount shows the container's own group
            {
                "proc/self/mountinfo": V1_DOCKER,
                "proc/self/cgroup": "3:cpu:/docker/abc\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            4.0,
        ),
        ({"proc/self/mountinfo": V2, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "rubbish"}, None),
    ],
)
def test_cpu_quota(tmp_path: Path, files: dict[str, str], expected: float | None) -> None:
    assert cpu_quota_cores(write(tmp_path, files)) == expected


@pytest.mark.parametrize(
    ("quota", "cpus", "expected"), [("250000", 8, 2), ("50000", 8, 1), ("max", 3, 3), ("900000", 4, 4)]
)
def test_cores_are_the_lesser_of_affinity_and_quota(tmp_path: Path, quota: str, cpus: int, expected: int) -> None:
    files = {"proc/self/mountinfo": V2, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota} 100000"}
    root = write(tmp_path, {**files, "proc/cpuinfo": X86})
    host = detect_host(root, affinity=range(cpus), machine="x86_64")
    assert host.n_cores == expected
    assert parse_target("native", host).n_cores == expected


def test_x86_host(tmp_path: Path) -> None:
    host = detect_host(write(tmp_path, {"proc/cpuinfo": X86}), affinity=[0], machine="AMD64")
    assert (host.arch, host.vendor, host.family, host.model) == ("x86_64", "GenuineIntel", 6, 94)
    assert host.model_name == "Intel(R) Core(TM) i7-6700 CPU @ 3.40GHz"
    assert host.isa == {"sse", "sse2", "sse3", "avx", "avx2", "fma"}


def test_arm_host(tmp_path: Path) -> None:
    host = detect_host(write(tmp_path, {"proc/cpuinfo": ARM}), affinity=[0], machine="arm64")
    assert (host.arch, host.family, host.model) == ("aarch64", 0x41, 0xD0C)
    assert host.isa == {"neon", "lse", "fullfp16", "rdm", "dotprod"}
    assert parse_target("native", host).attrs["mcpu"] == "neoverse-n1"


def test_best_cpu_is_the_one_that_differs_least() -> None:
    known = {"old": frozenset("ab"), "new": frozenset("abcd"), "twin": frozenset("abcd")}
    assert best_llvm_cpu(["twin", "new", "old"], frozenset("abcd"), known) == ("twin", ())
    assert best_llvm_cpu(["new", "old", "unknown"], frozenset("abce"), known) == ("new", ("-d", "+e"))
    assert best_llvm_cpu(["new", "old"], frozenset("a"), known) == ("old", ("-b",))


def cpu_files(cpu: int, siblings: str) -> dict[str, str]:
    base = f"sys/devices/system/cpu/cpu{cpu}"
    return {
        f"{base}/topology/thread_siblings_list": siblings,
        f"{base}/cache/index0/level": "1",
        f"{base}/cache/index0/type": "Data",
        f"{base}/cache/index0/size": "48K",
        f"{base}/cache/index1/level": "1",
        f"{base}/cache/index1/type": "Instruction",
        f"{base}/cache/index1/size": "32K",
        f"{base}/cache/index2/level": "2",
        f"{base}/cache/index2/type": "Unified",
        f"{base}/cache/index2/size": "2M",
    }


def test_device_key_covers_what_makes_latencies_comparable(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": X86, "proc/meminfo": "MemTotal: 1024 kB\nMemFree: 1 kB\n", **cpu_files(0, "0")}
    host = detect_host(write(tmp_path, files), affinity=[0, 1], machine="x86_64")
    two, one = parse_target("native", host), parse_target("native -num-cores=1", host)
    device = detect_device(two, host, tmp_path)
    assert device.caches == {"L1d": 48 << 10, "L2": 2 << 20}
    assert device.memory_bytes == 1 << 20
    assert device.threads_per_core == 1
    assert device.key != detect_device(one, host, tmp_path).key
    # Another host name, less free memory or a busier moment is the same device; SMT siblings are not.
    write(tmp_path, {"proc/meminfo": "MemTotal: 2048 kB\n", "etc/hostname": "other"})
    assert detect_device(two, host, tmp_path).key == device.key
    write(tmp_path, cpu_files(0, "0-1"))
    assert detect_device(two, host, tmp_path).key != device.key
    assert detect_device(two, host, tmp_path).to_dict()["threads_per_core"] == 2


def test_caches_of_a_machine_without_them(tmp_path: Path) -> None:
    assert cache_sizes(tmp_path) == {}


def test_threads_get_idle_cpus_on_cores_of_their_own(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for cpu in range(4):
        files |= cpu_files(cpu, "0,1" if cpu < 2 else "2,3")
    root = write(tmp_path, files)
    assert choose_cpus([0, 1, 2, 3], 2, root, look_s=0) == (0, 2)
    assert choose_cpus([0, 1, 2, 3], 3, root, look_s=0) == (0, 1, 2)
    assert choose_cpus([5, 3], 2, root, look_s=0) == (3, 5)
