"""Turns a candidate's per-store rows into one vector of fixed length, the ranker's input.

Pooled vectors rank better than summing one tree output per row (benchmarks/cost_model.py): one vector shows the trees
the dominant stores side by side, with the roofline prior's view of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.cost_model.features import COLUMNS, FEATURE_VERSION, IS_LOG, FloatArray, as_rows, unlog
from tuner.cost_model.prior import MachineModel, estimate_stores

POOLED_VERSION = f"{FEATURE_VERSION}/pooled-1"
N_TOP = 3
"""Stores kept whole: those with the largest estimated time."""

_KEPT = np.array([i for i, name in enumerate(COLUMNS) if ".pos_" not in name])
_N_ESTIMATES = 5
N_POOLED = N_TOP * (_KEPT.size + _N_ESTIMATES) + 2 * _KEPT.size + 2


def pool(features: Sequence[npt.NDArray[Any]], machine: MachineModel) -> tuple[npt.NDArray[np.float32], FloatArray]:
    """Pools candidates.

    Returns:
        float32 [n, N_POOLED]: the dominant stores' columns with the log of their estimated seconds, the maximum and
        the log-sum of each column over all stores, the number of stores, and the log of the estimated total.
        float64 [n]: the prior's log estimate in natural log of seconds.
    """
    n = len(features)
    pooled = np.zeros((n, N_POOLED), dtype=np.float32)
    arrays = [as_rows(f) for f in features]
    counts = np.array([a.shape[0] for a in arrays], dtype=np.int64)
    log_total = np.full(n, np.log(1e-9))
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        return pooled, log_total
    rows = np.concatenate([arrays[i] for i in filled])
    starts = np.concatenate([[0], np.cumsum(counts[filled])[:-1]])
    owner = np.repeat(np.arange(filled.size), counts[filled])
    stores = estimate_stores(rows, machine)
    log_total[filled] = np.log(np.maximum(np.add.reduceat(stores.total_s, starts), 1e-9))
    nearest, last = stores.traffic_s[:, 0], stores.traffic_s[:, -1]
    parts = [stores.arithmetic_s, stores.access_s, nearest, last, stores.total_s]
    estimates = np.log(np.maximum(np.stack(parts, axis=1), 1e-12))
    shown = np.concatenate([rows[:, _KEPT], estimates], axis=1)

    order = np.lexsort((np.arange(owner.size), -stores.total_s, owner))
    rank = np.arange(owner.size) - starts[owner]  # of order[j] within its candidate
    width = shown.shape[1]
    for place in range(N_TOP):
        chosen = order[rank == place]
        pooled[filled[owner[chosen]], place * width : (place + 1) * width] = shown[chosen]
    tail = N_TOP * width
    kept = rows[:, _KEPT]
    largest = np.maximum.reduceat(kept, starts, axis=0)
    is_log = IS_LOG[_KEPT]
    summed = np.add.reduceat(np.where(is_log, unlog(kept), kept), starts, axis=0)
    summed = np.where(is_log, np.sign(summed) * np.log2(np.abs(summed) + 1.0), summed)
    rest = np.concatenate([largest, summed, counts[filled, None], log_total[filled, None]], axis=1)
    pooled[filled, tail:] = rest
    return pooled, log_total
