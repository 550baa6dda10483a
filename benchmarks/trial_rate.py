"""Trials per minute against upstream's tune_tir, with the winners re-measured side by side.

For each workload and seed both tuners run as whole processes, one after the other, on the same target, with the same
number of trials and TVM's threads set to the target's cores. Upstream runs with its defaults. Then both winners and the
untuned module are timed interleaved in one process of ours, after validation.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import Report, arguments
from tuner.config import Limits, Policy
from tuner.measure.pool import WorkerPool
from tuner.measure.runner import Runner
from tuner.measure.stats import paired_speedup
from tuner.measure.zygote import Zygote
from tuner.targets.target import Target, native_target
from tuner.workloads.spec import parse_workload
from tuner.workloads.workload import Workload

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS = (
    "matmul:m=512,n=512,k=512",
    "conv2d:batch=1,in_channels=64,out_channels=64,height=56,width=56,kernel=3,padding=1",
    "softmax:shape=1536x128",
    "dense:m=128,n=3072,k=768,epilogue=bias+gelu",
)
QUICK = (WORKLOADS[0], WORKLOADS[2])


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--workload", action="append", help="instead of the built-in ones; may be repeated")
    options = parser.parse_args()
    target = native_target()
    report = Report(f"{options.trials} trials each on {target.label}")
    ratios: dict[str, list[float]] = {}
    winners: dict[str, list[float]] = {}
    for line in options.workload or (QUICK if options.quick else WORKLOADS):
        for seed in range(options.seeds):
            row = compare(line, target, options.trials, seed)
            report.row(**row)
            ratios.setdefault(line, []).append(row["ratio"])
            if isinstance(row["winner speed-up"], float):
                winners.setdefault(line, []).append(row["winner speed-up"])
    rates = {line: statistics.median(values) for line, values in ratios.items()}
    speedups = {line: statistics.median(values) for line, values in winners.items()}
    at_least = sum(rate >= 5 for rate in rates.values())
    report.goal("5x trials per minute on three workloads", ">= 3 workloads", rates, at_least >= min(3, len(rates)))
    report.goal("winners no slower", ">= 0.97 each", speedups, all(s >= 0.97 for s in speedups.values()))
    return report.finish(options.json)


def compare(line: str, target: Target, trials: int, seed: int) -> dict[str, Any]:
    """Both tuners on one workload with one seed, then their winners side by side."""
    with (
        Zygote(target.n_cores) as zygote,
        WorkerPool(zygote, 1, Limits()) as pool,
        tempfile.TemporaryDirectory() as tmp,
    ):
        request = parse_workload(line)
        workload = Workload.from_dict(pool.map("workload.resolve", [{"request": request.to_dict()}], 120)[0])
        upstream = run_upstream(workload, target, trials, seed, Path(tmp))
        ours = run_ours(line, trials, seed, Path(tmp))
        task = {"key": workload.key, "module_json": workload.module_json, "target": target.attrs, "level": "rules"}
        traces = [ours["trace"], upstream["trace"]]
        calls = [{"task": task, "trace_json": t if isinstance(t, str) else json.dumps(t)} for t in traces if t]
        codes = [bytes(built["object"]) for built in pool.map("space.rebuild", calls, 120)]
        untuned = pool.map("space.build", [{"task": task, "candidate": None}], 120)[0]["object"]
        verdicts = side_by_side(zygote, workload, target, bytes(untuned), codes)
    return {
        "workload": line,
        "seed": seed,
        "ours trials/min": ours["trials"] / ours["wall_s"] * 60,
        "upstream trials/min": upstream["trials"] / upstream["wall_s"] * 60,
        "ratio": ours["trials"] / ours["wall_s"] / (upstream["trials"] / upstream["wall_s"]),
        "ours wall s": ours["wall_s"],
        "upstream wall s": upstream["wall_s"],
        "ours cpu s": ours["cpu_s"],
        "upstream cpu s": upstream["cpu_s"],
        "ours failed": ours["failed"],
        "upstream failed": upstream["failed"],
        **verdicts,
    }


def side_by_side(
    zygote: Zygote, workload: Workload, target: Target, untuned: bytes, codes: list[bytes]
) -> dict[str, Any]:
    """Validates and times both winners interleaved; names a wrong winner instead of timing it."""
    with Runner(zygote, Limits()) as runner:
        runner.setup(workload, target.attrs, untuned, seed=1, n_input_sets=3, policy=Policy())
        verdicts = [
            "wrong or failed: " + m.outcome.detail if hasattr(m.outcome, "detail") else "right"
            for m in (runner.measure(code, None) for code in codes)
        ]
        if len(codes) < 2 or verdicts != ["right", "right"]:
            names = ("ours", "upstream")
            return {
                "winner speed-up": "; ".join(f"{n}: {v}" for n, v in zip(names, verdicts, strict=False))
                + ("; upstream found none" if len(codes) < 2 else "")
            }
        confirmed = runner.confirm(codes, 31)
    against = paired_speedup(confirmed.candidates[1], confirmed.candidates[0])
    return {
        "ours ms": statistics.median(confirmed.candidates[0]) * 1e3,
        "upstream ms": statistics.median(confirmed.candidates[1]) * 1e3,
        "untuned ms": statistics.median(confirmed.baseline_secs) * 1e3,
        "winner speed-up": against.ratio,
        "ci95": f"{against.ci95[0]:.3f}..{against.ci95[1]:.3f}",
    }


def run_upstream(workload: Workload, target: Target, trials: int, seed: int, tmp: Path) -> dict[str, Any]:
    module_file, target_file = tmp / "module.json", tmp / "target.json"
    module_file.write_text(workload.module_json)
    target_file.write_text(json.dumps(target.attrs))
    script = str(ROOT / "benchmarks" / "upstream_tune.py")
    command = [
        sys.executable,
        script,
        str(module_file),
        str(target_file),
        str(trials),
        str(seed + 1),
        str(tmp / "work"),
    ]
    return timed(command, {"TVM_NUM_THREADS": str(target.n_cores)})


def run_ours(line: str, trials: int, seed: int, tmp: Path) -> dict[str, Any]:
    database = f"sqlite:///{tmp / 'ours.db'}"
    command = [sys.executable, "-m", "service.cli", "tune", line, "--trials", str(trials), "--seed", str(seed)]
    answer = timed([*command, "--json", "--db", database], {})
    item = answer.pop("answer")[0]
    shown = subprocess.run(
        [sys.executable, "-m", "service.cli", "show", item["best"]["record_id"], "--trace", "--json", "--db", database],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    trials_run = item["trials"]
    failed = sum(trials_run["failed"].values())
    return {**answer, "trials": trials_run["total"], "failed": failed, "trace": json.loads(shown.stdout)["trace"]}


def timed(command: list[str], env: dict[str, str]) -> dict[str, Any]:
    """Runs a whole process; its last line of output is JSON. Adds wall_s and cpu_s (children included)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **env}, check=False)
    wall_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[:4])} ended with {done.returncode}: {done.stderr[-2000:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    text = done.stdout.strip()
    answer = json.loads(text if text.startswith("[") else text.splitlines()[-1])
    parsed = {"answer": answer} if isinstance(answer, list) else answer
    return {**parsed, "wall_s": wall_s, "cpu_s": cpu_s}


if __name__ == "__main__":
    raise SystemExit(main())
