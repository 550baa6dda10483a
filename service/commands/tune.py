"""`tunesmith tune`: tunes workloads here and now, one after the other, each with live progress and a final table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from rich.console import Console

from service.exits import BAD_USAGE, DONE, FAILED, exit_code, print_error
from service.interrupt import Interrupt, interruptible
from service.options import DbOption, JsonOption, TargetOption, WorkloadsArgument, open_repository
from service.render import print_json, print_out, speedup_text
from service.result_view import result_table
from service.settings import Settings
from service.watch import Watcher, best_so_far, new_watcher
from tuner.config import TuneConfig
from tuner.errors import StorageError, TunesmithError
from tuner.result import TuneResult
from tuner.targets.target import Target, parse_target
from tuner.workloads.spec import WorkloadRequest, parse_workload
from tuning_db.repository import Repository


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for, all of it understood."""

    requests: tuple[WorkloadRequest, ...]
    target: Target
    config: TuneConfig


@dataclass(slots=True)
class Session:
    """One command's runs: what came of each request so far."""

    order: Order
    repository: Repository
    console: Console
    interrupt: Interrupt
    prints_tables: bool
    watcher: Watcher | None = None
    results: list[dict[str, Any]] = field(default_factory=list)
    n_failed: int = 0
    n_misused: int = 0


def tune(
    workload: WorkloadsArgument,
    target: TargetOption = "native",
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="At most this many candidates each.")] = 128,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", help="At most this long each, confirmation included.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="The same seed starts with the same batch.")] = 0,
    db: DbOption = None,
    json: JsonOption = False,
) -> int:
    """Tune workloads on this machine, prove the winners correct, and store them.

    Ctrl-C, SIGTERM or a closed terminal stops after the trial at hand, confirms and stores the best so far, and exits
    with 130, 143 or 129. Before the first trial it stops at once.
    A second one stops at once; every finished record is kept.
    """
    order = Order(
        requests=tuple(parse_workload(w) for w in workload),
        target=parse_target(target),
        config=TuneConfig(trials=trials, seconds=seconds, seed=seed, cache_dir=Settings.from_environment().cache_dir),
    )
    order.target.require_measurable_here()
    console = Console(stderr=True, highlight=False)
    with interruptible(lambda line: console.print(line, style="yellow", soft_wrap=True)) as interrupt:
        session = Session(
            order=order,
            repository=open_repository(db),
            console=console,
            interrupt=interrupt,
            prints_tables=not json,
        )
        try:
            _tune_each(session)
        except KeyboardInterrupt:  # the second signal
            last = session.watcher.last if session.watcher else None
            print_error(f"stopped at once, all finished records are kept; {best_so_far(last)}")
        finally:
            if json:
                print_json(session.results)
    if interrupt.exit_code is not None:
        return interrupt.exit_code
    if not session.n_failed:
        return DONE
    return BAD_USAGE if session.n_misused == len(order.requests) else FAILED


def _tune_each(session: Session) -> None:
    """One workload that fails does not keep the others from being tuned; a database that fails does."""
    from tuner.loop import tune_task

    order, n = session.order, len(session.order.requests)
    for number, request in enumerate(order.requests, start=1):
        if session.interrupt.stop.is_set():
            _leave_out(session, order.requests[number - 1 :], "interrupted before it was started")
            return
        heading = request.label if n == 1 else f"[{number}/{n}] {request.label}"
        try:
            with new_watcher(session.console, heading) as session.watcher:
                result = tune_task(
                    request,
                    order.target,
                    order.config,
                    session.repository,
                    session.watcher,
                    stop=session.interrupt.stop,
                )
        except TunesmithError as error:
            session.n_failed += 1
            session.n_misused += exit_code(error) == BAD_USAGE
            session.results.append(_error_json(request, order, type(error).__name__, str(error)))
            print_error(str(error) if n == 1 else f"{request.label}: {error}")
            if isinstance(error, StorageError):
                _leave_out(session, order.requests[number:], "not started: the database can't be used")
                return
        else:
            session.results.append(result.to_json())
            session.n_failed += result.best is None and result.stopped not in ("nothing_to_tune", "interrupted")
            if session.prints_tables:
                print_out(result_table(request.label, result, _published_text(result, session.repository)), "")


def _published_text(result: TuneResult, repository: Repository) -> str | None:
    """What lookups serve from now on: this run's winner, or an earlier one that stands higher."""
    if result.best is None:
        return None
    record = repository.get_record(result.best.record_id)
    if record.published is not None:
        return "yes: lookups serve this record"
    if result.best.verdict == "slower":
        return "no: slower than untuned is never served"
    answer = repository.lookup(
        target=record.target,
        device_key=str(record.device["key"]),
        toolchain=record.toolchain,
        workload_key=record.workload.key,
        policy=record.policy,
    )
    if answer.record is None or answer.record.published is None:
        return "no"
    earlier = answer.record.published.standing
    speedup = speedup_text(earlier.speedup, (earlier.speedup_low, earlier.speedup_high))
    return f"no: record {answer.record.id} stays, {speedup} over untuned in its own session"


def _leave_out(session: Session, requests: Sequence[WorkloadRequest], why: str) -> None:
    for request in requests:
        session.results.append(_error_json(request, session.order, "NotStarted", why))
    if requests:
        print_error(f"{len(requests)} of {len(session.order.requests)} workloads were not started")


def _error_json(request: WorkloadRequest, order: Order, code: str, message: str) -> dict[str, Any]:
    """In the list's place of a workload that gave no result; what a result has, it has too."""
    return {
        "workload": {"key": None, "label": request.label, **request.spec},
        "target": order.target.attrs,
        "device": None,
        "policy": order.config.policy.name,
        "seed": order.config.seed,
        "best": None,
        "baseline": None,
        "trials": {"total": 0, "ok": 0, "failed": {}},
        "seconds": {},
        "error": {"code": code, "message": message},
    }
