"""Which cost model ranks best? Ours, its ablations and upstream's, on the same really measured candidates.

    python benchmarks/cost_model.py [--quick] [--seeds N] [--json FILE] [--data DIR] [--threads N]

Each model sees the batches in the order they were measured: before it learns a batch it is asked to rank it. The
kernels run on one thread by default, so that busy neighbours disturb the labels less; the row `measured again` is what
a second measurement of the same code would score, the most that any model could.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cost_model_data import WORKLOADS, Measured, gather
from tuner.cost_model import CostModel, MachineModel, PriorModel, RandomModel, ranking_metrics

BATCH = 32
METRICS = ("pairwise_accuracy", "peak@1", "peak@5", "regret@1", "regret@5", "spearman")
FIT_LIMIT_S = 0.5


class Learner(Protocol):
    def predict(self, features: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float64]: ...

    def update(self, group: str, features: Sequence[npt.NDArray[Any]], latencies_s: Sequence[float]) -> Any: ...


class UpstreamModel:
    """ms.cost_model.XGBModel with its own defaults, fed with stored features; random until its first batch."""

    def __init__(self, seed: int) -> None:
        from tuner.tvm_api import ms

        self._ms = ms
        config = ms.cost_model.xgb_model.XGBConfig(seed=43 + seed, nthread=1)
        # The Python object itself, without the C++ shell around it, which accepts schedules only.
        self._model = ms.cost_model.XGBModel(config=config, num_warmup_samples=1)._inst
        self._model.extractor = self
        self._contexts: dict[str, Any] = {}
        self._context: Any = None

    def extract_from(self, context: Any, candidates: list[Any]) -> list[Any]:
        """In the place of a feature extractor: the candidates are the features."""
        return [_Stored(rows) for rows in candidates]

    def predict(self, features: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        scores: npt.NDArray[np.float64] = self._model.predict(self._context, list(features))
        return scores

    def update(self, group: str, features: Sequence[npt.NDArray[Any]], latencies_s: Sequence[float]) -> None:
        self._context = self._contexts.setdefault(group, _context_of(len(self._contexts)))
        results = [self._ms.runner.RunnerResult([seconds], None) for seconds in latencies_s]
        self._model.update(self._context, list(features), results)


@dataclass(frozen=True)
class _Stored:
    rows: npt.NDArray[Any]

    def numpy(self) -> npt.NDArray[Any]:
        return self.rows


def _context_of(number: int) -> Any:
    """Upstream tells workloads apart by the structural hash of a module; any distinct module will do."""
    from tuner.tvm_api import ms, te, tvm

    a = te.placeholder((number + 1,), name="a")
    return ms.TuneContext(mod=tvm.IRModule({"main": te.create_prim_func([a, te.compute(a.shape, lambda i: a[i])])}))


class Refit:
    """Ours without warm continuation: a new model on all data after each batch."""

    def __init__(self, machine: MachineModel, seed: int) -> None:
        self._machine, self._seed = machine, seed
        self._seen: list[tuple[str, list[npt.NDArray[Any]], list[float]]] = []
        self._model = CostModel(machine, seed=seed)

    def predict(self, features: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        return self._model.predict(features)

    def update(self, group: str, features: Sequence[npt.NDArray[Any]], latencies_s: Sequence[float]) -> None:
        self._seen.append((group, list(features), list(latencies_s)))
        self._model = CostModel(self._machine, seed=self._seed)
        all_features = [f for _, part, _ in self._seen for f in part]
        self._model.update(group, all_features, [s for _, _, part in self._seen for s in part])


@dataclass
class Scores:
    """One model's metrics: one entry per ranked batch, with the number of candidates it had learned from."""

    known: list[int] = field(default_factory=list)
    values: list[dict[str, float]] = field(default_factory=list)
    fit_s: list[float] = field(default_factory=list)

    def mean(self, metric: str, wanted: Callable[[int], bool] = lambda known: True) -> float:
        chosen = [v[metric] for known, v in zip(self.known, self.values, strict=True) if wanted(known)]
        return float(np.mean(chosen)) if chosen else float("nan")


def machine_for(n_threads: int) -> MachineModel:
    """Round numbers of a current server core; what a tuning run would measure instead."""
    return MachineModel(
        n_cores=n_threads,
        peak_flop_per_s=1.5e11 * n_threads,
        cache_bytes=(48e3, 2e6, 32e6),
        cache_bytes_per_s=(3e11 * n_threads, 1e11 * n_threads, 3e10 * n_threads),
        memory_bytes_per_s=1.2e10 * n_threads,
        vector_bytes=64,
        n_vector_registers=32,
    )


def measuring_order(data: Measured, seed: int) -> npt.NDArray[np.int64]:
    """Seed 0 keeps the order in which the candidates were measured; others shuffle within random and evolved."""
    if seed == 0:
        return np.arange(len(data.features))
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(np.flatnonzero(~data.evolved)), rng.permutation(np.flatnonzero(data.evolved))]
    return np.concatenate(parts)


def replay(model: Learner, data: Measured, seed: int, scores: Scores) -> None:
    order = measuring_order(data, seed)
    for start in range(0, order.size, BATCH):
        batch = order[start : start + BATCH]
        features, latency_s = [data.features[i] for i in batch], data.latency_s[batch]
        if batch.size >= BATCH // 2:
            scores.known.append(start)
            scores.values.append(ranking_metrics(model.predict(features), latency_s))
        began = time.process_time()
        model.update(data.workload, features, latency_s.tolist())
        scores.fit_s.append(time.process_time() - began)


def measured_again(data: Measured, seed: int, scores: Scores) -> None:
    """The first timing pass as a prediction of the others."""
    order = measuring_order(data, seed)
    for start in range(0, order.size, BATCH):
        passes = data.passes_s[order[start : start + BATCH]]
        if passes.shape[0] >= BATCH // 2 and passes.shape[1] > 1:
            scores.known.append(start)
            scores.values.append(ranking_metrics(-passes[:, 0], passes[:, 1:].min(axis=1)))


def fit_seconds(sets: Sequence[Measured], machine: MachineModel) -> list[tuple[int, float, float]]:
    """(records known, CPU seconds, wall seconds) per batch while one model learns all workloads one after another."""
    model, told = CostModel(machine), []
    for data in sets:
        for start in range(0, len(data.features), BATCH):
            part = slice(start, start + BATCH)
            began, wall = time.process_time(), time.perf_counter()
            answer = model.update(data.workload, data.features[part], data.latency_s[part].tolist())
            told.append((int(answer["n_total"]), time.process_time() - began, time.perf_counter() - wall))
    return told


def print_table(rows: list[dict[str, Any]]) -> None:
    print(f"{'workload':18}{'model':18}" + "".join(f"{m:>19}" for m in METRICS) + f"{'fit CPU s':>12}")
    for row in rows:
        cells = "".join(f"{row[m]:>19.3f}" for m in METRICS)
        print(f"{row['workload']:18}{row['model']:18}{cells}{row['fit_s_max']:>12.3f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two workloads, 96 candidates each, one order")
    parser.add_argument("--seeds", type=int, default=3, help="orders and model seeds to average over")
    parser.add_argument("--json", type=Path)
    default_data = Path(tempfile.gettempdir()) / "tunesmith-cost-model-data"
    parser.add_argument("--data", type=Path, default=default_data, help="measured candidates, kept for the next run")
    parser.add_argument("--threads", type=int, default=1, help="threads of the measured kernels")
    options = parser.parse_args()

    workloads = ("matmul", "softmax") if options.quick else WORKLOADS
    n_random, n_evolved = (64, 32) if options.quick else (96, 96)
    folder = options.data / f"{options.threads}-threads"
    sets = [gather(folder, w, n_random, n_evolved, options.threads, seed=0) for w in workloads]
    machine = machine_for(options.threads)
    makers: dict[str, Callable[[int], Learner]] = {
        "ours": lambda seed: CostModel(machine, seed=seed),
        "ours, refitted": lambda seed: Refit(machine, seed),
        "prior only": lambda seed: PriorModel(machine),
        "random": lambda seed: RandomModel(seed),
        "upstream XGBModel": UpstreamModel,
    }
    seeds = range(1 if options.quick else options.seeds)
    overall = {name: Scores() for name in [*makers, "measured again"]}
    rows: list[dict[str, Any]] = []
    for data in sets:
        for name in overall:
            scores = Scores()
            for seed in seeds:
                if name == "measured again":
                    measured_again(data, seed, scores)
                else:
                    replay(makers[name](seed), data, seed, scores)
            rows.append(row_of(data.workload, name, scores))
            for field_name in ("known", "values", "fit_s"):
                getattr(overall[name], field_name).extend(getattr(scores, field_name))
    rows += [row_of("all", name, scores) for name, scores in overall.items()]
    for limit, label in ((BATCH, "no data yet"), (4 * BATCH, "up to 96 known"), (10**9, "more known")):
        lowest = 0 if limit == BATCH else BATCH if limit == 4 * BATCH else 4 * BATCH
        for name, scores in overall.items():
            if any(lowest <= known < limit for known in scores.known):
                rows.append(row_of(label, name, scores, lambda known, lo=lowest, hi=limit: lo <= known < hi))
    print_table(rows)

    fits = fit_seconds(sets, machine)
    print(f"fitting with {fits[-1][0]} records at the end: slowest batch {max(f[1] for f in fits):.3f} CPU s, ", end="")
    print(f"{max(f[2] for f in fits):.3f} s of wall time on this machine at this load")
    goals = goals_of(overall, fits)
    for name, goal in goals.items():
        print(f"{'holds' if goal['holds'] else 'FAILS'}  {name}: want {goal['want']}, got {goal['got']:.3f}")
    holds = all(goal["holds"] for goal in goals.values())
    if options.json:
        environment = {"machine": platform.processor() or platform.machine(), "cores": len(os.sched_getaffinity(0))}
        environment |= {"load": list(os.getloadavg()), "threads": options.threads, "python": platform.python_version()}
        report = {"environment": environment, "rows": rows, "goals": goals, "holds": holds}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if holds else 1


def row_of(
    workload: str, name: str, scores: Scores, wanted: Callable[[int], bool] = lambda known: True
) -> dict[str, Any]:
    metrics = {m: scores.mean(m, wanted) for m in METRICS}
    return {"workload": workload, "model": name, **metrics, "fit_s_max": max(scores.fit_s, default=0.0)}


def goals_of(overall: dict[str, Scores], fits: list[tuple[int, float, float]]) -> dict[str, dict[str, Any]]:
    def learned(known: int) -> bool:
        return known > 0

    ours = overall["ours"]
    goals: dict[str, dict[str, Any]] = {}
    for peer in ("prior only", "random", "upstream XGBModel"):
        for metric in ("pairwise_accuracy", "peak@5"):
            margin = ours.mean(metric, learned) - overall[peer].mean(metric, learned)
            goals[f"{metric} over {peer}"] = {"want": ">= 0", "got": margin, "holds": bool(margin >= 0)}
    gain = overall["prior only"].mean("pairwise_accuracy") - 0.5
    goals["prior over chance before any data"] = {"want": ">= 0.1", "got": gain, "holds": bool(gain >= 0.1)}
    slowest = max(cpu_s for _, cpu_s, _ in fits)
    goals["slowest fit, CPU seconds"] = {"want": f"<= {FIT_LIMIT_S}", "got": slowest, "holds": slowest <= FIT_LIMIT_S}
    return goals


if __name__ == "__main__":
    sys.exit(main())
