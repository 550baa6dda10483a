"""Every operator with every dtype: the untuned run agrees with the numpy reference, and that with naive formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import erf, log_softmax, softmax

from tests.workloads.running import run_untuned
from tuner.workloads.catalog import OPERATORS, PRESETS, list_operators
from tuner.workloads.inputs import draw_inputs
from tuner.workloads.reference import reference_outputs
from tuner.workloads.resolve import resolve
from tuner.workloads.spec import parse_workload

SMALL = (
    "matmul:m=17,n=19,k=23",
    "matmul:m=8,n=12,k=40,transpose_a=true,transpose_b=true",
    "batch_matmul:batch=3,m=5,n=7,k=11,transpose_b=true",
    "dense:m=6,n=10,k=33",
    "dense:m=6,n=10,k=33,epilogue=bias+relu+residual",
    "dense:m=6,n=10,k=33,epilogue=residual+bias",
    "conv2d:batch=2,in_channels=6,out_channels=8,height=9,width=7,kernel=3,padding=1,epilogue=bias+relu",
    "conv2d:in_channels=6,out_channels=4,height=9,width=8,kernel=3x2,stride=2x1,padding=1x0,dilation=2x3",
    "conv2d:in_channels=6,out_channels=4,height=9,width=7,kernel=3,groups=2,layout=NHWC,epilogue=residual",
    "conv2d:in_channels=6,out_channels=6,height=9,width=7,kernel=3,padding=1,groups=6",
    "conv2d:in_channels=6,out_channels=12,height=9,width=7,kernel=3,stride=2,groups=6,layout=NHWC",
    "conv2d:in_channels=1,out_channels=1,height=1,width=1,kernel=1",
    "max_pool2d:channels=5,height=9,width=8,kernel=3,stride=2,padding=1",
    "max_pool2d:batch=2,channels=3,height=7,width=7,kernel=2,layout=NHWC",
    "sum:shape=7x13,axis=all",
    "sum:shape=4x7x13,axis=0+2",
    "max:shape=4x7x13",
    "min:shape=4x7x13,axis=1",
    "transpose:shape=3x4x5,axes=2+0+1",
    "gather:shape=9x6,indices=14",
    "gather:shape=4x9x3,indices=5,axis=1",
)
SMALL_FLOAT = (
    "dense:m=6,n=10,k=33,epilogue=bias+gelu",
    "avg_pool2d:channels=5,height=9,width=8,kernel=3,stride=2,padding=1",
    "avg_pool2d:channels=5,height=9,width=8,kernel=3x2,padding=1,count_include_pad=true,layout=NHWC",
    "softmax:shape=9x31",
    "softmax:shape=3x5x7,axis=1",
    "softmax:shape=1",
    "log_softmax:shape=9x31",
    "layer_norm:shape=5x77",
    "layer_norm:shape=3x5x7,axis=1+2,epsilon=0.001",
    "rms_norm:shape=5x77",
    "attention:batch=2,heads=3,seq_len=9,head_dim=8",
    "attention:heads=2,seq_len=5,kv_len=13,head_dim=8",
    "mean:shape=4x7x13,axis=1",
    "elementwise:shape=5x9,chain=mul+add+gelu+sub+maximum+minimum",
    "elementwise:shape=45,chain=silu+sigmoid+tanh+exp+abs+neg+square+relu",
)
TOLERANCE = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2, "int32": 0.0, "int8": 0.0}
"""Relative to the largest value: rounding once to the output's dtype, sums in float32 (or exact)."""


def _lines() -> list[str]:
    cases = []
    for line in (*SMALL, *SMALL_FLOAT):
        name, separator = line.partition(":")[0], "," if ":" in line else ":"
        for dtype in OPERATORS[name].precisions:
            if dtype != "int8" or line in SMALL:
                cases.append(f"{line}{separator}dtype={dtype}")
    cases += [
        "matmul:m=8,n=8,k=40,dtype=bfloat16,out_dtype=float32",
        "dense:m=8,n=8,k=40,dtype=float16,out_dtype=float32",
    ]
    return cases


def check_against_reference(line: str, factor: float = 1.0) -> None:
    workload = resolve(parse_workload(line))
    inputs = draw_inputs(workload.args, np.random.default_rng(7))
    (want,) = reference_outputs(workload, inputs) or []
    (got,) = run_untuned(workload, inputs)
    spec = workload.args[-1]
    assert want.shape == spec.shape == got.shape
    assert want.dtype in (np.float64, np.int64)
    largest = max(1.0, float(np.abs(want).max(initial=0.0)))
    np.testing.assert_allclose(got.astype(want.dtype), want, rtol=0, atol=factor * TOLERANCE[spec.dtype] * largest)


@pytest.mark.parametrize("line", _lines())
def test_untuned_run_agrees_with_reference(line: str) -> None:
    check_against_reference(line)


@pytest.mark.parametrize(
    "line",
    ["matmul:m=8,n=8,k=40,dtype=float16,acc_dtype=float16", "matmul:m=8,n=8,k=40,dtype=bfloat16,acc_dtype=bfloat16"],
)
def test_low_precision_accumulation_is_only_coarser(line: str) -> None:
    check_against_reference(line, factor=8)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_agree_with_reference(name: str) -> None:
    check_against_reference(PRESETS[name])


@pytest.mark.parametrize("name", OPERATORS)
def test_examples_read_back(name: str) -> None:
    request = parse_workload(OPERATORS[name].example)
    assert request.op == name
    assert parse_workload(request.label) == request


def test_operators_are_listed_as_plain_data() -> None:
    rows = {row["op"]: row for row in list_operators()}
    assert set(rows) == set(OPERATORS)
    stride = next(p for p in rows["conv2d"]["params"] if p["name"] == "stride")
    assert stride["default"] == [1, 1]
    assert not stride["required"]
    assert rows["conv2d"]["layouts"] == ["NCHW", "NHWC"]
    assert rows["matmul"]["dtypes"]["int8"] == {"acc_dtype": ["int32"], "out_dtype": ["int32"]}


def _reference(line: str) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    workload = resolve(parse_workload(line))
    inputs = draw_inputs(workload.args, np.random.default_rng(3))
    (out,) = reference_outputs(workload, inputs) or []
    named = {a.name: np.asarray(x, np.float64) for a, x in zip(workload.args, inputs, strict=True) if x is not None}
    return named, out


def test_conv2d_reference_is_the_definition() -> None:
    shape = "batch=2,in_channels=4,out_channels=6,height=6,width=5,groups=2,epilogue=bias+gelu"
    x, out = _reference(f"conv2d:{shape},kernel=3x2,stride=2x1,padding=1x2,dilation=1x2")
    want = np.zeros(out.shape)
    for n, o, i, j in np.ndindex(out.shape):
        total = x["bias"][o]
        for c, p, q in np.ndindex(2, 3, 2):
            row, column = i * 2 + p - 1, j + q * 2 - 2
            if 0 <= row < 6 and 0 <= column < 5:
                total += x["data"][n, o // 3 * 2 + c, row, column] * x["weight"][o, c, p, q]
        want[n, o, i, j] = 0.5 * total * (1 + erf(total / np.sqrt(2)))
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-12)


def test_conv2d_layouts_agree() -> None:
    line = "conv2d:batch=2,in_channels=4,out_channels=6,height=6,width=5,kernel=3,padding=1,groups=2,layout="
    x, _ = _reference(f"{line}NCHW")
    nhwc = resolve(parse_workload(f"{line}NHWC"))
    moved = [x["data"].transpose(0, 2, 3, 1), x["weight"].transpose(2, 3, 1, 0), None]
    nchw = resolve(parse_workload(f"{line}NCHW"))
    (a,) = reference_outputs(nchw, [x["data"], x["weight"], None]) or []
    (b,) = reference_outputs(nhwc, moved) or []
    np.testing.assert_allclose(a.transpose(0, 2, 3, 1), b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("include", [False, True])
def test_pool_references_are_the_definition(include: bool) -> None:
    shape = "channels=2,height=6,width=5,kernel=3x2,stride=2x1,padding=2x1"
    x, mean = _reference(f"avg_pool2d:{shape},count_include_pad={include}")
    y, greatest = _reference(f"max_pool2d:{shape}")
    for n, c, i, j in np.ndindex(mean.shape):
        rows, columns = range(i * 2 - 2, i * 2 + 1), range(j - 1, j + 1)
        inside = [(p, q) for p in rows for q in columns if 0 <= p < 6 and 0 <= q < 5]
        total = sum(x["data"][n, c, p, q] for p, q in inside)
        assert mean[n, c, i, j] == pytest.approx(total / (6 if include else len(inside)))
        assert greatest[n, c, i, j] == max(y["data"][n, c, p, q] for p, q in inside)


def test_row_references_are_scipys() -> None:
    x, out = _reference("softmax:shape=4x5x6,axis=1")
    np.testing.assert_allclose(out, softmax(x["data"], axis=1), rtol=1e-12)
    x, out = _reference("log_softmax:shape=4x6")
    np.testing.assert_allclose(out, log_softmax(x["data"], axis=1), rtol=1e-12)
    x, out = _reference("layer_norm:shape=4x6")
    rows = [(r - r.sum() / 6) / np.sqrt(np.var(r) + 1e-5) * x["gamma"] + x["beta"] for r in x["data"]]
    np.testing.assert_allclose(out, rows, rtol=1e-12)
    x, out = _reference("rms_norm:shape=4x6")
    np.testing.assert_allclose(out, [r / np.sqrt(r @ r / 6 + 1e-5) * x["gamma"] for r in x["data"]], rtol=1e-12)


def test_attention_reference_is_the_definition() -> None:
    x, out = _reference("attention:batch=2,heads=2,seq_len=3,kv_len=4,head_dim=5")
    for b, h, i in np.ndindex(2, 2, 3):
        weight = softmax([x["query"][b, h, i] @ x["key"][b, h, j] / np.sqrt(5) for j in range(4)])
        want = sum(weight[j] * x["value"][b, h, j] for j in range(4))
        np.testing.assert_allclose(out[b, h, i], want, rtol=1e-12)


def test_products_of_int8_are_exact_at_the_edges() -> None:
    workload = resolve(parse_workload("matmul:m=1,n=1,k=4096,dtype=int8"))
    low = np.full((1, 4096), -128, np.int8)
    (out,) = reference_outputs(workload, [low, low.T.copy(), None]) or []
    assert out.tolist() == [[128 * 128 * 4096]]


@pytest.mark.parametrize(
    ("line", "flop", "bytes_moved", "length"),
    [
        ("matmul:m=2,n=3,k=5", 60, 4 * (10 + 15 + 6), 5),
        ("dense:m=2,n=3,k=5,dtype=float16,epilogue=bias", 66, 2 * (10 + 15 + 3 + 6), 5),
        (
            "conv2d:in_channels=4,out_channels=6,height=5,width=5,kernel=3,groups=2",
            2 * 54 * 18,
            4 * (100 + 108 + 54),
            18,
        ),
        ("sum:shape=4x5", 20, 4 * 24, 5),
        ("attention:heads=1,seq_len=4,kv_len=3,head_dim=2", 12 * 14, 4 * (8 + 6 + 6 + 8), 5),
        ("transpose:shape=2x3,axes=1+0,dtype=int8", 0, 12, 1),
    ],
)
def test_costs(line: str, flop: float, bytes_moved: float, length: int) -> None:
    workload = resolve(parse_workload(line))
    assert (workload.flop, workload.bytes_moved, workload.reduction_length) == (flop, bytes_moved, length)


@pytest.mark.parametrize(
    "line", ["matmul:m=0,n=4,k=4", "matmul:m=4,n=4,k=0", "softmax:shape=0x5", "gather:shape=3x4,indices=0"]
)
def test_an_extent_of_zero_is_nothing_to_tune(line: str) -> None:
    assert resolve(parse_workload(line)).nothing_to_tune == "an extent is zero"
