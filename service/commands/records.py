"""`tunesmith records`: what the database holds, newest first."""

from __future__ import annotations

from typing import Annotated

import typer

from service.child import resolved_key
from service.exits import DONE
from service.options import DbOption, JsonOption, open_repository
from service.render import new_table, print_json, print_out, seconds_text, utc_text
from tuner.workloads.spec import WorkloadRequest, parse_workload


def records(
    workload: Annotated[str | None, typer.Argument(metavar="[WORKLOAD]", help="Only this workload's.")] = None,
    published: Annotated[bool, typer.Option("--published", help="Only what lookups serve.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=2**31, metavar="N", help="At most this many.")] = 50,
    db: DbOption = None,
    json: JsonOption = False,
) -> int:
    """List the stored records, newest first."""
    digest, key = (None, None) if workload is None else _asked_for(parse_workload(workload))
    repository = open_repository(db)
    found = repository.list_records(digest=digest, workload_key=key, only_published=published, limit=limit)
    if json:
        print_json(
            [
                {
                    "record_id": r.id,
                    "workload": {"key": r.workload_key, "label": r.label},
                    "target": r.target,
                    "device": {"key": r.device_key},
                    "policy": r.policy,
                    "trial": r.trial,
                    "kind": r.kind,
                    "median_s": r.median_s,
                    "published": r.is_published,
                    "measured_at": utc_text(r.measured_at_s),
                }
                for r in found
            ]
        )
        return DONE
    if not found:
        print_out("no records; make some with: tunesmith tune matmul:m=512,n=512,k=512")
        return DONE
    table = new_table("record", "measured", "workload", "device", "outcome", "")
    for r in found:
        outcome = r.kind if r.median_s is None else seconds_text(r.median_s)
        mark = "published" if r.is_published else ""
        table.add_row(r.id, utc_text(r.measured_at_s), r.label, r.device_key, outcome, mark)
    print_out(table)
    return DONE


def _asked_for(request: WorkloadRequest) -> tuple[str | None, str | None]:
    """The digest or the key to filter by: a module is known by what it computes, not by its text."""
    return (request.spec_digest, None) if request.module_text is None else (None, resolved_key(request))
