"""`tunesmith version`: this program and the toolchain it makes code with."""

from __future__ import annotations

from service.exits import DONE
from service.options import JsonOption
from service.render import facts_table, print_json, print_out
from tuner.targets.toolchain import toolchain_versions


def version(json: JsonOption = False) -> int:
    """Print the versions of tunesmith and of the toolchain."""
    versions = toolchain_versions()
    if json:
        print_json(versions)
    else:
        print_out(facts_table("", sorted(versions.items(), key=lambda item: item[0] != "tunesmith")))
    return DONE
