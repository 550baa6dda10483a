"""`tunesmith devices`: the machines whose measurements are stored, and this one."""

from __future__ import annotations

from service.exits import DONE
from service.options import DbOption, JsonOption, open_repository
from service.render import new_table, print_json, print_out, utc_text
from tuner.targets.device import detect_device
from tuner.targets.target import native_target


def devices(db: DbOption = None, json: JsonOption = False) -> int:
    """List the devices with measurements in the database, and this one."""
    here = detect_device(native_target()).to_dict()
    stored = {d.key: d for d in open_repository(db).list_devices()}
    rows = [
        {**d.info, "runs": d.n_runs, "last_seen": utc_text(d.last_seen_at_s), "this_machine": d.key == here["key"]}
        for d in stored.values()
    ]
    if here["key"] not in stored:
        rows.insert(0, {**here, "runs": 0, "last_seen": None, "this_machine": True})
    if json:
        print_json(rows)
        return DONE
    table = new_table("device", "what it is", "runs", "last used", "")
    for row in rows:
        label = str(row.get("label") or row.get("model", "unknown"))
        mark = "this machine" if row["this_machine"] else ""
        table.add_row(str(row["key"]), label, str(row["runs"]), row["last_seen"] or "never", mark)
    print_out(table)
    return DONE
