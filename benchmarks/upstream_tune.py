"""One upstream `tune_tir` run with its defaults, as a whole process. Started by trial_rate.py; prints one JSON line.

usage: upstream_tune.py MODULE.json TARGET.json TRIALS SEED WORK_DIR   (TVM_NUM_THREADS is set by the caller)
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path


def main() -> None:
    module_file, target_file, trials, seed, work_dir = sys.argv[1:]
    import tvm
    from tvm.s_tir import meta_schedule as ms

    logging.disable(logging.CRITICAL)
    mod = tvm.ir.load_json(Path(module_file).read_text())
    target = tvm.target.Target(json.loads(Path(target_file).read_text()))
    database = ms.tune_tir(mod=mod, target=target, work_dir=work_dir, max_trials_global=int(trials), seed=int(seed))
    records = database.get_all_tuning_records()
    failed = sum(1 for r in records if not r.run_secs or float(r.run_secs[0]) >= 1e9)
    top = database.get_top_k(database.commit_workload(mod), 1) if len(records) > failed else []
    trace = None
    if top:
        # What upstream would publish: its best record, rebuilt with its postprocessors.
        schedule = top[0].as_measure_candidate().sch
        trace = _plain(schedule.trace.as_json())
    print(json.dumps({"trials": len(records), "failed": failed, "trace": trace}))


def _plain(node):
    import tvm

    if node is None or isinstance(node, bool | int | float | str):
        return node
    if isinstance(node, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return node.value
    return [_plain(item) for item in node]


if __name__ == "__main__":
    main()
