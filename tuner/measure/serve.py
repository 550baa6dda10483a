"""What a forked child does: one job after another from its socket, until the socket closes."""

from __future__ import annotations

import contextlib
import resource
import traceback
from collections.abc import Mapping
from typing import Any

from tuner.errors import TunesmithError
from tuner.measure.channel import Channel
from tuner.measure.jobs import Tainted, resolve_job_name

# A thread's stack and its malloc arena count as address space although they are hardly used.
_ADDRESS_SPACE_PER_THREAD = 144 << 20


def serve(channel: Channel, table: Mapping[str, str], n_threads: int) -> None:
    """Answers {"job", "kwargs", "extra_memory_bytes"} with {"value", "tainted"} or {"error", "message", "trace"}."""
    while True:
        try:
            request = channel.receive()
        except (EOFError, OSError):
            return
        _limit_memory(request["extra_memory_bytes"] + n_threads * _ADDRESS_SPACE_PER_THREAD)
        answer = _run(request["job"], request["kwargs"], table)
        _limit_memory(None)
        try:
            channel.send(answer)
        except (TypeError, ValueError) as error:
            channel.send({"error": type(error).__name__, "message": f"{request['job']}: {error}", "trace": ""})
        except OSError:
            return


def _run(name: str, kwargs: dict[str, Any], table: Mapping[str, str]) -> dict[str, Any]:
    try:
        value = resolve_job_name(name, table)(**kwargs)
    except BaseException as error:  # noqa: BLE001  whatever it is, the parent must hear of it
        # Memory that an error's frames hold would be missing for the answer.
        trace = "".join(traceback.format_exception(error))
        error.__traceback__ = None
        return {"error": type(error).__name__, "message": _one_line(error), "trace": trace[-4000:]}
    if isinstance(value, Tainted):
        return {"value": value.value, "tainted": True}
    return {"value": value, "tainted": False}


def _one_line(error: BaseException) -> str:
    """The message without the C++ stack that TVM's errors begin with."""
    if isinstance(error, TunesmithError):
        return " ".join(str(error).split())
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = [line for line in lines if not line.startswith(("Stack trace", "[bt]", "File "))]
    return " ".join((text or lines or [""])[-3:])[:400]


def _limit_memory(extra_bytes: int | None) -> None:
    """Lets the address space grow by `extra_bytes` from now on; None lifts the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = hard
    if extra_bytes is not None:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
        wanted = pages * resource.getpagesize() + extra_bytes
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
