"""Modules of the user's own: JSON text to a function with fixed sizes, and what its arguments must look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.errors import WorkloadError
from tuner.tvm_api import tvm
from tuner.workloads.accesses import Accesses, walk
from tuner.workloads.costs import accumulation_dtype, count_flop, longest_reduction
from tuner.workloads.graph import Graph, deep_recursion
from tuner.workloads.graph_check import check_graph, parse_foreign
from tuner.workloads.index_bounds import index_bounds
from tuner.workloads.module_checks import check_contents, choose_function, isolated, variables
from tuner.workloads.op_def import INT_RANGE, itemsize_bytes, n_elements
from tuner.workloads.roles import argument_roles
from tuner.workloads.spec_bounds import check_bounds
from tuner.workloads.spec_values import MAX_SIZE, near, show
from tuner.workloads.workload import ArgSpec, Role

_TVM_ERRORS = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomFunction:
    """A foreign function, loaded and understood. `scratch_bytes` counts its own buffers."""

    func: Any
    args: tuple[ArgSpec, ...]
    flop: float
    reduction_length: int
    acc_dtype: str
    scratch_bytes: int
    empty_loop: bool
    warnings: tuple[str, ...]


def load_custom(text: str, spec: Mapping[str, Any]) -> CustomFunction:
    """Reads a module's JSON. Call it in a child only: what TVM does with foreign IR is not certain.

    Args:
        spec: of the request: "function", "sizes" and "inputs" are used.

    Raises:
        WorkloadError: damaged, ambiguous, symbolic without sizes, or not supported; one line that says what to do.
    """
    foreign = parse_foreign(text)
    alone = isolated(foreign, choose_function(foreign, spec.get("function")))
    check_graph(alone)
    warnings = check_contents(alone, alone.root)
    graph = _specialised(alone, spec.get("sizes", {}))
    loaded = _load(graph)
    with deep_recursion():
        accesses = walk(graph, graph.root)
        _check_axes(accesses)
        args, more = _arguments(accesses, spec.get("inputs", {}))
        return CustomFunction(
            func=loaded,
            args=tuple(args),
            flop=count_flop(accesses),
            reduction_length=longest_reduction(accesses),
            acc_dtype=accumulation_dtype(accesses),
            scratch_bytes=sum(_buffer_bytes(graph, buffer) for buffer in accesses.allocated),
            empty_loop=any(axis.trips == 0 for axis in accesses.axes.values()),
            warnings=(*warnings, *more),
        )


def _load(graph: Graph) -> Any:
    try:
        func = tvm.ir.load_json(graph.to_json())
        func = tvm.tirx.PrimFunc(list(func.params), func.body, func.ret_type)
        tvm.s_tir.analysis.verify_well_formed(func.with_attr("s_tir", True), assert_mode=True)
    except _TVM_ERRORS as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise WorkloadError(f"module: TVM refuses it: {show(lines[-1] if lines else type(error).__name__)}") from None
    return func


def _specialised(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """The function with its symbolic sizes replaced by numbers.

    Raises:
        WorkloadError: a size is missing, or none of that name exists.
    """
    params = graph.items(graph.get(graph.root, "params"))
    types = [graph.get(param, "ty") for param in params if graph.is_buffer(param)]
    symbols = variables(graph, [graph.get(ty, field) for ty in types for field in ("shape", "strides")])
    symbols += [p for p in params if not graph.is_buffer(p) and p not in symbols and graph.name(p) in sizes]
    names = {graph.name(var): var for var in symbols}
    for name in sizes:
        if name not in names:
            raise WorkloadError(
                f"module: size {show(name)} is given, but no dimension has that name{near(name, names)}"
            )
    missing = [name for name in names if name not in sizes]
    if missing:
        example = ",".join(f"{name}=64" for name in missing[:4])
        raise WorkloadError(
            f"module: the size of {', '.join(missing[:4])} is symbolic; give sizes, like module:FILE.json,{example} "
            "(tuning over a range of sizes is not supported yet)"
        )
    values = {var: sizes[graph.name(var)] for var in symbols}
    offsets = [graph.get(ty, "elem_offset") for ty in types]
    values |= {offset: 0 for offset in offsets if graph.kind(offset) == "ir.Var" and offset not in values}
    alone = isolated(graph, graph.root, without=values)
    return alone.subgraph(alone.root, values)


def _check_axes(accesses: Accesses) -> None:
    graph = accesses.graph
    for var, axis in accesses.axes.items():
        if axis.low is None or axis.high is None:
            raise WorkloadError(
                f"module: the extent of loop {show(graph.name(var))} depends on data or on a scalar argument; "
                "only fixed loops can be scheduled (a scalar's value may be given as a size: module:FILE.json,n=64)"
            )


def _arguments(accesses: Accesses, bounds: Mapping[str, Any]) -> tuple[list[ArgSpec], list[str]]:
    graph = accesses.graph
    params = graph.items(graph.get(graph.root, "params"))
    names = _unique_names([graph.name(param) for param in params])
    roles = argument_roles(accesses, [p for p in params if graph.is_buffer(p)])
    found, unclear = index_bounds(accesses, {p for p in params if graph.dtype(p) in INT_RANGE})
    known = [name for name, param in zip(names, params, strict=True) if roles.get(param) != "out"]
    for name in bounds:
        if name not in known:
            raise WorkloadError(f"module: inputs names {show(name)}, which is no input{near(name, known)}")
    args, warnings = [], []
    for name, param in zip(names, params, strict=True):
        role = roles.get(param, "scalar")
        spec = _scalar(graph, param, name) if role == "scalar" else _buffer(graph, param, name, role or "in")
        low, high = found.get(param, (None, None))
        if role is None:
            warnings.append(f"argument {show(name)} is never used")
        if name in bounds:
            check_bounds(f"module: inputs.{name}", bounds[name]["low"], bounds[name]["high"], spec.dtype)
            if (low is not None and bounds[name]["low"] < low) or (
                high is not None and bounds[name]["high"] > high + 1
            ):
                warnings.append(f"inputs.{name} allows values beyond the dimension that they index")
            spec = _bounded(spec, bounds[name]["low"], bounds[name]["high"])
        elif low is not None or high is not None:
            least, most = INT_RANGE[spec.dtype]
            low, high = max(least, least if low is None else low), min(most, most if high is None else high)
            spec = _bounded(spec, low, max(low, high) + 1)
        elif param in unclear and role != "out":
            warnings.append(
                f"argument {show(name)} is used as an index in a way that gives no bounds; give inputs.{name}"
            )
        args.append(spec)
    if not any(arg.role in ("out", "inout") for arg in args):
        raise WorkloadError("module: the function writes none of its arguments, so it computes nothing")
    return args, warnings


def _bounded(spec: ArgSpec, low: float, high: float) -> ArgSpec:
    return ArgSpec(
        name=spec.name, shape=spec.shape, dtype=spec.dtype, role=spec.role, strides=spec.strides, low=low, high=high
    )


def _scalar(graph: Graph, param: int, name: str) -> ArgSpec:
    dtype = graph.dtype(param)
    if not dtype or dtype in ("handle", "void") or "x" in dtype:
        raise WorkloadError(
            f"module: argument {show(name)} is a bare pointer; give it a buffer type with T.match_buffer"
        )
    return ArgSpec(name=name, shape=(), dtype=dtype, role="scalar")


def _buffer(graph: Graph, param: int, name: str, role: Role) -> ArgSpec:
    shape, dtype, ty = graph.sizes(param), graph.dtype(param), graph.get(param, "ty")
    where = f"module: argument {show(name)}"
    if shape is None:
        raise WorkloadError(f"{where} has a size that is no number even with all sizes given; use plain variables")
    if "x" in dtype:
        raise WorkloadError(f"{where} has vector elements ({dtype}); use a last dimension instead")
    if any(size < 0 for size in shape):
        raise WorkloadError(f"{where} has a negative size: {'x'.join(map(str, shape))}")
    if n_elements(shape) > MAX_SIZE:
        raise WorkloadError(f"{where} has {n_elements(shape)} elements, at most 2^31 are supported")
    if graph.text(graph.get(ty, "storage_scope")) not in ("", "global"):
        raise WorkloadError(
            f"{where} lives in {show(graph.text(graph.get(ty, 'storage_scope')))}; arguments are global"
        )
    if graph.const(graph.get(ty, "elem_offset")) != 0:
        raise WorkloadError(f"{where} starts at an offset into its memory; use elem_offset 0")
    return ArgSpec(name=name, shape=shape, dtype=dtype, role=role, strides=_strides(graph, ty, shape, where))


def _strides(graph: Graph, ty: int, shape: tuple[int, ...], where: str) -> tuple[int, ...] | None:
    """Declared strides in elements; None where they are those of a compact array."""
    strides = [graph.const(stride) for stride in graph.items(graph.get(ty, "strides"))]
    if not strides:
        return None
    found = tuple(stride for stride in strides if stride is not None and 0 < stride <= MAX_SIZE)
    if len(found) != len(shape):
        raise WorkloadError(f"{where} has strides that are not {len(shape)} positive numbers")
    covered = 0
    for stride, size in sorted(zip(found, shape, strict=True)):
        if size > 1 and stride <= covered:
            raise WorkloadError(f"{where} has strides {found} by which elements overlap in memory")
        covered += stride * max(0, size - 1)
    if covered >= MAX_SIZE:
        raise WorkloadError(f"{where} spans {covered + 1} elements of memory, at most 2^31 are supported")
    compact = tuple(n_elements(shape[axis + 1 :]) for axis in range(len(shape)))
    same = all(s == c or size <= 1 for s, c, size in zip(found, compact, shape, strict=True))
    return None if same else found


def _buffer_bytes(graph: Graph, buffer: int) -> int:
    sizes = graph.sizes(buffer)
    dtype = graph.dtype(buffer).partition("x")[0]
    return 0 if sizes is None else n_elements(sizes) * itemsize_bytes(dtype)


def _unique_names(names: list[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        new, count = name or "arg", 1
        while new in found:
            count += 1
            new = f"{name}_{count}"
        found.append(new)
    return found
