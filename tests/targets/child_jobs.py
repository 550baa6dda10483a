"""Jobs that the tests run in a child."""

from __future__ import annotations

import importlib
import itertools
import os
import time
from typing import Any

from tuner.measure.codegen import assembly
from tuner.targets.llvm import check_job, llvm_features
from tuner.targets.peak_kernels import compute_kernels, compute_module, fastest_call
from tuner.targets.pinning import pin_threads
from tuner.tvm_api import tvm


def disassemble(target: dict[str, Any], dtype: str) -> str:
    """The assembly of the kernel that measures `dtype`'s peak."""
    isa = llvm_features(tvm.target.Target(target))
    return assembly(compute_module(compute_kernels(isa)[dtype], 2, isa), target)


def placement(n_threads: int) -> dict[str, Any]:
    """Pins twice, then asks each thread of the process where it may run."""
    first, second = pin_threads(n_threads), pin_threads(n_threads)
    threads = [sorted(os.sched_getaffinity(int(t))) for t in os.listdir("/proc/self/task")]
    return {"cpus": list(first), "again": list(second), "threads": sorted(threads)}


def time_late_starter(n_slow: int, us_per_count: float) -> float:
    """Microseconds per count that `fastest_call` finds for work whose first calls each wait 1 ms longer."""
    calls = itertools.count()

    def run(count: int) -> None:
        end = time.perf_counter() + count * us_per_count * 1e-6 + (1e-3 if next(calls) < n_slow else 0.0) + 12e-6
        while time.perf_counter() < end:
            pass

    seconds, count, _ = fastest_call(run, first=10)
    return seconds / count * 1e6


def check_all(targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What TVM makes of each target, and whether LLVM knows its CPU."""
    codegen = importlib.import_module("tvm.target.codegen")
    answers = []
    for target in targets:
        answer = check_job(target)
        if target["kind"] == "llvm":
            answer["valid_cpu"] = bool(codegen.llvm_is_valid_cpu(target["mcpu"], target["mtriple"]))
        answers.append(answer)
    return answers
