"""What every benchmark prints and writes: a table, and {"environment", "rows", "goals", "holds"} as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tuner.targets.device import detect_device
from tuner.targets.target import native_target
from tuner.targets.toolchain import toolchain_versions


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a smaller run of the same kind")
    parser.add_argument("--seeds", type=int, default=1, help="how often to repeat with another seed")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    return parser


@dataclass
class Report:
    """Collects rows and goals of one benchmark run."""

    title: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    goals: dict[str, dict[str, Any]] = field(default_factory=dict)

    def row(self, **cells: Any) -> None:
        self.rows.append(cells)

    def goal(self, name: str, want: str, got: Any, holds: bool) -> None:
        self.goals[name] = {"want": want, "got": got, "holds": bool(holds)}

    @property
    def holds(self) -> bool:
        return bool(self.goals) and all(goal["holds"] for goal in self.goals.values())

    def finish(self, json_file: Path | None) -> int:
        """Prints the tables, writes the JSON; 0 when every goal holds, else 1."""
        console = Console(width=max(120, Console().width))
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        console.print(_table(self.title, columns, [[row.get(c, "") for c in columns] for row in self.rows]))
        goals = [[n, g["want"], g["got"], "yes" if g["holds"] else "NO"] for n, g in self.goals.items()]
        console.print(_table("goals", ["goal", "want", "got", "holds"], goals))
        if json_file is not None:
            data = {"environment": environment(), "rows": self.rows, "goals": self.goals, "holds": self.holds}
            json_file.write_text(json.dumps(data, indent=1, default=str) + "\n")
        return 0 if self.holds else 1


def environment() -> dict[str, Any]:
    target = native_target()
    device = detect_device(target)
    return {
        "device": {"key": device.key, "label": device.label, "hypervisor": device.hypervisor},
        "target": target.attrs,
        "toolchain": toolchain_versions(),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _table(title: str, columns: list[str], rows: list[list[Any]]) -> Table:
    table = Table(title=title)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
    return table
