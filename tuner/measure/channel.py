"""Messages over a socket, where every send and receive keeps its deadline, even against a frozen peer."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from tuner.measure.protocol import decode, encode

_HEADER = struct.Struct("<Q")
_MOST_BYTES = 1 << 34  # a longer message is none: its sender's memory is damaged


class Channel:
    """One end of a stream socket that carries length-prefixed messages of `protocol`.

    Deadlines are `time.monotonic()` seconds; None waits for ever. Both calls raise TimeoutError past the
    deadline, after which the stream is in an unknown state, and EOFError or OSError when the peer is gone.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def send(self, obj: Any, deadline: float | None = None) -> None:
        """Raises TypeError or ValueError, with nothing sent, when `obj` is not plain data."""
        self.send_encoded(encode(obj), deadline)

    def send_encoded(self, payload: bytes, deadline: float | None = None) -> None:
        self._set_timeout(deadline)
        self._sock.sendall(_HEADER.pack(len(payload)))
        self._set_timeout(deadline)
        self._sock.sendall(payload)

    def receive(self, deadline: float | None = None) -> Any:
        """Raises ValueError when what comes is no message."""
        (size,) = _HEADER.unpack(self._read(_HEADER.size, deadline))
        if size > _MOST_BYTES:
            raise ValueError(f"a message of {size} bytes")
        return decode(self._read(size, deadline))

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def _read(self, size: int, deadline: float | None) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            self._set_timeout(deadline)
            count = self._sock.recv_into(view)
            if count == 0:
                raise EOFError("the other end closed the socket")
            view = view[count:]
        return buffer

    def _set_timeout(self, deadline: float | None) -> None:
        # A timeout of 0 would make the socket non-blocking, which raises another error.
        self._sock.settimeout(None if deadline is None else max(deadline - time.monotonic(), 1e-6))
