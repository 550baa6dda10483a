"""Requests: two spellings are one workload, labels read back, every mistake is one clear line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tuner.errors import WorkloadError
from tuner.workloads.spec import parse_workload


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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("matmull:m=1,n=1,k=1", "did you mean matmul"),
        ("matmul:m=1,n=2", "k is missing"),
        ("matmul:m=1,n=2,kk=3", "did you mean k?"),
        ("matmul:m=1,n=2,k=3,dtype=fp16", "did you mean float16?"),
        ("matmul:m=1,n=2,k=-3", "at least 0, got -3"),
        ("matmul:m=1,n=2,k=3.0", "wants an integer, got '3.0'"),
        ("matmul:m=1,m=2,n=2,k=3", "'m' is given twice"),
        ("matmul:m=200000,n=200000,k=2", "at most 2^31 are supported"),
        ("matmul:m=1,n=2,k=3,epilogue=bias", "matmul takes no epilogue"),
        ("dense:m=1,n=2,k=3,epilogue=gleu", "did you mean gelu"),
        ("dense:m=1,n=2,k=3,epilogue=relu+gelu", "two activations"),
        ("", "is empty"),
    ],
)
def test_each_mistake_is_one_line_that_helps(text: str, says: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_workload(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parsing_imports_no_tvm() -> None:
    modules = "tuner.workloads.spec, tuner.workloads.inputs, tuner.workloads.reference"
    code = f"import sys, {modules}; sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
