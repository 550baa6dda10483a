"""`tunesmith lookup`: asks the database for each workload's schedule. Starts TVM only where a module must be read."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from service.child import resolved_key
from service.exits import DONE, STRICT_MISS
from service.options import DbOption, JsonOption, TargetOption, WorkloadsArgument, open_repository
from service.record_json import confirmed, record_json, workload_json
from service.render import new_table, print_json, print_out, seconds_text, speedup_text
from tuner.config import Policy
from tuner.targets.device import detect_device
from tuner.targets.target import Target, parse_target
from tuner.targets.toolchain import toolchain_versions
from tuner.workloads.spec import WorkloadRequest, parse_workload
from tuning_db.repository import Repository
from tuning_db.views import LookupAnswer


def lookup(
    workload: WorkloadsArgument,
    target: TargetOption = "native",
    device: Annotated[
        str | None, typer.Option("--device", metavar="KEY", help="Another device's key; by default this machine.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 if any workload has no schedule.")] = False,
    db: DbOption = None,
    json: JsonOption = False,
) -> int:
    """Ask the database for the best proven schedule of each workload."""
    requests = [parse_workload(w) for w in workload]
    for_target = parse_target(target)
    device_key = device or detect_device(for_target).key
    repository = open_repository(db)
    answers = [_ask(repository, request, for_target, device_key) for request in requests]
    if json:
        print_json([_answer_json(r, a) for r, a in zip(requests, answers, strict=True)])
    else:
        table = new_table("workload", "tier", "record", "median", "speed-up", "why")
        for request, answer in zip(requests, answers, strict=True):
            why = answer.reason.replace("tunesmith tune WORKLOAD", f"tunesmith tune {request.label}")
            table.add_row(request.label, answer.tier, *_answer_cells(answer), why)
        print_out(table)
    return STRICT_MISS if strict and any(a.tier == "miss" for a in answers) else DONE


def _ask(repository: Repository, request: WorkloadRequest, target: Target, device_key: str) -> LookupAnswer:
    """By the spec first. A module that was never seen in this text may still be a known computation: resolve it."""
    question: dict[str, Any] = {
        "target": target.attrs,
        "device_key": device_key,
        "toolchain": toolchain_versions(),
        "policy": Policy().name,
    }
    answer = repository.lookup(digest=request.spec_digest, **question)
    if answer.workload_key is not None or request.module_text is None:
        return answer
    return repository.lookup(workload_key=resolved_key(request), **question)


def _answer_json(request: WorkloadRequest, answer: LookupAnswer) -> dict[str, Any]:
    record = answer.record
    return {
        "workload": workload_json(answer.workload_key, request.label, request.spec),
        "tier": answer.tier,
        "record": None if record is None else record_json(record, toolchain_versions()),
        "reason": answer.reason,
    }


def _answer_cells(answer: LookupAnswer) -> tuple[str, str, str]:
    if answer.record is None:
        return "-", "-", "-"
    agreed = confirmed(answer.record)
    if agreed is None:
        return answer.record.id, "-", "-"
    now = agreed.standing
    speedup = speedup_text(now.speedup, (now.speedup_low, now.speedup_high))
    return answer.record.id, seconds_text(now.median_s), speedup
