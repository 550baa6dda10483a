"""One job in a child process, for commands that need TVM for a moment: the main process never imports it."""

from __future__ import annotations

from typing import Any

from tuner.config import Limits
from tuner.errors import JobRaised, WorkerDied, WorkerTimeout
from tuner.workloads.spec import WorkloadRequest

TIMEOUT_S = 60.0


def run_jobs(jobs: list[tuple[str, dict[str, Any]]], *, n_threads: int = 1, doing: str) -> list[Any]:
    """Runs jobs of the fixed table one after the other in one child, and returns their answers.

    `doing` names the whole for an error's line, e.g. "show record 3fa9".

    Raises:
        JobRaised, WorkerDied, WorkerTimeout: the job failed, crashed or hung. Errors that a job raises by their name
        in tuner/errors.py come as they are.
    """
    from tuner.measure.worker import IsolatedWorker
    from tuner.measure.zygote import Zygote

    limits = Limits()
    with (
        Zygote(n_threads) as zygote,
        IsolatedWorker(
            zygote, jobs_per_worker=limits.jobs_per_worker, extra_memory_bytes=limits.extra_memory_bytes
        ) as worker,
    ):
        try:
            return [worker.call(name, kwargs, TIMEOUT_S) for name, kwargs in jobs]
        except JobRaised as error:
            raise JobRaised(f"can't {doing}: {error}") from error
        except WorkerDied as error:
            raise WorkerDied(f"can't {doing}: {error}", error.signal_name) from error
        except WorkerTimeout as error:
            raise WorkerTimeout(f"can't {doing}: {error}") from error


def resolved_key(request: WorkloadRequest) -> str:
    """The key of the computation that a module's text stands for, worked out by a child."""
    job = ("workload.resolve", {"request": request.to_dict()})
    return str(run_jobs([job], doing=f"read {request.label}")[0]["key"])
