"""The operator catalogue: every operator by name, and the workloads that the documentation and benchmarks name."""

from __future__ import annotations

from typing import Any

from tuner.workloads.operator import Operator
from tuner.workloads.ops_matmul import BATCH_MATMUL, DENSE, MATMUL

CATALOG_VERSION = 1
"""Raised whenever an operator's meaning, defaults or arguments change: old digests then no longer match."""

OPERATORS: dict[str, Operator] = {op.name: op for op in (MATMUL, DENSE, BATCH_MATMUL)}

PRESETS: dict[str, str] = {
    "matmul-512": "matmul:m=512,n=512,k=512",
    "bert-dense": "dense:m=128,n=3072,k=768,epilogue=bias+gelu",
}


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
