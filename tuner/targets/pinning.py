"""Gives each of TVM's threads a CPU of its own. Runs in the child that times kernels, before the first timing.

Without it the caller's thread, which runs a share of the work, may wake on the CPU of a pool thread and stay there:
both shares then run one after the other, and a two-core kernel steadily takes twice its time, in every sample alike.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tuner.targets.host import read_text
from tuner.tvm_api import tvm

_LAMBDA = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_LOOK_S = 0.05


def pin_threads(n_threads: int) -> tuple[int, ...]:
    """Pins this thread and the others of TVM's pool to one CPU each; task i of a parallel loop runs on the i-th.

    Call it in the thread that will run the kernels: the pool belongs to it. Returns the CPUs; () where there is nothing
    to pin (one thread) or fewer CPUs are allowed than threads are wanted.
    """
    allowed = _allowed_cpus()
    if n_threads < 2 or len(allowed) < n_threads:
        return ()
    cpus = choose_cpus(allowed, n_threads)
    _run_on_each_thread(lambda task: os.sched_setaffinity(0, {cpus[task]}), n_threads)
    return cpus


def choose_cpus(allowed: Sequence[int], n: int, root: Path = Path("/"), look_s: float = _LOOK_S) -> tuple[int, ...]:
    """`n` of the allowed CPUs: each on a physical core of its own as far as they go, the idlest of them first.

    Looks at /proc/stat twice, `look_s` apart, unless all are needed anyway.
    """
    if n >= len(allowed):
        return tuple(sorted(allowed)[:n])
    before = _busy_ticks(root)
    time.sleep(look_s)
    after = _busy_ticks(root)
    busy = {cpu: after.get(cpu, 0) - before.get(cpu, 0) for cpu in allowed}
    by_load = sorted(allowed, key=lambda cpu: (busy[cpu], cpu))
    seen: dict[str, int] = {}
    turn: dict[int, int] = {}
    for cpu in by_load:
        core = read_text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        turn[cpu] = seen.get(core, 0)
        seen[core] = turn[cpu] + 1
    return tuple(sorted(sorted(by_load, key=lambda cpu: turn[cpu])[:n]))


def _allowed_cpus() -> tuple[int, ...]:
    """What the process may use, also after some of its threads were pinned."""
    allowed: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            allowed |= os.sched_getaffinity(int(thread))
        except OSError:
            continue  # the thread has ended
    return tuple(sorted(allowed))


def _busy_ticks(root: Path) -> dict[int, int]:
    ticks: dict[int, int] = {}
    for line in (read_text(root / "proc/stat") or "").splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and len(fields) >= 5:
            user, nice, system, _, _, *rest = (int(f) for f in fields[:8])
            ticks[int(name[3:])] = user + nice + system + sum(rest)
    return ticks


def _run_on_each_thread(job: Callable[[int], Any], n_threads: int) -> None:
    """Runs `job(task)` once on each thread of TVM's pool, through the entry that compiled parallel loops use.

    Raises the first OSError that a thread met.
    """
    errors: list[OSError] = []

    def one(task: int, _env: Any, _data: Any) -> int:
        try:
            job(task)
        except OSError as error:
            errors.append(error)
        return 0

    runtime = ctypes.CDLL(str(_runtime_library()))
    launch = runtime.TVMBackendParallelLaunch
    launch.argtypes = [_LAMBDA, ctypes.c_void_p, ctypes.c_int]
    launch.restype = ctypes.c_int
    launch(_LAMBDA(one), None, n_threads)
    if errors:
        raise errors[0]


def _runtime_library() -> Path:
    """The copy that is loaded already, so that it is the same thread pool."""
    package = Path(tvm.__file__).parent
    found: Iterable[Path] = (package / "lib").glob("libtvm_runtime.*")
    return next(iter(found))
