"""The fixed table of jobs a child may run, by name. A name that isn't here is refused."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

JOBS: Mapping[str, str] = {
    "workload.resolve": "tuner.workloads.resolve:resolve_job",
    "space.open": "tuner.search.space_jobs:open_job",
    "space.evaluate": "tuner.search.space_jobs:evaluate_job",
    "space.build": "tuner.search.space_jobs:build_job",
    "space.trace": "tuner.search.space_jobs:trace_job",
    "space.rebuild": "tuner.search.space_jobs:rebuild_job",
    "ir.show": "tuner.search.space_jobs:show_job",
    "target.check": "tuner.targets.llvm:check_job",
    "peaks.measure": "tuner.targets.peak_kernels:measure_job",
    "runner.setup": "tuner.measure.runner_jobs:setup_job",
    "runner.measure": "tuner.measure.runner_jobs:measure_job",
    "runner.confirm": "tuner.measure.runner_jobs:confirm_job",
}

Job = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Tainted:
    """A job returns this around its answer when its process must not be used again (memory may be damaged)."""

    value: Any


def resolve_job_name(name: str, table: Mapping[str, str]) -> Job:
    """The function behind a job name, imported on first use.

    Raises:
        LookupError: the name is not in the table.
    """
    if name not in table:
        raise LookupError(f"no job is named {name!r}")
    module_name, _, function = table[name].partition(":")
    job: Job = getattr(importlib.import_module(module_name), function)
    return job


def preload(table: Mapping[str, str]) -> None:
    """Imports the modules behind the table, so that forked children need not.

    One that can't be imported is told when its job is asked for, so that the other jobs still work.
    """
    for module_name in sorted({path.partition(":")[0] for path in table.values()}):
        with contextlib.suppress(ImportError):
            importlib.import_module(module_name)
