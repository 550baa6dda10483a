"""From the command to the first measured trial: whole processes, on a cold and a warm cache of the device's peaks."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Report, arguments

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS = ("matmul:m=512,n=512,k=512", "softmax:shape=1536x128", "attention:heads=4,seq_len=128,head_dim=64")
GOAL_S = 8.0


def main() -> int:
    options = arguments(__doc__ or "").parse_args()
    report = Report("seconds from the command to the first measured trial")
    seen: list[float] = []
    for line in WORKLOADS[: 1 if options.quick else None]:
        with tempfile.TemporaryDirectory() as tmp:
            for run in range(1 + max(2, options.seeds)):
                seconds = first_trial_s(line, Path(tmp), seed=run)
                cache = "cold" if run == 0 else "warm"
                report.row(workload=line, cache=cache, seconds=seconds)
                seen.append(seconds)
    report.goal("first trial", f"< {GOAL_S:g} s, every run", max(seen), max(seen) < GOAL_S)
    report.row(workload="median of all", cache="", seconds=statistics.median(seen))
    return report.finish(options.json)


def first_trial_s(line: str, tmp: Path, seed: int) -> float:
    """The clock starts before the process and stops when the first searched candidate has its outcome."""
    command = [sys.executable, "-m", "service.cli", "tune", line, "--trials", "3", "--seed", str(seed)]
    env = {**os.environ, "TUNESMITH_CACHE_DIR": str(tmp / "cache")}
    began = time.time()
    done = subprocess.run(
        [*command, "--json", "--db", f"sqlite:///{tmp}/t.db"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=env,
        check=True,
    )
    item = json.loads(done.stdout)[0]
    return float(item["started_at"] + item["first_trial_s"] - began)


if __name__ == "__main__":
    raise SystemExit(main())
