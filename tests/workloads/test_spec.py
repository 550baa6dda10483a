"""Requests: two spellings are one workload, labels read back, every mistake is one clear line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import WorkloadError
from tuner.workloads.catalog import OPERATORS
from tuner.workloads.op_def import REQUIRED, Param
from tuner.workloads.spec import WorkloadRequest, parse_workload

CONV = "conv2d:in_channels=6,out_channels=4,height=8,width=8,kernel=3"
POOL = "max_pool2d:channels=4,height=8,width=8,kernel=2"


def test_one_line_and_json_of_one_workload_are_equal() -> None:
    line = parse_workload("dense:m=128,n=3072,k=768,dtype=float32,epilogue=bias+gelu")
    data = parse_workload(
        {
            "op": "dense",
            "params": {"k": 768, "n": "3072", "m": 128},
            "epilogue": ["bias", "gelu"],
            "acc_dtype": "float32",
        }
    )
    assert line == data
    assert line.canonical_json() == data.canonical_json()
    assert line.spec_digest == data.spec_digest
    assert line.label == "dense:m=128,n=3072,k=768,epilogue=bias+gelu"
    assert parse_workload(line.label) == line
    assert parse_workload(json.dumps({"op": "dense", "m": 128, "n": 3072, "k": 768, "epilogue": "bias+gelu"})) == line
    assert WorkloadRequest.from_dict(line.to_dict()) == line


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (CONV, "conv2d:width=8,height=8,kernel=3x3,out_channels=4,in_channels=6,stride=1,layout=NCHW,epilogue=none"),
        ("softmax:shape=4x8", "softmax : shape = 4x8 , axis = 1"),
        ("sum:shape=4x8,axis=0+1", "sum:shape=4x8,axis=all"),
        ("sum:shape=4x8,axis=0+1", "sum:shape=4x8,axis=-1+0"),
        (POOL, f"{POOL},stride=2x2"),
        ("attention:heads=2,seq_len=8,head_dim=4", "attention:heads=2,seq_len=8,head_dim=4,kv_len=8,batch=1"),
        ("matmul:m=1,n=2,k=3", "matmul:m=+1,n=02,k=3,transpose_a=no"),
        (
            "gather:shape=9x4,indices=3,inputs.idx=1:4",
            '{"op": "gather", "shape": [9, 4], "indices": 3, "inputs": {"idx": {"low": 1, "high": 4}}}',
        ),
    ],
)
def test_spellings_of_one_workload_are_equal(one: str, other: str) -> None:
    first, second = parse_workload(one), parse_workload(other)
    assert first.canonical_json() == second.canonical_json()
    assert first.label == second.label == one


def test_different_workloads_have_different_digests() -> None:
    lines = [
        "matmul:m=1,n=2,k=3",
        "matmul:m=2,n=1,k=3",
        "matmul:m=1,n=2,k=3,dtype=float16",
        "matmul:m=1,n=2,k=3,inputs.a=0:1",
    ]
    assert len({parse_workload(line).spec_digest for line in lines}) == len(lines)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("matmull:m=1,n=1,k=1", "operator 'matmull' is not known; did you mean matmul"),
        ("matmul:m=1,n=2", "k is missing"),
        ("matmul:m=1,n=2,kk=3", "did you mean k?"),
        ("matmul:m=1,n=2,k=3,dtype=fp16", "did you mean float16?"),
        ("matmul:m=1,n=2,k=3,dtype=float64", "dtype 'float64' is not known; did you mean float"),
        ("softmax:shape=3x4,dtype=int8", "'int8' is not known; known: float32, float16, bfloat16"),
        ("matmul:m=1,n=2,k=3,dtype=int8,acc_dtype=float32", "with dtype int8, acc_dtype 'float32' is not known"),
        ("matmul:m=1,n=2,k=-3", "k must be at least 0, got -3"),
        ("matmul:m=1,n=2,k=3.0", "k wants an integer, got '3.0'"),
        ("matmul:m=1,n=2,k=", "k wants an integer, got ''"),
        ("matmul:m=1,n=2,k", "want name=value, got 'k'"),
        ("matmul:m=1,m=2,n=2,k=3", "'m' is given twice"),
        ("matmul:m=200000,n=200000,k=2", "at most 2^31 are supported"),
        ("matmul:m=99999999999,n=2,k=2", "must be at most 2147483648"),
        ("batch_matmul:batch=1000,m=10000,n=200,k=10000000", "elements, at most 2^31"),
        ("matmul:m=40000,n=40000,k=50000,dtype=int8", "takes 1.6e+14 flop"),
        ("matmul:m=1,n=2,k=3,epilogue=bias", "matmul takes no epilogue"),
        ("matmul:m=1,n=2,k=3,layout=NHWC", "matmul takes no layout"),
        ("dense:m=1,n=2,k=3,epilogue=gleu", "did you mean gelu"),
        ("dense:m=1,n=2,k=3,epilogue=relu+gelu", "two activations"),
        ("dense:m=1,n=2,k=3,epilogue=bias+bias", "'bias' more than once"),
        ("dense:m=1,n=2,k=3,dtype=int8,epilogue=gelu", "gelu needs a float dtype"),
        (f"{CONV},groups=4", "groups=4 does not divide in_channels=6"),
        ("conv2d:in_channels=6,out_channels=4,height=2,width=8,kernel=3", "kernel 3x3 does not fit into 2x8"),
        ("conv2d:in_channels=6,out_channels=4,height=8,width=8,kernel=3,stride=0", "stride must be at least 1"),
        ("conv2d:in_channels=6,out_channels=4,height=8,width=8,kernel=3x3x3", "wants one number or HxW"),
        ("conv2d:in_channels=6,out_channels=4,height=8,width=8,kernel=3,layout=NCWH", "did you mean NCHW"),
        ("max_pool2d:channels=4,height=8,width=8,kernel=2,padding=2", "padding 2x2 must be smaller than kernel"),
        ("softmax:shape=3x4,axis=2", "axis 2 is out of range for 2 dimensions; use -2 to 1"),
        ("softmax:shape=3x4,axis=0+1", "axis wants one axis"),
        ("sum:shape=3x4,axis=0+-2", "names a dimension twice"),
        ("softmax:shape=axb", "shape wants an integer, got 'a'"),
        ("softmax:shape=1x1x1x1x1x1x1x1x1", "1 to 8 sizes"),
        ("layer_norm:shape=3x4,epsilon=0", "epsilon must be positive"),
        ("layer_norm:shape=3x4,epsilon=nan", "wants a finite number, got 'nan'"),
        ("elementwise:shape=3,chain=", "at least one step"),
        ("elementwise:shape=3,chain=add+tan", "did you mean tanh"),
        ("transpose:shape=3x4,axes=0", "all 2 dimensions"),
        ("gather:shape=3x4,indices=2,inputs.idx=0:0", "low:high is empty for int32"),
        ("gather:shape=3x4,indices=2,inputs.idx=5:1", "low must not exceed high"),
        ("gather:shape=3x4,indices=2,inputs.idx=-3000000000:1", "outside int32"),
        ("gather:shape=3x4,indices=2,inputs.idx=0:4", "inputs.idx must stay within 0:3, got 0:4"),
        ("gather:shape=3x4,indices=2,inputs.ind=0:1", "did you mean idx"),
        ("gather:shape=3x4,indices=2,inputs.out=0:1", "'out', which is no input"),
        ("gather:shape=3x4,indices=2,inputs.idx=3", "wants low and high"),
        ('{"op": "matmul", "params": {"m": true, "n": 1, "k": 1}}', "m wants an integer, got True"),
        ('{"op": "matmul", "m": 1, "m": 2}', "'m' is given twice"),
        ('{"op": "matmul", "params": {"m": 1}, "m": 2}', "m is given twice, in params and beside it"),
        ('{"params": {}}', 'needs "op" or "module"'),
        ('{"op": "matmul", ', "JSON can't be read"),
        ('{"op": 3}', "operator 3 is not known"),
        ("module:nowhere.json", "no file 'nowhere.json'"),
        ('{"module": "a.json", "module_json": "{}"}', "give one of them"),
        ('{"module_json": "def f(): pass"}', "not a module's JSON"),
        ("", "is empty"),
    ],
)
def test_each_mistake_is_one_line_that_helps(text: str, says: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_workload(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_files_are_read_only_where_they_may_be(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text('{"nodes": []}')
    assert parse_workload(f"module:{file}").module_text == '{"nodes": []}'
    with pytest.raises(WorkloadError, match="send the module's text as module_json"):
        parse_workload({"module": str(file)}, allow_files=False)
    inline = parse_workload({"module_json": {"nodes": []}}, allow_files=False)
    assert inline == parse_workload(f"module:{file}")
    file.write_bytes(b"\xff\xfe{}")
    with pytest.raises(WorkloadError, match="not UTF-8"):
        parse_workload(f"module:{file}")
    with pytest.raises(WorkloadError, match="no file"):
        parse_workload(f"module:{tmp_path}")


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    with file.open("wb") as out:
        out.truncate(1 << 30)
    with pytest.raises(WorkloadError, match="at most"):
        parse_workload(f"module:{file}")


@given(st.text(max_size=80))
@settings(max_examples=200, deadline=None)
def test_any_text_parses_or_is_a_workload_error(text: str) -> None:
    _check_total(text)


_OPS = [
    "matmul",
    "dense",
    "conv2d",
    "module",
    "m",
    "n",
    "k",
    "dtype",
    "int8",
    "epilogue",
    "bias",
    "shape",
    "axis",
    "all",
]
_MARKS = ["\n", "=", ",", ":", "+", "#", "x", "-1", "8", "é", "inputs.", "{", "}"]
_WORDS = st.sampled_from([*_OPS, *_MARKS])


@given(st.lists(_WORDS, max_size=14).map("".join))
@settings(max_examples=300, deadline=None)
def test_text_of_the_right_words_parses_or_is_a_workload_error(text: str) -> None:
    _check_total(text)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["matmul", "8", "bias"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.sampled_from(["low", "high", "a", "m", "k"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_FIELDS = st.sampled_from(
    ["op", "params", "m", "n", "k", "dtype", "epilogue", "inputs", "shape", "axis", "module_json", "function", "sizes"]
)


@given(st.dictionaries(_FIELDS, _JSON, max_size=6), st.sampled_from(["", *OPERATORS]))
@settings(max_examples=300, deadline=None)
def test_any_json_parses_or_is_a_workload_error(fields: dict[str, Any], op: str) -> None:
    _check_total({**fields, "op": op} if op else fields)


def _check_total(request: Any) -> None:
    try:
        found = parse_workload(request, allow_files=False)
    except WorkloadError as error:
        message = str(error)
        assert len(message.splitlines()) == 1, message
        return
    if found.module_text is None:
        assert parse_workload(found.label) == found
        assert parse_workload(json.loads(found.canonical_json())) == found


def _values(param: Param) -> st.SearchStrategy[Any]:
    size = st.integers(max(1, param.minimum), 12)
    by_kind: dict[str, st.SearchStrategy[Any]] = {
        "size": size,
        "int": st.just(1),
        "pair": st.lists(st.integers(max(1, param.minimum), 3), min_size=2, max_size=2),
        "shape": st.lists(size, min_size=3, max_size=3),
        "axes": st.permutations([0, 1, 2]) if param.name == "axes" else st.integers(-3, 2).map(lambda axis: [axis]),
        "float": st.floats(1e-12, 1.0),
        "flag": st.booleans(),
        "names": st.lists(st.sampled_from(param.choices or ("",)), min_size=1, max_size=4),
    }
    return by_kind[param.kind]


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_labels_and_canonical_json_read_back(data: st.DataObject) -> None:
    op = OPERATORS[data.draw(st.sampled_from(sorted(OPERATORS)))]
    given_params = [p for p in op.params if p.default is REQUIRED or data.draw(st.booleans())]
    params = {p.name: data.draw(_values(p)) for p in given_params}
    dtype = data.draw(st.sampled_from(sorted(op.precisions)))
    request = {"op": op.name, "params": params, "dtype": dtype}
    if op.layouts:
        request["layout"] = data.draw(st.sampled_from(op.layouts))
    try:
        found = parse_workload(request)
    except WorkloadError as error:
        assert "kernel" in str(error)
        return
    assert parse_workload(found.label) == found
    assert parse_workload(found.spec) == found
    assert len(found.label) < 300


def test_parsing_imports_no_tvm() -> None:
    modules = "tuner.workloads.spec, tuner.workloads.inputs, tuner.workloads.reference"
    code = f"import sys, {modules}; sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
