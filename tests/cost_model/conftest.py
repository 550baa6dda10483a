"""Real features for the cost model's tests: schedules made by hand, rows extracted by TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tuner.tvm_api import Schedule, ms, te, tvm

Rows = npt.NDArray[np.float64]


def rows_of(sch: Any) -> Rows:
    target = tvm.target.Target({"kind": "llvm", "num-cores": 2, "mcpu": "skylake-avx512"})
    context = ms.TuneContext(mod=sch.mod, target=target, num_threads=1)
    candidate = ms.MeasureCandidate(sch, [])
    rows: Rows = ms.feature_extractor.PerStoreFeature().extract_from(context, [candidate])[0].numpy()
    return rows


def schedule_of(arguments: list[Any]) -> Any:
    function = te.create_prim_func(arguments).with_attr("global_symbol", "main")
    return Schedule(tvm.IRModule({"main": function}))


def add_schedule(rows: int, columns: int, dtype: str = "float32") -> Any:
    """out[i, j] = a[i, j] + b[i, j] in one block "out", loops i and j."""
    a, b = (te.placeholder((rows, columns), name=n, dtype=dtype) for n in "ab")
    return schedule_of([a, b, te.compute((rows, columns), lambda i, j: a[i, j] + b[i, j], name="out")])


def matmul_schedule(n: int) -> Any:
    """Square float32 matmul in one block "out", loops i, j, k."""
    a, b = (te.placeholder((n, n), name=name) for name in "ab")
    k = te.reduce_axis((0, n), name="k")
    return schedule_of([a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="out")])


def extract(arrange: Callable[[Any], Any], sch: Any) -> Rows:
    """Features of `sch` after `arrange(sch)` changed it."""
    arrange(sch)
    return rows_of(sch)


@pytest.fixture(scope="session")
def blocked_matmul() -> Rows:
    """512 x 512 x 512: tiles of 8 x 32 accumulate in registers, parallel over the rows of tiles."""

    def arrange(sch: Any) -> None:
        block = sch.get_sblock("out")
        i, j, k = sch.get_loops(block)
        i_outer, i_inner = sch.split(i, [None, 8])
        j_outer, j_inner = sch.split(j, [None, 32])
        k_outer, k_inner = sch.split(k, [None, 16])
        sch.reorder(i_outer, j_outer, k_outer, k_inner, i_inner, j_inner)
        sch.vectorize(j_inner)
        sch.parallel(i_outer)

    return extract(arrange, matmul_schedule(512))
