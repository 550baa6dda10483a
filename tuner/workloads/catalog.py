"""The operator catalogue: every operator by name, and the workloads that the documentation and benchmarks name."""

from __future__ import annotations

from typing import Any

from tuner.workloads.op_def import Operator
from tuner.workloads.ops_attention import ATTENTION
from tuner.workloads.ops_conv import CONV2D
from tuner.workloads.ops_elementwise import ELEMENTWISE
from tuner.workloads.ops_matmul import BATCH_MATMUL, DENSE, MATMUL
from tuner.workloads.ops_memory import GATHER, TRANSPOSE
from tuner.workloads.ops_norm import LAYER_NORM, LOG_SOFTMAX, RMS_NORM, SOFTMAX
from tuner.workloads.ops_pool import AVG_POOL2D, MAX_POOL2D
from tuner.workloads.ops_reduce import MAX, MEAN, MIN, SUM

CATALOG_VERSION = 1
"""Raised whenever an operator's meaning, defaults or arguments change: old digests then no longer match."""

OPERATORS: dict[str, Operator] = {
    op.name: op
    for op in (
        *(MATMUL, DENSE, BATCH_MATMUL, CONV2D, MAX_POOL2D, AVG_POOL2D),
        *(SOFTMAX, LOG_SOFTMAX, LAYER_NORM, RMS_NORM, ATTENTION),
        *(SUM, MEAN, MAX, MIN, ELEMENTWISE, TRANSPOSE, GATHER),
    )
}

PRESETS: dict[str, str] = {
    "matmul": "matmul:m=512,n=512,k=512",
    "bert-dense": "dense:m=128,n=3072,k=768,epilogue=bias+gelu",
    "resnet-conv": "conv2d:batch=1,in_channels=64,out_channels=64,height=56,width=56,kernel=3,padding=1",
    "softmax": "softmax:shape=1536x128",
    "layer-norm": "layer_norm:shape=128x768",
    "attention": "attention:heads=12,seq_len=128,head_dim=64",
}
"""The workloads that the documentation and the benchmarks name."""


def list_operators() -> list[dict[str, Any]]:
    """Every operator as plain data, for `tunesmith workloads`; imports no TVM."""
    return [
        {
            "op": op.name,
            "doc": op.doc,
            "example": op.example,
            "params": [
                {
                    "name": p.name,
                    "kind": p.kind,
                    "doc": p.doc,
                    "required": repr(p.default) == "required",
                    "default": None if repr(p.default) == "required" else p.default,
                    **({"choices": list(p.choices)} if p.choices else {}),
                }
                for p in op.params
            ],
            "dtypes": {name: {"acc_dtype": list(p.acc), "out_dtype": list(p.out)} for name, p in op.precisions.items()},
            "layouts": list(op.layouts),
            "epilogues": list(op.epilogues),
        }
        for op in OPERATORS.values()
    ]
