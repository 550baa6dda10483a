"""What an operator of the catalogue is: its parameters, dtypes, arguments, costs, how to build it, its numpy reference.

Nothing here, and nothing at the top of an ops_*.py file, imports TVM: listing operators must stay cheap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tuner.workloads.numpy_later import Array as Array
from tuner.workloads.numpy_later import np
from tuner.workloads.workload import ArgSpec, Role

ParamKind = Literal["size", "int", "pair", "shape", "axes", "float", "flag", "names"]


class _Required:
    """Marks a parameter without a default."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter. `kind` decides how it is written and its canonical value.

    size: int >= 0. int: int >= `minimum`. pair: [h, w], written `3` or `3x1`, each >= `minimum`. shape: list of sizes,
    written `1536x128`. axes: sorted list of axes >= 0, written `-1`, `0+2` or `all`. float: positive. flag: bool.
    names: list of words out of `choices`, written `add+relu`. A default of None is filled in by `Operator.complete`.
    """

    name: str
    kind: ParamKind
    doc: str
    default: Any = REQUIRED
    minimum: int = 0
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Precision:
    """What one storage dtype allows: the first of each is the default."""

    acc: tuple[str, ...]
    out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpCall:
    """An operator with all its parameters given: the canonical spec, in the form that operators read."""

    op: str
    params: Mapping[str, Any]
    dtype: str
    acc_dtype: str
    out_dtype: str
    layout: str | None = None
    epilogue: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> OpCall:
        return cls(
            op=spec["op"],
            params=spec["params"],
            dtype=spec["dtype"],
            acc_dtype=spec["acc_dtype"],
            out_dtype=spec["out_dtype"],
            layout=spec.get("layout"),
            epilogue=tuple(spec.get("epilogue", ())),
        )


def _nothing(params: dict[str, Any]) -> None:
    """Leaves the parameters as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One entry of the catalogue.

    `complete` fills defaults that depend on other parameters; it raises WorkloadError where parameters contradict.
    `args` lists the arguments in call order. `build` returns a TVM PrimFunc over them (imports TVM).
    `reference` takes the input arrays by name, in float64 or int64, and returns the one output, likewise.
    `flop` counts one call (a multiply-add is 2, exp and the like are 1). `reduction_length` is the longest chain of
    accumulated terms behind one output element.
    """

    name: str
    doc: str
    example: str
    params: tuple[Param, ...]
    precisions: Mapping[str, Precision]
    args: Callable[[OpCall], list[ArgSpec]]
    build: Callable[[OpCall], Any]
    reference: Callable[[OpCall, Mapping[str, Array]], Array]
    flop: Callable[[OpCall], float]
    reduction_length: Callable[[OpCall], int]
    bytes_moved: Callable[[OpCall, Sequence[ArgSpec]], float] | None = None
    """Where not every argument is touched whole; None: each is read or written once."""
    complete: Callable[[dict[str, Any]], None] = _nothing
    layouts: tuple[str, ...] = ()
    epilogues: tuple[str, ...] = ()


FLOATS: Mapping[str, Precision] = {
    "float32": Precision(("float32",), ("float32",)),
    "float16": Precision(("float32",), ("float16", "float32")),
    "bfloat16": Precision(("float32",), ("bfloat16", "float32")),
}
"""Normalisations, attention and the like: low precision is storage only."""

PRODUCTS: Mapping[str, Precision] = {
    "float32": Precision(("float32",), ("float32",)),
    "float16": Precision(("float32", "float16"), ("float16", "float32")),
    "bfloat16": Precision(("float32", "bfloat16"), ("bfloat16", "float32")),
    "int8": Precision(("int32",), ("int32",)),
}
"""Matrix products and convolutions."""

STORED: Mapping[str, Precision] = {
    name: Precision((name,), (name,)) for name in ("float32", "float16", "bfloat16", "int8")
}
"""Operators that only move or compare values: nothing is rounded."""


INT_RANGE: Mapping[str, tuple[int, int]] = {
    "bool": (0, 1),
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
"""Least and greatest value of each integer dtype."""

FLOAT_DTYPES = ("float16", "bfloat16", "float32", "float64")


def tensor(name: str, shape: tuple[int, ...], dtype: str, role: Role = "in", bound: int | None = None) -> ArgSpec:
    """An argument. `bound` keeps integer values within [-bound, bound)."""
    low, high = (None, None) if bound is None else (-bound, bound)
    return ArgSpec(name=name, shape=shape, dtype=dtype, role=role, low=low, high=high)


def n_elements(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def itemsize_bytes(dtype: str) -> int:
    """Bytes of one element as numpy stores it; bool takes one."""
    return {"bool": 1, "bfloat16": 2}.get(dtype) or np.dtype(dtype).itemsize


def bytes_moved(args: Sequence[ArgSpec]) -> float:
    """Each argument read or written once; an in-place one twice."""
    return float(sum(n_elements(a.shape) * itemsize_bytes(a.dtype) * (2 if a.role == "inout" else 1) for a in args))
