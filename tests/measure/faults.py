"""Jobs that misbehave, for the tests: named by the test zygote's own table, never by the product's."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import subprocess
import sys
import time
from typing import Any

from tuner.errors import WorkloadError
from tuner.measure.jobs import Tainted

JOBS = {
    name: f"tests.measure.faults:{name}"
    for name in (
        "echo", "segfault", "hang", "busy", "eat_memory", "raise_value_error", "raise_workload_error",
        "exit_quietly", "freeze", "taint", "worker_pid", "unsendable", "noisy", "fork_child", "die_by",
        "remember", "recall", "threads", "sleep_for", "burn", "unspeakable", "garbage",
    )
}  # fmt: skip

_MEMORY: dict[str, Any] = {}


def echo(**kwargs: Any) -> dict[str, Any]:
    return kwargs


def segfault() -> None:
    ctypes.string_at(8)


def die_by(signal_number: int) -> None:
    os.kill(os.getpid(), signal_number)
    time.sleep(60)


def hang() -> None:
    time.sleep(600)


def sleep_for(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def burn(cpu_s: float) -> str:
    end = time.process_time() + cpu_s
    while time.process_time() < end:
        pass
    return "done"


def busy() -> None:
    while True:
        pass


def eat_memory() -> int:
    hoard = []
    while True:
        hoard.append(bytearray(64 << 20))


def raise_value_error() -> None:
    raise ValueError("first line\nsecond line")


def raise_workload_error() -> None:
    raise WorkloadError("no such operator")


def exit_quietly() -> None:
    os._exit(3)


def freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def taint() -> Tainted:
    return Tainted(os.getpid())


def worker_pid() -> int:
    return os.getpid()


def unsendable() -> object:
    return object()


def unspeakable() -> str:
    return "\ud800"


def garbage(size: int) -> None:
    """Writes to every open socket, as a kernel with damaged memory might."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                os.write(fd, struct.pack("<Q", size) + b"\xc1" * 5)
    time.sleep(60)


def noisy(megabytes: int) -> str:
    for _ in range(megabytes):
        os.write(2, b"x" * (1 << 20) + b"\n")
    print("last words", file=sys.stderr, flush=True)
    return "done"


def fork_child() -> int:
    """Starts a process of its own and leaves it running."""
    return subprocess.Popen(["sleep", "600"]).pid


def remember(value: Any) -> str:
    _MEMORY["value"] = value
    return f"remembered {value}"


def recall() -> Any:
    return _MEMORY.get("value")


def threads() -> int:
    """How many threads the zygote has."""
    return len(os.listdir(f"/proc/{os.getppid()}/task"))
