"""`tunesmith targets`: what `native` means here, what can be named, or how one target is understood."""

from __future__ import annotations

from typing import Annotated

import typer

from service.exits import DONE
from service.options import JsonOption
from service.render import new_table, print_json, print_out
from tuner.targets.catalogue import load_catalogue
from tuner.targets.target import SUPPORTED_KINDS, parse_target


def targets(
    target: Annotated[
        str | None, typer.Argument(metavar="[TARGET]", help="Only how this one is understood, as canonical JSON.")
    ] = None,
    json: JsonOption = False,
) -> int:
    """List what can be tuned for, or show how one target is understood."""
    if target is not None:
        parsed = parse_target(target)
        if json:
            print_json({"target": parsed.attrs, "label": parsed.label})
        else:
            print_out(parsed.canonical_json())
        return DONE
    native, tags = parse_target("native"), sorted(load_catalogue().tags)
    if json:
        print_json({"native": native.attrs, "kinds": list(SUPPORTED_KINDS), "tags": tags})
        return DONE
    by_maker: dict[str, list[str]] = {}
    for tag in tags:
        by_maker.setdefault(tag.partition("/")[0], []).append(tag)
    table = new_table("tags of", "count", "for example")
    for maker, names in by_maker.items():
        table.add_row(maker, str(len(names)), ", ".join(names[:3]))
    print_out(f"native: {native.canonical_json()}", f"kinds:  {', '.join(SUPPORTED_KINDS)}", "", table, "")
    print_out("All tags: tunesmith targets --json")
    return DONE
