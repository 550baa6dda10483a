"""attention: scaled dot product in one function, written plainly as score, row max, exp, row sum, weighted sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.workloads.epilogue import cast_output
from tuner.workloads.numpy_later import np
from tuner.workloads.op_def import FLOATS, Array, OpCall, Operator, Param, tensor
from tuner.workloads.workload import ArgSpec


def _complete(params: dict[str, Any]) -> None:
    if params["kv_len"] is None:
        params["kv_len"] = params["seq_len"]


def _args(call: OpCall) -> list[ArgSpec]:
    queries = (call["batch"], call["heads"], call["seq_len"], call["head_dim"])
    keys = (call["batch"], call["heads"], call["kv_len"], call["head_dim"])
    return [
        tensor("query", queries, call.dtype),
        tensor("key", keys, call.dtype),
        tensor("value", keys, call.dtype),
        tensor("out", queries, call.out_dtype, "out"),
    ]


def _build(call: OpCall) -> Any:
    from tuner.tvm_api import te, tirx

    specs = _args(call)[:3]
    query, key, value = (te.placeholder(s.shape, s.dtype, name=s.name) for s in specs)
    batch, heads, seq_len, head_dim = specs[0].shape
    kv_len = call["kv_len"]
    d = te.reduce_axis((0, head_dim), name="d")
    ks = [te.reduce_axis((0, kv_len), name=f"k{i}") for i in range(3)]
    scale = tirx.const(max(1, head_dim) ** -0.5, "float32")
    scores = (batch, heads, seq_len, kv_len)
    rows = (batch, heads, seq_len)
    score = te.compute(
        scores,
        lambda b, h, i, j: te.sum(query[b, h, i, d].astype("float32") * key[b, h, j, d].astype("float32"), axis=d),
        name="score",
    )
    peak = te.compute(rows, lambda b, h, i: te.max(score[b, h, i, ks[0]], axis=ks[0]), name="peak")
    power = te.compute(scores, lambda b, h, i, j: te.exp((score[b, h, i, j] - peak[b, h, i]) * scale), name="power")
    total = te.compute(rows, lambda b, h, i: te.sum(power[b, h, i, ks[1]], axis=ks[1]), name="total")
    out = te.compute(
        specs[0].shape,
        lambda b, h, i, c: te.sum(
            power[b, h, i, ks[2]] / total[b, h, i] * value[b, h, ks[2], c].astype("float32"), axis=ks[2]
        ),
        name="attention",
    )
    return te.create_prim_func([query, key, value, cast_output(call, out)])


def _reference(call: OpCall, inputs: Mapping[str, Array]) -> Array:
    query, key, value = inputs["query"], inputs["key"], inputs["value"]
    if query.size == 0 or key.size == 0:
        return np.zeros(query.shape)
    score = query @ key.swapaxes(2, 3) * call["head_dim"] ** -0.5
    power = np.exp(score - score.max(axis=3, keepdims=True))
    out: Array = power / power.sum(axis=3, keepdims=True) @ value
    return out


def _flop(call: OpCall) -> float:
    """Two products, and 6 for each score: max, subtract, scale, exp, sum, divide."""
    scores = call["batch"] * call["heads"] * call["seq_len"] * call["kv_len"]
    return float(scores * (4 * call["head_dim"] + 6))


ATTENTION = Operator(
    name="attention",
    doc="softmax(query @ key.T / sqrt(head_dim)) @ value, each [batch, heads, length, head_dim]",
    example="attention:heads=12,seq_len=128,head_dim=64",
    params=(
        Param("batch", "size", "sequences", default=1),
        Param("heads", "size", "attention heads"),
        Param("seq_len", "size", "queries"),
        Param("head_dim", "size", "length of one query, key or value"),
        Param("kv_len", "size", "keys and values; seq_len by default", default=None),
    ),
    precisions=FLOATS,
    complete=_complete,
    args=_args,
    build=_build,
    reference=_reference,
    flop=_flop,
    reduction_length=lambda call: call["head_dim"] + call["kv_len"],
)
