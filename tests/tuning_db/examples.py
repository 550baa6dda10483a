"""Runs, trials and confirmations made by hand, with every field set to something that can be told apart."""

from __future__ import annotations

from typing import Any

from tuner.outcome import Latency, Outcome
from tuner.records import Confirmation, RunContext, TrialRecord
from tuner.workloads.workload import ArgSpec, Workload

TARGET = {"kind": "llvm", "mcpu": "skylake", "num-cores": 2}
DEVICE = {"key": "cpu-0011", "model": "Example CPU", "cores": 2}
TOOLCHAIN = {"tvm": "0.27.0.post1", "llvm": "22.1"}
POLICY = "median-r10-s2ms-warm-c15"


def workload(key: str = "a" * 64, **spec: Any) -> Workload:
    return Workload(
        key=key,
        label="matmul m=64",
        spec=spec or {"op": "matmul", "params": {"m": 64, "n": 64, "k": 64}, "dtype": "float32"},
        module_json='{"fake": "module"}',
        args=(
            ArgSpec(name="a", shape=(64, 64), dtype="float32", role="in", strides=(128, 1)),
            ArgSpec(name="i", shape=(), dtype="int32", role="scalar", low=0, high=20),
        ),
        flop=2.0 * 64**3,
        bytes_moved=3.0 * 64 * 64 * 4,
        reduction_length=64,
        acc_dtype="float32",
        has_reference=True,
        warnings=("a warning",),
    )


def context(run_id: str = "run-1", **changes: Any) -> RunContext:
    fields: dict[str, Any] = {
        "run_id": run_id,
        "workload": workload(),
        "target": TARGET,
        "device": DEVICE,
        "toolchain": TOOLCHAIN,
        "policy": POLICY,
        "n_threads": 2,
        "seed": 7,
        "baseline_secs": (0.011, 0.010, 0.012),
        "started_at": 1_700_000_000.0,
    }
    return RunContext(**{**fields, **changes})


def trial(number: int, outcome: Outcome | None = None, **changes: Any) -> TrialRecord:
    fields: dict[str, Any] = {
        "trial": number,
        "trace_json": f'[["Trace", {number}]]',
        "outcome": outcome or Latency((0.003, 0.001, 0.002)),
        "artifact_sha256": f"{number:064x}",
        "predicted": 0.75,
        "max_abs_error": 1e-6,
        "max_rel_error": 1e-5,
        "phase_s": {"build": 0.05, "run": 0.1},
        "measured_at": 1_700_000_001.5,
    }
    return TrialRecord(**{**fields, **changes})


def confirmation(winner: int | None, speedup: float, *, verdict: str = "faster", spread: float = 0.0) -> Confirmation:
    """15 rounds; the per-round speed-ups lie evenly within `spread` (relative) around `speedup`."""
    rounds = [speedup * (1 + spread * (i - 7) / 7) for i in range(15)]
    candidates = {} if winner is None else {winner: tuple(0.010 / s for s in rounds)}
    return Confirmation(baseline_secs=(0.010,) * 15, candidate_secs=candidates, winner=winner, verdict=verdict)
