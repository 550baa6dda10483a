"""A request for an operator of the catalogue: fields as written -> the canonical spec. No TVM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.errors import WorkloadError
from tuner.workloads.catalog import OPERATORS
from tuner.workloads.epilogue import check_epilogue
from tuner.workloads.op_def import REQUIRED, OpCall, Operator, n_elements
from tuner.workloads.spec_bounds import PREFIX, canonical_bounds, written_bounds
from tuner.workloads.spec_values import MAX_SIZE, canonical_value, near, one_of, show, words, written

MAX_FLOP = 1e14
_OPTIONS = ("dtype", "acc_dtype", "out_dtype", "layout", "epilogue")


def canonical_spec(op_name: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fills all defaults, checks everything that can be checked without TVM.

    Args:
        fields: parameters and options side by side, as text or JSON values; "inputs" as in spec_bounds.

    Raises:
        WorkloadError: one line that says what was wanted, what was got, what to do.
    """
    if not isinstance(op_name, str) or op_name not in OPERATORS:
        raise WorkloadError(
            f"operator {show(op_name)} is not known{near(op_name, OPERATORS)}; see `tunesmith workloads`"
        )
    op = OPERATORS[op_name]
    _check_names(op, fields)
    params = {}
    for param in op.params:
        if param.name in fields:
            params[param.name] = canonical_value(op.name, param, fields[param.name])
        elif param.default is REQUIRED:
            raise WorkloadError(f"{op.name}: {param.name} is missing ({param.doc}); for example {op.example}")
        else:
            params[param.name] = param.default
    op.complete(params)
    spec: dict[str, Any] = {"op": op.name, "params": dict(sorted(params.items())), **_options(op, fields)}
    call = OpCall.from_spec(spec)
    args = op.args(call)
    for arg in args:
        if n_elements(arg.shape) > MAX_SIZE:
            raise WorkloadError(
                f"{op.name}: {arg.name} has {n_elements(arg.shape)} elements, at most 2^31 are supported"
            )
    if op.flop(call) > MAX_FLOP:
        raise WorkloadError(f"{op.name}: one call takes {op.flop(call):.3g} flop, at most {MAX_FLOP:g} can be tuned")
    dtypes = {arg.name: arg.dtype for arg in args if arg.role in ("in", "inout", "scalar")}
    bounds = canonical_bounds(op.name, fields.get("inputs") or {}, dtypes)
    for arg in args:
        if arg.name in bounds and arg.low is not None and arg.high is not None:
            low, high = bounds[arg.name]["low"], bounds[arg.name]["high"]
            if low < arg.low or high > arg.high:
                raise WorkloadError(
                    f"{op.name}: inputs.{arg.name} must stay within {arg.low:g}:{arg.high:g}, got {low!r}:{high!r}"
                )
    return {**spec, "inputs": bounds} if bounds else spec


def catalogue_label(spec: Mapping[str, Any]) -> str:
    """The shortest one-line form: a field is left out when leaving it out changes nothing. Parses back to `spec`."""
    op = OPERATORS[spec["op"]]
    fields: dict[str, Any] = {p.name: written(p.kind, spec["params"][p.name]) for p in op.params}
    fields |= {name: spec[name] for name in ("dtype", "acc_dtype", "out_dtype", "layout") if name in spec}
    if spec.get("epilogue"):
        fields["epilogue"] = "+".join(spec["epilogue"])
    bounds = {"inputs": {name: written_bounds(b) for name, b in spec.get("inputs", {}).items()}}
    required = {p.name for p in op.params if p.default is REQUIRED}
    for name in [n for n in fields if n not in required]:
        without = {n: v for n, v in fields.items() if n != name}
        try:
            if canonical_spec(op.name, {**without, **bounds}) == spec:
                fields = without
        except WorkloadError:
            continue  # needed after all
    texts = [f"{name}={value}" for name, value in fields.items()]
    texts += [f"{PREFIX}{name}={value}" for name, value in bounds["inputs"].items()]
    return f"{op.name}:{','.join(texts)}" if texts else op.name


def _check_names(op: Operator, fields: Mapping[str, Any]) -> None:
    known = [p.name for p in op.params] + ["dtype", "acc_dtype", "out_dtype"]
    known += ["layout"] * bool(op.layouts) + ["epilogue"] * bool(op.epilogues)
    for name in fields:
        if name == "inputs" or name in known:
            continue
        if name in _OPTIONS:
            raise WorkloadError(f"{op.name} takes no {name}; leave it out")
        raise WorkloadError(f"{op.name}: parameter {show(name)} is not known{near(name, known)}")


def _options(op: Operator, fields: Mapping[str, Any]) -> dict[str, Any]:
    dtype = one_of(f"{op.name}: dtype", fields.get("dtype", next(iter(op.precisions))), op.precisions)
    precision = op.precisions[dtype]
    where = f"{op.name}: with dtype {dtype},"
    found: dict[str, Any] = {
        "dtype": dtype,
        "acc_dtype": one_of(f"{where} acc_dtype", fields.get("acc_dtype", precision.acc[0]), precision.acc),
        "out_dtype": one_of(f"{where} out_dtype", fields.get("out_dtype", precision.out[0]), precision.out),
    }
    if op.layouts:
        found["layout"] = one_of(f"{op.name}: layout", fields.get("layout", op.layouts[0]), op.layouts)
    if op.epilogues:
        found["epilogue"] = words(f"{op.name}: epilogue", fields.get("epilogue"), op.epilogues)
        check_epilogue(op.name, dtype, found["epilogue"])
    return found
