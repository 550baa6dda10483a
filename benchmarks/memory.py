"""Resident memory of the main process and of each worker over a long run, sampled twice a second."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.report import Report, arguments

ROOT = Path(__file__).resolve().parent.parent
MB = 1e6


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--workload", default="matmul:m=256,n=256,k=256")
    options = parser.parse_args()
    trials = 120 if options.quick else 500
    main_mb, worker_mb = watch(options.workload, trials)
    report = Report(f"resident memory over {trials} trials of {options.workload}")
    for name, values in (("main", main_mb), ("largest worker", worker_mb)):
        report.row(process=name, max_mb=max(values), first_half_mb=_half(values, 0), second_half_mb=_half(values, 1))
    report.goal("main process", "< 1000 MB", max(main_mb), max(main_mb) < 1000)
    report.goal("each worker", "< 700 MB", max(worker_mb), max(worker_mb) < 700)
    for name, values in (("main", main_mb), ("workers", worker_mb)):
        growth = _half(values, 1) / _half(values, 0)
        report.goal(f"{name}: not growing", "second half's median < 1.1x the first's", growth, growth < 1.1)
    return report.finish(options.json)


def watch(line: str, trials: int) -> tuple[list[float], list[float]]:
    """MB over time, from the first worker on: of the main process, and of the largest of its descendants."""
    with tempfile.TemporaryDirectory() as tmp:
        command = [sys.executable, "-m", "service.cli", "tune", line, "--trials", str(trials)]
        done = subprocess.Popen(
            [*command, "--json", "--db", f"sqlite:///{tmp}/t.db"], stdout=subprocess.DEVNULL, cwd=ROOT
        )
        process = psutil.Process(done.pid)
        main_mb: list[float] = []
        worker_mb: list[float] = []
        while done.poll() is None:
            try:
                largest = max((p.memory_info().rss for p in process.children(recursive=True)), default=0)
                if largest:
                    main_mb.append(process.memory_info().rss / MB)
                    worker_mb.append(largest / MB)
            except psutil.Error:
                pass  # a process ended between being listed and being asked
            time.sleep(0.5)
        if done.returncode != 0:
            raise SystemExit(f"the run ended with {done.returncode}")
    return main_mb, worker_mb


def _half(values: list[float], which: int) -> float:
    middle = len(values) // 2
    return statistics.median(values[:middle] if which == 0 else values[middle:])


if __name__ == "__main__":
    raise SystemExit(main())
