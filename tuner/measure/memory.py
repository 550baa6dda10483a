"""Page-aligned memory between pages that no one may touch, in a child; and TVM tensors over it without a copy."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.tvm_api import tvm_ffi

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_PROT_NONE, _PROT_READ = 0, 1

Bytes = npt.NDArray[np.uint8]


def guarded_pages(n_bytes: int) -> Bytes:
    """uint8 [at least n_bytes, whole pages], zeroed; touching the page before or after ends the process."""
    page = mmap.PAGESIZE
    inner = max(-(-n_bytes // page), 1) * page
    region = mmap.mmap(-1, inner + 2 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = np.frombuffer(region, np.uint8)
    _protect(whole[:page], _PROT_NONE)
    _protect(whole[page + inner :], _PROT_NONE)
    return whole[page : page + inner]


def read_only_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy that stray stores of a kernel can't damage unseen: they end the process."""
    pages = guarded_pages(array.nbytes)
    copy: npt.NDArray[Any] = pages[: array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    _protect(pages, _PROT_READ)
    copy.flags.writeable = False
    return copy


def tensor_over(storage: Bytes, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...]) -> tvm_ffi.Tensor:
    """A TVM tensor over `storage`, which starts at a multiple of 64 and must live longer; strides count elements."""
    return tvm_ffi.from_dlpack(_Exporter(storage.ctypes.data, shape, dtype, strides), require_alignment=64)


def _protect(pages: Bytes, protection: int) -> None:
    if _LIBC.mprotect(pages.ctypes.data, pages.nbytes, protection) != 0:
        raise OSError(ctypes.get_errno(), "mprotect failed")


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _ManagedTensor(ctypes.Structure):
    """DLPack's DLManagedTensor with its DLTensor in place (dlpack.h, version 0)."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Exporter:
    """What `from_dlpack` asks for: the only way to a tensor with strides and any dtype, e.g. bfloat16."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...]) -> None:
        kind = tvm_ffi.dtype(dtype)
        sizes = ctypes.c_int64 * max(len(shape), 1)
        self._managed = _ManagedTensor(
            address,
            _Device(1, 0),
            len(shape),
            _DataType(kind.type_code, kind.bits, kind.lanes),
            sizes(*shape),
            sizes(*strides),
            0,
            None,
            None,
        )
        # The tensor reads the structure when it ends and nothing tells us when: these 100 bytes stay for ever.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._managed))

    def __dlpack__(self, **_: Any) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule: object = new(ctypes.addressof(self._managed), b"dltensor", None)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)
