"""`tunesmith workloads`: the operators, their parameters and defaults, and a line to copy for each."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from service.exits import DONE
from service.options import JsonOption
from service.render import new_table, print_json, print_out
from tuner.errors import WorkloadError
from tuner.workloads.catalog import list_operators


def workloads(
    op: Annotated[str | None, typer.Argument(metavar="[OPERATOR]", help="Only this one, with all it takes.")] = None,
    json: JsonOption = False,
) -> int:
    """List the operators that can be named, or all that one of them takes."""
    operators = list_operators()
    chosen = [o for o in operators if op in (None, o["op"])]
    if not chosen:
        raise WorkloadError(f"no operator {op!r}; there are {', '.join(o['op'] for o in operators)}")
    if json:
        print_json(chosen)
    elif op is None:
        table = new_table("operator", "computes", "example")
        for operator in chosen:
            table.add_row(operator["op"], operator["doc"], operator["example"])
        print_out(table, "", "Any other computation: module:FILE.json, written by tvm.ir.save_json.")
    else:
        _print_operator(chosen[0])
    return DONE


def _print_operator(operator: dict[str, Any]) -> None:
    parameters = new_table("parameter", "kind", "default", "meaning")
    for p in operator["params"]:
        meaning = f"{p['doc']} ({', '.join(map(str, p['choices']))})" if p.get("choices") else p["doc"]
        parameters.add_row(p["name"], p["kind"], "required" if p["required"] else str(p["default"]), meaning)
    dtypes = new_table("dtype", "acc_dtype", "out_dtype")
    for name, precisions in operator["dtypes"].items():
        dtypes.add_row(name, " or ".join(precisions["acc_dtype"]), " or ".join(precisions["out_dtype"]))
    print_out(f"{operator['op']}: {operator['doc']}", "", parameters, "", dtypes, "")
    for name in ("layouts", "epilogues"):
        if operator[name]:
            print_out(f"{name}: {', '.join(operator[name])}")
    print_out(f"example: tunesmith tune {operator['example']}")
