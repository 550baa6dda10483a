"""A resolved workload as plain data: what is computed, what its arguments look like, what it costs.

Made in a child (tuner/workloads/resolve.py, needs TVM); read everywhere, with no TVM.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Role = Literal["in", "out", "inout", "scalar"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgSpec:
    """One parameter of the function, in call order.

    `shape` is () for a scalar parameter. `strides` counts elements, None means compact row-major.
    `low` and `high` bound the values drawn for it: low <= value < high for integers.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    strides: tuple[int, ...] | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is computed. `key` is the sha256 of the canonical module, so equal computations share it.

    `spec` is the request in its canonical JSON form ({"op", "params", "dtype", ...} or {"module": key}).
    `module_json` is the canonical IRModule (`tvm.ir.save_json`; function `main`, canonical block names).
    `flop` and `bytes_moved` count one call: arithmetic, and each argument read or written once.
    `reduction_length` is the longest chain of accumulated terms behind one output element (>= 1).
    `acc_dtype` is the narrowest dtype in which the module accumulates.
    `has_reference` tells whether a numpy reference exists (catalogue operators).
    `nothing_to_tune` is a reason ("an extent is zero"), or None.
    """

    key: str
    label: str
    spec: dict[str, Any]
    module_json: str
    args: tuple[ArgSpec, ...]
    flop: float
    bytes_moved: float
    reduction_length: int
    acc_dtype: str
    has_reference: bool
    nothing_to_tune: str | None = None
    warnings: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Workload:
        def none_or_tuple(value: Any) -> tuple[int, ...] | None:
            return None if value is None else tuple(value)

        args = tuple(
            ArgSpec(**{**a, "shape": tuple(a["shape"]), "strides": none_or_tuple(a["strides"])}) for a in data["args"]
        )
        return cls(**{**data, "args": args, "warnings": tuple(data.get("warnings", ()))})
