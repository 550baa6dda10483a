"""Modules of the user's own: each is understood, and runs on the inputs drawn for it, or is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tvm import relax

from tests.workloads import modules
from tests.workloads.running import run_untuned
from tuner.errors import WorkloadError
from tuner.tvm_api import tvm
from tuner.workloads.inputs import draw_inputs
from tuner.workloads.resolve import resolve
from tuner.workloads.spec import parse_workload
from tuner.workloads.workload import Workload


def resolved(func: Any, **fields: Any) -> Workload:
    return resolve(parse_workload({"module_json": modules.save(func), **fields}))


def roles(workload: Workload) -> dict[str, str]:
    return {arg.name: arg.role for arg in workload.args}


def run(workload: Workload, seed: int = 5) -> tuple[list[Any], list[NDArray[Any]]]:
    """The inputs drawn, as they were before the call, and what came out."""
    inputs = draw_inputs(workload.args, np.random.default_rng(seed))
    before = [None if x is None else np.array(x) for x in inputs]
    return before, run_untuned(workload, inputs)


def test_accumulating_in_place_needs_the_old_values() -> None:
    workload = resolved(modules.accumulate_in_place())
    assert roles(workload) == {"a": "in", "y": "inout", "b": "in"}
    assert (workload.flop, workload.reduction_length, workload.acc_dtype) == (2 * 10 * 6 * 14, 14, "float32")
    assert not workload.has_reference
    (a, y, b), (out,) = run(workload)
    np.testing.assert_allclose(out, y + a @ b, rtol=1e-4, atol=1e-5)


def test_gather_draws_indices_within_the_dimension() -> None:
    workload = resolved(modules.gather_rows())
    idx = workload.args[1]
    assert (idx.low, idx.high, roles(workload)["rows"]) == (0, 9, "out")
    (d, i, _), (out,) = run(workload)
    assert {i.min(), i.max()} == {0, 8}
    np.testing.assert_array_equal(out, np.take_along_axis(d, i[..., None], axis=1))


def test_indices_are_bounded_through_arithmetic_and_stages() -> None:
    workload = resolved(modules.gather_indirect())
    bounds = {arg.name: (arg.low, arg.high) for arg in workload.args if arg.dtype == "int32"}
    assert bounds["near"] == (-1, 9)  # 2 * (near + 1) stays within 0..19
    assert bounds["free"] == (None, None)  # clamped
    assert bounds["signed"] == (0, 20)
    run(workload)


def test_bounds_of_the_request_win_and_are_checked() -> None:
    func = modules.gather_rows()
    assert resolved(func, inputs={"idx": {"low": 2, "high": 4}}).args[1].high == 4
    wide = resolved(func, inputs={"idx": {"low": 0, "high": 40}})
    assert "beyond the dimension" in wide.warnings[0]
    with pytest.raises(WorkloadError, match="did you mean idx"):
        resolved(func, inputs={"indx": {"low": 0, "high": 4}})
    with pytest.raises(WorkloadError, match="wants whole numbers"):
        resolved(func, inputs={"idx": {"low": 0.5, "high": 4}})


def test_scatter_with_duplicates() -> None:
    workload = resolved(modules.scatter_add())
    assert roles(workload) == {"v": "in", "at": "in", "out": "out"}
    assert (workload.args[1].low, workload.args[1].high) == (0, 9)
    assert workload.reduction_length == 500  # all may hit one element
    (v, at, _), (out,) = run(workload)
    want = np.zeros(9)
    np.add.at(want, at, v.astype(np.float64))
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


def test_triangular_reduction() -> None:
    workload = resolved(modules.triangular_sum())
    assert roles(workload)["out"] == "out"
    assert (workload.flop, workload.reduction_length) == (24 * 25 / 2, 24)
    (x, _), (out,) = run(workload)
    np.testing.assert_allclose(out, np.tril(x).sum(1), rtol=1e-4, atol=1e-5)


def test_two_outputs_of_one_reduction() -> None:
    workload = resolved(modules.argmin_pair())
    assert list(roles(workload).values()) == ["in", "out", "out"]
    assert workload.reduction_length == 1  # choosing rounds nothing
    (x, *_), (index, value) = run(workload)
    np.testing.assert_array_equal(index, x.argmin(1))
    np.testing.assert_array_equal(value, x.min(1))


def test_scalar_arguments_are_drawn_and_bounded() -> None:
    workload = resolved(modules.axpy_scalar(), inputs={"shift": {"low": 0, "high": 8}})
    assert roles(workload) == {"x": "in", "a": "scalar", "shift": "scalar", "y": "in", "o": "out"}
    assert all(arg.shape == () for arg in workload.args if arg.role == "scalar")
    (x, a, shift, y, _), (out,) = run(workload)
    np.testing.assert_allclose(out, a * x + y[shift : shift + 33], rtol=1e-5, atol=1e-6)
    alone = resolved(modules.axpy_scalar()).args[2]
    assert (alone.low, alone.high) == (0, 8)


def test_strided_argument() -> None:
    workload = resolved(modules.strided_input())
    assert workload.args[0].strides == (9, 1)
    assert workload.args[1].strides is None
    (x, _), (out,) = run(workload)
    np.testing.assert_array_equal(out, x * 2)


def test_written_in_part_or_read_before_means_inout() -> None:
    assert roles(resolved(modules.half_written())) == {"x": "in", "o": "inout"}
    workload = resolved(modules.running_sum())
    assert roles(workload) == {"x": "in", "o": "inout"}
    (x, o), (out,) = run(workload)
    np.testing.assert_allclose(out, np.cumsum([o[0], *x]), rtol=1e-4, atol=1e-5)


def test_only_a_proven_output_is_an_output() -> None:
    assert roles(resolved(modules.mirrored())) == {"x": "in", "t": "inout", "o": "out"}
    found = roles(resolved(modules.lower_half()))
    assert found == {
        "x": "in", "low": "inout", "diagonal": "inout", "top": "inout", "folded": "inout", "all_of_it": "out"
    }  # fmt: skip


def test_an_argument_with_a_variable_offset_starts_at_zero() -> None:
    (x, _), (out,) = run(resolved(modules.offset_argument()))
    np.testing.assert_array_equal(out, x * 2)


def test_starting_values_cost_nothing_and_scaled_indices_round_inwards() -> None:
    workload = resolved(modules.weighted_starts())
    assert (workload.flop, workload.reduction_length) == (5 * 4, 4)
    assert roles(workload)["o"] == "out"
    assert (workload.args[1].low, workload.args[1].high) == (1, 8)  # 0 <= 3 * at - 2 <= 19
    run(workload)


def test_an_output_that_feeds_another_is_still_an_output() -> None:
    workload = resolved(modules.two_stages())
    assert list(roles(workload).values()) == ["in", "out", "out"]
    assert (workload.reduction_length, workload.acc_dtype) == (6, "float32")
    (x, *_), (total, share) = run(workload)
    np.testing.assert_allclose(total, x.astype(np.float64).sum(1), rtol=1e-4)
    np.testing.assert_allclose(share, x / total[:, None], rtol=1e-4)


def test_an_output_without_dimensions() -> None:
    workload = resolved(modules.whole_sum())
    assert (workload.args[1].shape, workload.args[1].role) == ((), "out")
    (x, _), (out,) = run(workload)
    assert float(out) == pytest.approx(float(x.sum()), rel=1e-5)


def test_zero_extent_is_nothing_to_tune() -> None:
    assert resolved(modules.scale(rows=0)).nothing_to_tune == "an extent is zero"


def test_symbolic_sizes_are_asked_for_and_then_used() -> None:
    func = modules.symbolic_matmul()
    with pytest.raises(WorkloadError, match=r"size of m is symbolic; give sizes, like module:FILE.json,m=64"):
        resolved(func)
    with pytest.raises(WorkloadError, match=r"no dimension has that name; did you mean m\?"):
        resolved(func, sizes={"mm": 4})
    workload = resolved(func, sizes={"m": 9})
    assert [arg.shape for arg in workload.args] == [(9, 16), (16, 12), (9, 12)]
    (a, b, _), (out,) = run(workload)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-5)
    assert workload.key != resolved(func, sizes={"m": 8}).key


def test_a_scalar_that_sets_a_loop_becomes_a_size() -> None:
    func = modules.bounded_loop()
    with pytest.raises(WorkloadError, match="depends on data or on a scalar argument"):
        resolved(func)
    workload = resolved(func, sizes={"n": 32})
    assert roles(workload) == {"x": "in", "o": "out"}
    (x, _), (out,) = run(workload)
    np.testing.assert_array_equal(out, x + 1)


LONG = "f" * 300


def test_a_function_is_chosen_by_name(tmp_path: Path) -> None:
    names = ("scale", "layer/0:räum,x=1", LONG)
    text = modules.save(modules.scale(factor=2.0), modules.scale(factor=3.0), modules.scale(factor=4.0), names=names)
    with pytest.raises(WorkloadError, match=r"has 3 functions .*'scale'.*choose one: module:FILE.json#NAME") as caught:
        resolve(parse_workload({"module_json": text}))
    assert "\n" not in str(caught.value)
    with pytest.raises(WorkloadError, match=r"no function 'scal'; did you mean scale\?"):
        resolve(parse_workload({"module_json": text, "function": "scal"}))
    file = tmp_path / "two, odd#name%.json"
    file.write_text(text)
    for name, factor in zip(names, (2.0, 3.0, 4.0), strict=True):
        request = parse_workload({"module": str(file), "function": name})
        assert parse_workload(request.label) == request
        workload = resolve(request)
        assert workload.key == resolved(modules.scale(factor=factor)).key
        (x, _), (out,) = run(workload)
        np.testing.assert_array_equal(out, x * np.float32(factor))
    assert resolve(parse_workload(f"module:{tmp_path}/two%2C odd%23name%25.json#scale")).spec["function"] == "scale"


def test_a_function_of_a_lowered_model_beside_weights_and_graph_functions() -> None:
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 16), "float32"))
    weight = relax.const(np.ones((16, 8), np.float32))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, weight))
            flat = builder.emit(relax.op.reshape(product, relax.ShapeExpr([n * 8])))
            out = builder.emit_output(flat)
        builder.emit_func_output(out)
    text = str(tvm.ir.save_json(relax.transform.LegalizeOps()(builder.get())))
    with pytest.raises(WorkloadError, match=r"has 2 functions \('matmul', 'reshape'\)"):
        resolve(parse_workload({"module_json": text}))
    matmul = resolve(parse_workload({"module_json": text, "function": "matmul", "sizes": {"n": 5}}))
    assert ([arg.shape for arg in matmul.args], matmul.flop) == ([(5, 16), (16, 8), (5, 8)], 2 * 5 * 16 * 8)
    reshape = resolve(parse_workload({"module_json": text, "function": "reshape", "sizes": {"n": 5}}))
    assert [arg.shape for arg in reshape.args] == [(5, 8), (40,)]
    (before, _), (after,) = run(reshape)
    np.testing.assert_array_equal(after, before.reshape(-1))


def test_one_function_of_any_name_needs_no_choice() -> None:
    text = modules.save(modules.scale(), names=("ünï/côde " + LONG,))
    assert resolve(parse_workload({"module_json": text})).key == resolved(modules.scale()).key


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: modules.scale(dtype="int4"), "dtype 'int4' is not supported"),
        (lambda: modules.scale(dtype="float8_e4m3fn"), "dtype 'float8_e4m3fn' is not supported"),
        (modules.endless_loop, "a while loop"),
        (modules.calls_out, "calls 'tirx.call_extern'"),
        (modules.no_blocks, "no root block"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_line(make: Any, says: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        resolved(make())
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_modules_without_tensor_functions_are_refused() -> None:
    for text in (tvm.ir.save_json(tvm.IRModule({})), "{}", '{"nodes": [], "root_index": 0}', "{broken"):
        with pytest.raises(WorkloadError, match="module: "):
            resolve(parse_workload({"module_json": str(text)}))
    with pytest.raises(WorkloadError, match="not a module's JSON"):
        parse_workload({"module_json": "from tvm.script import tirx as T"})


def test_what_needs_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.workloads.resolve.MEMORY_SHARE", 1e-6)
    text = modules.save(modules.scale(rows=1000, columns=1000))
    for request in ("matmul:m=1000,n=1000,k=1000", {"module_json": text}):
        with pytest.raises(WorkloadError, match="free memory"):
            resolve(parse_workload(request))


@pytest.mark.parametrize(
    "line", ["matmul:m=7,n=5,k=9", "conv2d:in_channels=4,out_channels=6,height=5,width=5,kernel=3"]
)
def test_costs_of_a_module_are_those_of_the_operator(line: str) -> None:
    operator = resolve(parse_workload(line))
    module = resolve(parse_workload({"module_json": operator.module_json}))
    for name in ("key", "flop", "bytes_moved", "reduction_length", "acc_dtype"):
        assert getattr(module, name) == getattr(operator, name)
    assert module.flop == tvm.s_tir.analysis.estimate_tir_flops(tvm.ir.load_json(module.module_json))
    assert [a.role for a in module.args] == [a.role for a in operator.args]
