"""Every catalogue operator, and the six that the project names, through the whole engine."""

from __future__ import annotations

import pytest

from tuner.workloads.catalog import list_operators

NAMED = {
    "matmul": "matmul:m=512,n=512,k=512",
    "bert dense": "dense:m=128,n=3072,k=768,epilogue=bias+gelu",
    "resnet 3x3": "conv2d:in_channels=64,out_channels=64,height=56,width=56,kernel=3,padding=1",
    "softmax": "softmax:shape=1536x128",
    "layer_norm": "layer_norm:shape=128x768",
    "attention": "attention:heads=4,seq_len=128,head_dim=64",
}
SMALL = {
    "matmul int8": "matmul:m=32,n=32,k=32,dtype=int8",
    "matmul float16": "matmul:m=32,n=32,k=32,dtype=float16",
    "matmul bfloat16": "matmul:m=32,n=32,k=32,dtype=bfloat16",
    "dense": "dense:m=8,n=16,k=24,epilogue=bias+relu+residual",
    "depthwise": "conv2d:in_channels=8,out_channels=8,height=8,width=8,kernel=3,padding=1,groups=8",
    "nhwc": "conv2d:in_channels=4,out_channels=8,height=8,width=8,kernel=3,stride=2,layout=NHWC",
    "size one": "matmul:m=1,n=1,k=1",
    "primes": "matmul:m=13,n=17,k=19",
    "scalar output": "sum:shape=97",
}


@pytest.mark.parametrize("name", SMALL)
def test_small_operators_end_with_a_validated_schedule(run, name):
    result, _, _ = run(SMALL[name], trials=6)
    assert result.best is not None
    assert result.best.validated
    assert result.best.verdict != "slower"
    assert result.trials_ok > 0 or result.best.trial == 0  # every schedule of one element is the untuned program


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMED)
def test_the_named_workloads_end_faster_than_untuned(run, name):
    result, _, _ = run(NAMED[name], trials=48, batch_size=20)
    assert result.best is not None
    assert result.best.verdict == "faster"
    if name == "attention":
        assert result.failed["wrong_answer"] > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("operator", [op["op"] for op in list_operators()])
def test_the_example_of_every_operator_tunes(run, operator):
    example = next(op["example"] for op in list_operators() if op["op"] == operator)
    result, _, _ = run(example, trials=6)
    assert result.best is not None
    assert result.best.verdict != "slower"
