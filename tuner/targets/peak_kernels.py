"""Measures what the target's code can reach on this machine: multiply-adds from registers, reads from each cache level.

A child job. Both threads and vectors are TVM's and LLVM's own, as in any tuned kernel; only the bound is none's work.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tuner.targets.device import cache_sizes
from tuner.targets.llvm import llvm_features
from tuner.targets.pinning import pin_threads
from tuner.tvm_api import tvm

CALL_S = 2.5e-4  # long against starting a parallel loop (about 5 us), short against a scheduler's time slice
LONG_S = 5e-3
STEADY_S = 0.03  # sampling ends when the best hasn't improved by 1 % for so long ...
MIN_SAMPLES = 40  # ... and there are so many samples, where a call is short ...
SAMPLES_S = 0.25  # ... or after this
MAX_BUFFER_BYTES = 256 << 20

_COMPUTE = """
@T.prim_func
def main(A: T.Buffer(({n_in},), "{in_dtype}"), C: T.Buffer(({n_out},), "{acc_dtype}"), steps: T.int32):
    T.func_attr({{"global_symbol": "main", "tirx.noalias": True}})
    for t in T.parallel({n_threads}):
        acc = T.alloc_buffer(({n_acc},), "{acc_dtype}", scope="local")
        for i in T.unroll({n_registers}):
            acc[T.ramp(i * {lanes}, 1, {lanes})] = T.broadcast(T.cast(A[i], "{acc_dtype}"), {lanes})
        for k in range(steps):
            for i in T.unroll({n_registers}):
                acc[T.ramp(i * {lanes}, 1, {lanes})] = {update}
        for i in T.unroll({n_registers}):
            C[T.ramp((t * {n_registers} + i) * {lanes}, 1, {lanes})] = acc[T.ramp(i * {lanes}, 1, {lanes})]
"""

_READ = """
@T.prim_func
def main(A: T.Buffer(({n_in},), "float32"), C: T.Buffer(({n_out},), "float32"), steps: T.int32, rounds: T.int32):
    T.func_attr({{"global_symbol": "main", "tirx.noalias": True}})
    for t in T.parallel({n_threads}):
        acc = T.alloc_buffer(({n_acc},), "float32", scope="local")
        for i in T.unroll(8):
            acc[T.ramp(i * {lanes}, 1, {lanes})] = T.broadcast(T.float32(0), {lanes})
        for r, k in T.grid(rounds, steps):
            for i in T.unroll(8):
                acc[T.ramp(i * {lanes}, 1, {lanes})] = acc[T.ramp(i * {lanes}, 1, {lanes})] + A[
                    T.ramp(((t * steps + k) * 8 + i) * {lanes}, 1, {lanes})]
        for i in T.unroll(8):
            C[T.ramp((t * 8 + i) * {lanes}, 1, {lanes})] = acc[T.ramp(i * {lanes}, 1, {lanes})]
"""

_UPDATE = """
@T.prim_func
def main(A: T.Buffer(({n_in},), "float32"), C: T.Buffer(({n_out},), "float32"), steps: T.int32, rounds: T.int32):
    T.func_attr({{"global_symbol": "main", "tirx.noalias": True}})
    for t in T.parallel({n_threads}):
        for r, k in T.grid(rounds, steps):
            for i in T.unroll(8):
                A[T.ramp(((t * steps + k) * 8 + i) * {lanes}, 1, {lanes})] = T.broadcast(T.float32(1), {lanes}) - A[
                    T.ramp(((t * steps + k) * 8 + i) * {lanes}, 1, {lanes})]
"""

_ACC = "acc[T.ramp(i * {lanes}, 1, {lanes})]"
_MULTIPLY_ADD = _ACC + " * A[T.ramp({in_lanes}, 1, {lanes})] + A[T.ramp(0, 1, {lanes})]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeKernel:
    """`update` is one step of one vector accumulator, `ops` the operations in it; `vector_bits` is its width."""

    how: str
    in_dtype: str
    acc_dtype: str
    vector_bits: int
    ops: int
    update: str = _MULTIPLY_ADD


def measure_job(target: dict[str, Any], n_threads: int) -> dict[str, Any]:
    """Peaks of the target's code on this machine with `n_threads`; takes about a second.

    Returns {"flop_per_s": {dtype: rate}, "how": {dtype: text}, "bandwidth": [[working set in bytes, bytes per second],
    ...] from small to large, "noise": median over best of the samples, worst of all kernels, "n_threads"}.
    """
    pin_threads(n_threads)
    made = tvm.target.Target(target)
    isa = llvm_features(made)
    flop_per_s: dict[str, float] = {}
    how: dict[str, str] = {}
    noise = 1.0
    for dtype, kernel in compute_kernels(isa).items():
        flop_per_s[dtype], spread = _compute_rate(kernel, made, n_threads, isa)
        how[dtype] = kernel.how
        noise = max(noise, spread)
    bandwidth, spread = _bandwidths(made, n_threads, isa)
    return {
        "flop_per_s": flop_per_s,
        "how": how,
        "bandwidth": bandwidth,
        "noise": max(noise, spread),
        "n_threads": n_threads,
    }


def vector_bits(isa: frozenset[str]) -> int:
    """The widest vectors that the target's code uses; 128 where no table tells (SSE, NEON)."""
    return 512 if "avx512f" in isa else 256 if "avx" in isa else 128


def compute_kernels(isa: frozenset[str]) -> dict[str, ComputeKernel]:
    """The best multiply-add of each dtype that code generated for `isa` can use."""
    bits = vector_bits(isa)

    def multiply_add(dtype: str, width: int) -> ComputeKernel:
        how = f"{bits}-bit vector multiply-add, {dtype}"
        return ComputeKernel(how=how, in_dtype=dtype, acc_dtype=dtype, vector_bits=bits, ops=2 * bits // width)

    kernels = {name: multiply_add(name, width) for name, width in (("float32", 32), ("int32", 32))}
    if isa & {"avx512fp16", "fullfp16"}:
        kernels["float16"] = multiply_add("float16", 16)
    kernels["int8"] = _int8_kernel(isa) or kernels["int32"]
    return kernels


def _int8_kernel(isa: frozenset[str]) -> ComputeKernel | None:
    """Dot products of int8 into int32, four a lane; else of int16, two a lane; None where LLVM offers neither."""

    def dot(intrinsic: str, bits: int, in_dtype: str, acc_dtype: str = "int32") -> ComputeKernel:
        width = 8 if in_dtype == "int8" else 16
        n_in, n_acc = bits // width, bits // 32
        operands = f"A[T.ramp(0, 1, {n_in})], A[T.ramp({n_in}, 1, {n_in})]"
        update = f'T.call_llvm_intrin("int32x{n_acc}", "{intrinsic}", {_ACC}, {operands})'
        if acc_dtype == "int16":  # the instruction alone: its result is fed back as its operand
            call = f'T.call_llvm_intrin("int32x{n_acc}", "{intrinsic}", {_ACC}, A[T.ramp({n_in}, 1, {n_in})])'
            update = f'T.reinterpret("int16x{n_in}", {call})'
        return ComputeKernel(
            how=f"{intrinsic}, {bits} bits",
            in_dtype=in_dtype,
            acc_dtype=acc_dtype,
            vector_bits=bits,
            ops=2 * n_in,
            update=update,
        )

    if "avx512vnni" in isa:
        return dot("llvm.x86.avx512.vpdpbusd.512", 512, "int8")
    if "avxvnni" in isa:
        return dot("llvm.x86.avx512.vpdpbusd.256", 256, "int8")
    if "dotprod" in isa:
        return dot("llvm.aarch64.neon.sdot.v4i32.v16i8", 128, "int8")
    if "avx512bw" in isa:
        return dot("llvm.x86.avx512.pmaddw.d.512", 512, "int16", "int16")
    if "avx2" in isa:
        return dot("llvm.x86.avx2.pmadd.wd", 256, "int16", "int16")
    if "sse2" in isa:
        return dot("llvm.x86.sse2.pmadd.wd", 128, "int16", "int16")
    return None


def compute_module(kernel: ComputeKernel, n_threads: int, isa: frozenset[str]) -> Any:
    """The kernel as an IRModule: each thread updates enough accumulators to hide the latency, all in registers."""
    in_bits, acc_bits = (int("".join(c for c in d if c.isdigit())) for d in (kernel.in_dtype, kernel.acc_dtype))
    lanes, in_lanes = kernel.vector_bits // acc_bits, kernel.vector_bits // in_bits
    n_registers = _n_accumulators(isa)
    text = _COMPUTE.format(
        n_in=max(2 * in_lanes, n_registers),
        n_out=n_threads * n_registers * lanes,
        n_acc=n_registers * lanes,
        n_registers=n_registers,
        n_threads=n_threads,
        lanes=lanes,
        in_dtype=kernel.in_dtype,
        acc_dtype=kernel.acc_dtype,
        update=kernel.update.format(lanes=lanes, in_lanes=in_lanes),
    )
    return tvm.IRModule({"main": tvm.script.from_source(text)})


def _n_accumulators(isa: frozenset[str]) -> int:
    """x86 needs 2 units x latency 4 to 5, and has 16 registers below AVX-512; Arm has 32 and up to 4 units."""
    if "avx512f" in isa:
        return 12
    return 10 if "sse2" in isa else 16


def _compute_rate(kernel: ComputeKernel, target: Any, n_threads: int, isa: frozenset[str]) -> tuple[float, float]:
    module = compute_module(kernel, n_threads, isa)
    run = tvm.compile(module, target=target)["main"]
    a, c = (tvm.runtime.empty(_shape(p), p.dtype) for p in module["main"].params[:2])
    _fill(a, 0.5)
    best_s, steps, noise = fastest_call(partial(run, a, c), first=1000)
    return n_threads * steps * _n_accumulators(isa) * kernel.ops / best_s, noise


def _bandwidths(target: Any, n_threads: int, isa: frozenset[str]) -> tuple[list[list[float]], float]:
    lanes = vector_bits(isa) // 32
    step_bytes = 8 * lanes * 4 * n_threads
    sizes = working_sets(n_threads)
    n_in = math.ceil(sizes[-1] / step_bytes) * step_bytes // 4
    fill = {"n_in": n_in, "n_out": n_threads * 8 * lanes, "n_acc": 8 * lanes, "n_threads": n_threads, "lanes": lanes}
    runs = []
    for text, passes in ((_UPDATE, 2), (_READ, 1)):
        module = tvm.IRModule({"main": tvm.script.from_source(text.format(**fill))})
        runs.append((tvm.compile(module, target=target)["main"], passes))
    a, c = tvm.runtime.empty((n_in,), "float32"), tvm.runtime.empty((n_threads * 8 * lanes,), "float32")
    runs[0][0](a, c, n_in * 4 // step_bytes, 1)  # first touch, by the threads that will read
    points: list[list[float]] = []
    noise = 1.0
    for size in sizes:
        steps = math.ceil(size / step_bytes)
        rate = 0.0
        for run, passes in runs:
            best_s, rounds, spread = fastest_call(partial(run, a, c, steps), first=1)
            rate = max(rate, passes * rounds * steps * step_bytes / best_s)
            noise = max(noise, spread)
        points.append([float(steps * step_bytes), rate])
    return points, noise


def working_sets(n_threads: int, cpu: Path = Path("/sys/devices/system/cpu/cpu0")) -> list[int]:
    """Bytes to stream, over all threads: most of L1, most of L2, then larger by 4 up to MAX_BUFFER_BYTES."""
    caches = cache_sizes(cpu)
    l1, l2 = caches.get("L1d", 32 << 10), caches.get("L2", 1 << 20)
    sizes = [n_threads * l1 * 3 // 4, n_threads * l2 * 3 // 4]
    while sizes[-1] * 8 < MAX_BUFFER_BYTES:
        sizes.append(sizes[-1] * 4)
    return [*sizes, max(MAX_BUFFER_BYTES, sizes[-1] * 2)]


def fastest_call(run: Callable[[int], Any], first: int) -> tuple[float, int, float]:
    """The fastest of many calls: (seconds, the count it was called with, median over fastest).

    The count grows until even the fastest call lasts about CALL_S: early calls may all have waited for their threads
    to wake. Many short calls find the quiet moments of a shared machine.
    """
    count = first
    while True:
        samples = _sample(run, count)
        best = min(samples)
        if best >= CALL_S / 2:
            return best, count, statistics.median(samples) / best
        count = max(count * 2, min(count * 50, math.ceil(count * CALL_S / max(best, 1e-7))))


def _sample(run: Callable[[int], Any], count: int) -> list[float]:
    """Seconds of calls until the best is steady; ends at once when a call shows that `count` is too small."""
    samples = [_timed(run, count)]
    best = samples[0]
    start = improved_at = time.perf_counter()
    while len(samples) < 3 or (
        time.perf_counter() < start + SAMPLES_S
        and ((best < LONG_S and len(samples) < MIN_SAMPLES) or time.perf_counter() < improved_at + STEADY_S)
    ):
        if samples[-1] < CALL_S / 2:
            break
        samples.append(_timed(run, count))
        if samples[-1] < 0.99 * best:
            best, improved_at = samples[-1], time.perf_counter()
    return samples


def _timed(run: Callable[[int], Any], count: int) -> float:
    start = time.perf_counter()
    run(count)
    return time.perf_counter() - start


def _shape(param: Any) -> tuple[int, ...]:
    return tuple(int(extent) for extent in param.shape)


def _fill(tensor: Any, value: float) -> None:
    host = tensor.numpy()
    host[:] = value
    tensor.copyfrom(host)
