"""Plain data to bytes and back, for the socket between the main process and its children. Nothing is ever unpickled.

msgpack, with numpy arrays and scalars (ml_dtypes such as bfloat16 included) as (dtype name, shape, bytes).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import msgpack
import numpy as np

_ARRAY, _SCALAR, _TUPLE, _BIG_INT = 1, 2, 3, 4


def encode(obj: Any) -> bytes:
    """Bytes of None, bool, int, float, str, bytes, list, tuple, dict, numpy arrays and scalars, nested freely.

    Raises:
        TypeError: for anything else, object arrays included.
    """
    packed: bytes = msgpack.packb(obj, default=_extend, strict_types=True)
    return packed


def decode(data: bytes | bytearray | memoryview) -> Any:
    """The inverse of `encode`; arrays come back writable.

    Raises:
        ValueError: when the bytes are not a message of `encode`.
    """
    try:
        return msgpack.unpackb(data, ext_hook=_restore, strict_map_key=False)
    except (msgpack.UnpackException, TypeError) as error:
        raise ValueError(f"not a message of this protocol: {error}") from error


def _extend(obj: Any) -> Any:
    if isinstance(obj, np.ndarray):
        return msgpack.ExtType(_ARRAY, msgpack.packb([_dtype_name(obj.dtype), list(obj.shape), obj.tobytes()]))
    if isinstance(obj, np.generic):
        return msgpack.ExtType(_SCALAR, msgpack.packb([_dtype_name(obj.dtype), obj.tobytes()]))
    if isinstance(obj, tuple):
        return msgpack.ExtType(_TUPLE, encode(list(obj)))
    if isinstance(obj, int):
        return msgpack.ExtType(_BIG_INT, str(int(obj)).encode())
    if isinstance(obj, str):  # a StrEnum
        return str.__str__(obj)
    raise TypeError(f"can't send a {type(obj).__qualname__} between processes: plain data only")


def _restore(code: int, data: bytes) -> Any:
    if code == _ARRAY:
        name, shape, raw = msgpack.unpackb(data)
        return np.frombuffer(bytearray(raw), dtype=_dtype_of(name)).reshape(shape)
    if code == _SCALAR:
        name, raw = msgpack.unpackb(data)
        return np.frombuffer(raw, dtype=_dtype_of(name))[0]
    if code == _TUPLE:
        return tuple(decode(data))
    if code == _BIG_INT:
        return int(data)
    raise ValueError(f"not a message of this protocol: extension {code}")


def _dtype_name(dtype: np.dtype[Any]) -> str:
    if dtype.hasobject or dtype.names is not None:
        raise TypeError(f"can't send an array of dtype {dtype} between processes: plain numbers only")
    # ml_dtypes have kind "V" and a meaningless `.str`; their name finds them again.
    return dtype.name if dtype.kind == "V" else dtype.str


def _dtype_of(name: str) -> np.dtype[Any]:
    extra = getattr(ml_dtypes, name, None) if name.isidentifier() else None
    return np.dtype(name if extra is None else extra)
