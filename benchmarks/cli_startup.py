"""How long `lookup` and `show` take from command to exit, on a database with some thousand records.

A build pipeline calls them once per operator: the goal is a median under 0.5 s. `python -c pass` and `import tvm` stand
beside them, so that a slow or busy machine shows.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Report, arguments
from tuner.config import Policy
from tuner.outcome import Latency
from tuner.records import Confirmation, RunContext, TrialRecord
from tuner.targets.device import detect_device
from tuner.targets.target import native_target
from tuner.targets.toolchain import toolchain_versions
from tuner.workloads.spec import parse_workload
from tuner.workloads.workload import Workload
from tuning_db.engine import open_database
from tuning_db.repository import Repository

GOAL_S = 0.5
SPEC = "matmul:m=512,n=512,k=512"
MODULE_BYTES = 30_000
TRACE_BYTES = 4_000


def main() -> int:
    options = arguments(__doc__ or "").parse_args()
    n_runs, n_rounds = (4, 5) if options.quick else (40, 15 * options.seeds)
    report = Report(f"seconds from command to exit, {n_runs * 100} records, {n_rounds} rounds")
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "tunesmith.db")
        record_id = fill(database, n_runs)
        cli = [sys.executable, "-m", "service.cli"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "lookup": [*cli, "lookup", SPEC, "--strict", "--db", database],
            "lookup --json": [*cli, "lookup", SPEC, "--strict", "--json", "--db", database],
            "lookup of 20": [*cli, "lookup", *[SPEC] * 20, "--strict", "--db", database],
            "show": [*cli, "show", record_id, "--db", database],
            "show --json": [*cli, "show", record_id, "--json", "--db", database],
            "import tvm": [sys.executable, "-c", "import tuner.tvm_api"],
        }
        samples: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(n_rounds + 1):  # side by side, so that drift meets all of them
            for name, command in commands.items():
                samples[name].append(seconds(command))
    for name, values in samples.items():
        wall, cpu = zip(*values[1:], strict=True)  # the first one fills the file cache
        median_s = statistics.median(wall)
        report.row(command=name, median_s=median_s, min_s=min(wall), max_s=max(wall), cpu_s=statistics.median(cpu))
        if name not in ("lookup", "show"):
            continue
        report.goal(f"{name} starts fast", f"< {GOAL_S} s", round(median_s, 3), median_s < GOAL_S)
    return report.finish(options.json)


def seconds(command: list[str]) -> tuple[float, float]:
    """From command to exit, and how much of it was spent on a processor: the rest is other programs' turn."""
    root = Path(__file__).resolve().parent.parent
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fill(database: str, n_runs: int) -> str:
    """Runs of 100 trials over as many workloads, with module and trace of realistic size; returns SPEC's record."""
    target = native_target()
    spec = parse_workload(SPEC).spec
    first = ""
    with open_database(database) as opened:
        repository = Repository(opened)
        for number in range(n_runs):
            run_id = f"run-{number}"
            workload = Workload(
                key=f"{number:064x}",
                label=SPEC,
                spec=spec if number == 0 else {"op": "other", "number": number},
                module_json="m" * MODULE_BYTES,
                args=(),
                flop=1.0,
                bytes_moved=1.0,
                reduction_length=1,
                acc_dtype="float32",
                has_reference=True,
            )
            repository.open_run(
                RunContext(
                    run_id=run_id,
                    workload=workload,
                    target=target.attrs,
                    device=detect_device(target).to_dict(),
                    toolchain=toolchain_versions(),
                    policy=Policy().name,
                    n_threads=target.n_cores,
                    seed=0,
                    baseline_secs=(2e-3,) * 10,
                    started_at=time.time(),
                )
            )
            for trial in range(100):
                repository.record(
                    run_id,
                    TrialRecord(
                        trial=trial,
                        trace_json='["' + "t" * TRACE_BYTES + '"]',
                        outcome=Latency((1e-3,) * 10),
                        artifact_sha256=None,
                        predicted=None,
                        max_abs_error=0.0,
                        max_rel_error=0.0,
                    ),
                )
            agreed = Confirmation(
                baseline_secs=(2e-3,) * 15, candidate_secs={0: (1e-3,) * 15}, winner=0, verdict="faster"
            )
            published = repository.confirm(run_id, agreed)
            first = first or str(published)
    return first


if __name__ == "__main__":
    sys.exit(main())
