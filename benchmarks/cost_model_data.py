"""Gathers real measured candidates for benchmarks/cost_model.py: features and latencies, one .npz per workload.

Each workload runs in its own process, because a random schedule may crash it. The first candidates are random
traces, the later ones come from upstream's evolutionary search, so that early and late differ as in a real run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

WORKLOADS = ("matmul", "conv2d", "softmax", "dense_gelu", "layer_norm", "depthwise", "batch_matmul")


@dataclass(frozen=True)
class Measured:
    """Candidates of one workload in the order they were first timed.

    `passes_s` [n, n_passes] are timings of the same code, minutes apart and in random order; `latency_s` is their
    minimum, which busy neighbours disturb least. `evolved` marks the candidates of the evolutionary search.
    """

    workload: str
    features: list[npt.NDArray[np.float32]]
    passes_s: npt.NDArray[np.float64]
    evolved: npt.NDArray[np.bool_]

    @property
    def latency_s(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.passes_s.min(axis=1))


def load(path: Path) -> Measured:
    with np.load(path, allow_pickle=False) as data:
        rows, counts = data["rows"], data["counts"]
        features = np.split(rows, np.cumsum(counts)[:-1])
        return Measured(path.stem, features, data["passes_s"], data["evolved"])


def gather(folder: Path, workload: str, n_random: int, n_evolved: int, seed: int) -> Measured:
    """Reuses `folder`/`workload`.npz if it has enough candidates, else measures in a child process."""
    path = folder / f"{workload}.npz"
    if path.exists():
        found = load(path)
        if len(found.features) >= 0.8 * (n_random + n_evolved):
            return found
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, workload, str(path), str(n_random), str(n_evolved), str(seed)]
    environment = {**os.environ, "TVM_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
    code = subprocess.run(command, env=environment, check=False).returncode
    if not path.exists():
        raise SystemExit(f"gathering {workload} ended with exit code {code} before anything was measured")
    return load(path)


def make_function(workload: str) -> Any:
    from tuner.tvm_api import te, tirx, topi

    def tensor(name: str, *shape: int) -> Any:
        return te.placeholder(shape, name=name, dtype="float32")

    if workload == "matmul":
        a, b = tensor("a", 512, 512), tensor("b", 512, 512)
        return te.create_prim_func([a, b, topi.matmul(a, b)])
    if workload == "conv2d":
        x, w = tensor("x", 1, 64, 56, 56), tensor("w", 64, 64, 3, 3)
        return te.create_prim_func([x, w, topi.nn.conv2d(x, w, 1, 1, 1)])
    if workload == "softmax":
        x = tensor("x", 1536, 128)
        return te.create_prim_func([x, topi.nn.softmax(x)])
    if workload == "dense_gelu":
        x, w, bias = tensor("x", 128, 768), tensor("w", 3072, 768), tensor("bias", 3072)
        y = topi.nn.dense(x, w, bias)
        half, root = tirx.const(0.5, "float32"), tirx.const(0.7071067811865476, "float32")
        gelu = te.compute(y.shape, lambda i, j: y[i, j] * half * (1.0 + tirx.erf(y[i, j] * root)), name="gelu")
        return te.create_prim_func([x, w, bias, gelu])
    if workload == "layer_norm":
        x, gamma, beta = tensor("x", 512, 768), tensor("gamma", 768), tensor("beta", 768)
        return te.create_prim_func([x, gamma, beta, topi.nn.layer_norm(x, gamma, beta, axis=[1])])
    if workload == "depthwise":
        x, w = tensor("x", 1, 96, 56, 56), tensor("w", 96, 1, 3, 3)
        return te.create_prim_func([x, w, topi.nn.depthwise_conv2d_nchw(x, w, 1, 1, 1)])
    if workload == "batch_matmul":
        a, b = tensor("a", 12, 197, 64), tensor("b", 12, 197, 64)
        return te.create_prim_func([a, b, topi.nn.batch_matmul(a, b)])
    raise SystemExit(f"unknown workload {workload!r}, want one of {', '.join(WORKLOADS)}")


class _Session:
    """One workload being measured: builds, times and stores candidates as they come."""

    def __init__(self, workload: str, path: Path) -> None:
        from tuner.tvm_api import ms, tvm

        self.path = path
        n_cores = int(os.environ["TVM_NUM_THREADS"])
        host = tvm.target.codegen.llvm_get_system_cpu()
        self.target = tvm.target.Target({"kind": "llvm", "num-cores": n_cores, "mcpu": host})
        function = make_function(workload).with_attr("global_symbol", "main")
        # Else a postprocessor changes the shape of the weights, which a caller can't know.
        self.mod = tvm.IRModule({"main": function.without_attr("layout_free_buffers")})
        rng = np.random.default_rng(0)
        self.args = [
            tvm.runtime.tensor(rng.standard_normal([int(e) for e in p.shape]).astype("float32"))
            for p in self.mod["main"].params
        ]
        self.extractor = ms.feature_extractor.PerStoreFeature()
        self.features: list[npt.NDArray[np.float32]] = []
        self.modules: list[Any] = []
        self.passes_s: list[list[float]] = []
        self.evolved: list[bool] = []

    def context(self, strategy: Any, seed: int) -> Any:
        from tuner.tvm_api import ms

        space = ms.space_generator.PostOrderApply(sch_rules="llvm", postprocs="llvm", mutator_probs="llvm")
        return ms.TuneContext(
            mod=self.mod,
            target=self.target,
            space_generator=space,
            search_strategy=strategy,
            task_name="main",
            rand_state=seed,
            num_threads=1,
        )

    def build(self, sch: Any) -> Any | None:
        import tvm_ffi_orcjit

        from tuner.tvm_api import tvm

        try:
            lowered = tvm.s_tir.transform.RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(sch.mod)
            with tempfile.NamedTemporaryFile(suffix=".o") as file:
                tvm.tirx.build(lowered, target=self.target).write_to_file(file.name, "o")
                return tvm_ffi_orcjit.default_session().load_module(Path(file.name).read_bytes())
        except Exception as error:  # noqa: BLE001  a candidate that can't be built has no place in the data
            print(f"skipped: {str(error).splitlines()[-1][:100]}", file=sys.stderr)
            return None

    def time(self, module: Any) -> float:
        """Best of 8 samples, in seconds."""
        from tuner.tvm_api import tvm

        timer = module.time_evaluator("main", tvm.cpu(), number=1, repeat=8, min_repeat_ms=3)
        return float(min(timer(*self.args).results))

    def measure(self, context: Any, candidates: list[Any], evolved: bool) -> list[float | None]:
        outcomes: list[float | None] = []
        for candidate, tensor in zip(candidates, self.extractor.extract_from(context, candidates), strict=True):
            rows = tensor.numpy().astype(np.float32)
            module = self.build(candidate.sch)
            outcomes.append(None if module is None else self.time(module))
            if outcomes[-1] is not None and rows.size:
                self.features.append(rows)
                self.modules.append(module)
                self.passes_s.append([outcomes[-1]])
                self.evolved.append(evolved)
        return outcomes

    def time_again(self, n_passes: int, seed: int) -> None:
        for order in np.random.default_rng(seed).permuted(np.tile(np.arange(len(self.modules)), (n_passes, 1)), axis=1):
            for i in order:
                self.passes_s[i].append(self.time(self.modules[i]))

    def store(self) -> None:
        if not self.features:
            return
        partial = self.path.with_suffix(".part.npz")
        np.savez_compressed(
            partial,
            rows=np.concatenate(self.features),
            counts=np.array([f.shape[0] for f in self.features]),
            passes_s=np.array(self.passes_s),
            evolved=np.array(self.evolved),
        )
        partial.replace(self.path)

    def run(self, strategy: Any, n_trials: int, seed: int, evolved: bool, model: Any, database: Any) -> None:
        """Upstream's loop in miniature; every result goes to `database` and `model`."""
        from tuner.tvm_api import ms

        context = self.context(strategy, seed)
        context.pre_tuning(
            max_trials=n_trials,
            num_trials_per_iter=32,
            design_spaces=context.generate_design_space(),
            database=database,
            cost_model=model,
        )
        workload = database.commit_workload(self.mod)
        n_done = 0
        while n_done < n_trials and (candidates := context.generate_measure_candidates()):
            start = time.monotonic()
            outcomes = self.measure(context, candidates, evolved)
            n_done += len(candidates)
            results = [
                ms.runner.RunnerResult([s], None) if s is not None else ms.runner.RunnerResult(None, "failed")
                for s in outcomes
            ]
            context.notify_runner_results(candidates, results)
            model.update(context, candidates, results)
            for candidate, seconds in zip(candidates, outcomes, strict=True):
                record = ms.database.TuningRecord(
                    candidate.sch.trace, workload, [seconds or 1e10], self.target, candidate.args_info
                )
                database.commit_tuning_record(record)
            took = time.monotonic() - start
            print(f"{self.path.stem}: {len(self.features)} measured, batch took {took:.1f} s", file=sys.stderr)
        context.post_tuning()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("path", type=Path)
    parser.add_argument("n_random", type=int)
    parser.add_argument("n_evolved", type=int)
    parser.add_argument("seed", type=int)
    options = parser.parse_args()
    from tuner.tvm_api import ms

    session = _Session(options.workload, options.path)
    model = ms.cost_model.XGBModel(num_warmup_samples=32, num_tuning_cores=len(os.sched_getaffinity(0)))
    database = ms.database.MemoryDatabase()
    session.run("replay-trace", options.n_random, options.seed + 1, False, model, database)
    if options.n_evolved:
        evolutionary = ms.search_strategy.EvolutionarySearch(
            population_size=128, init_measured_ratio=0.2, init_min_unmeasured=32, genetic_num_iters=3
        )
        session.run(evolutionary, options.n_evolved, options.seed + 1001, True, model, database)
    session.time_again(2, options.seed)
    session.store()


if __name__ == "__main__":
    main()
