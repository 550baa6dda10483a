"""The zygote process: imports TVM once, stays single-threaded, runs no kernel, and forks a worker per request.

Started by zygote.py as `python -m tuner.measure.zygote_main SETTINGS`; talks over the socket it was given.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1


def main() -> None:
    settings = json.loads(sys.argv[1])
    control = socket.socket(fileno=settings["fd"])
    os.set_inheritable(control.fileno(), False)
    parent = _watch_parent(settings["parent_pid"], settings["parent_is_main_thread"])
    # No core files, neither on disk (under one page) nor through a pipe handler (1 means none).
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    from tuner.measure.protocol import encode

    try:
        import tuner.tvm_api  # noqa: F401
        from tuner.measure.jobs import preload

        preload(settings["table"])
        if (count := len(os.listdir("/proc/self/task"))) != 1:
            raise RuntimeError(f"an import started {count - 1} threads, so the process can't fork safely")
    except BaseException as error:  # noqa: BLE001  whatever it is, the parent must hear of it
        control.send(encode({"error": type(error).__name__, "message": str(error)}))
        return
    if parent is not None:
        # From here on the loop notices that the parent ended, and has the time to kill what the workers started.
        _set_death_signal(0)
    gc.collect()
    gc.freeze()
    control.send(encode({"ready": True}))
    _Zygote(control, parent, settings).loop()


def _watch_parent(parent_pid: int, parent_is_main_thread: bool) -> int | None:
    """A descriptor that becomes readable when the parent process ends, where the kernel has such.

    The death signal fires when the *thread* that started us ends, so it is set only where that is the main one.
    """
    if parent_is_main_thread:
        _die_with_parent(parent_pid)
    try:
        descriptor = os.pidfd_open(parent_pid)
    except OSError:
        descriptor = None
    if os.getppid() != parent_pid:
        os._exit(0)
    return descriptor


def _die_with_parent(parent_pid: int) -> None:
    _set_death_signal(signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(0)


def _set_death_signal(number: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


class _Zygote:
    def __init__(self, control: socket.socket, parent: int | None, settings: dict[str, Any]) -> None:
        self._control = control
        self._parent = parent
        self._table = settings["table"]
        self._n_threads = settings["n_threads"]
        self._children: set[int] = set()

    def loop(self) -> None:
        from tuner.measure.protocol import decode, encode

        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        if self._parent is not None:
            poll.register(self._parent, select.POLLIN)
        while True:
            if self._control.fileno() not in dict(poll.poll()):
                return self._end()
            message, fds, _, _ = socket.recv_fds(self._control, 1 << 16, 4)
            if not message:
                return self._end()
            request = decode(message)
            reply = self._fork(fds) if request["do"] == "fork" else self._reap(request["pid"], request["kill"])
            try:
                self._control.send(encode(reply))
            except OSError:
                return self._end()

    def _fork(self, fds: list[int]) -> dict[str, Any]:
        me = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            for fd in fds:
                os.close(fd)
            return {"error": "OSError", "message": f"can't fork a worker: {error}"}
        if pid == 0:
            try:
                self._become_worker(me, fds)
            finally:
                os._exit(1)
        for fd in fds:
            os.close(fd)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._children.add(pid)
        return {"pid": pid}

    def _become_worker(self, zygote_pid: int, fds: list[int]) -> None:
        from tuner.measure.channel import Channel
        from tuner.measure.serve import serve

        os.setpgid(0, 0)
        _die_with_parent(zygote_pid)
        self._control.close()
        if self._parent is not None:
            os.close(self._parent)
        sock_fd, log_fd = fds
        os.dup2(log_fd, 1)
        os.dup2(log_fd, 2)
        os.close(log_fd)
        serve(Channel(socket.socket(fileno=sock_fd)), self._table, self._n_threads)
        os._exit(0)

    def _reap(self, pid: int, kill: bool) -> dict[str, Any]:
        if pid not in self._children:
            return {"status": None}
        if kill:
            _kill_group(pid)
        # Not reaped yet, so that its number still names the group in which processes of its own may live on.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        _kill_group(pid)
        _, status = os.waitpid(pid, 0)
        self._children.discard(pid)
        return {"status": os.waitstatus_to_exitcode(status)}

    def _end(self) -> None:
        for pid in self._children:
            _kill_group(pid)
        for pid in self._children:
            os.waitpid(pid, 0)
        os._exit(0)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
