"""Machine code of a scheduled module, made in a child without compiler or linker: object code, assembly, LLVM IR."""

from __future__ import annotations

import os
from typing import Any

from tuner.tvm_api import IRModule, tvm


def object_code(mod: IRModule, target: dict[str, Any]) -> bytes:
    """An ELF object of all functions in `mod`; equal modules give equal bytes.

    `target` is the canonical target dict. Raises whatever TVM raises when lowering or code generation fails.
    """
    return _written(mod, target, "o")


def assembly(mod: IRModule, target: dict[str, Any]) -> str:
    """The assembly that `object_code` holds."""
    return _written(mod, target, "s").decode()


def llvm_ir(mod: IRModule, target: dict[str, Any]) -> str:
    """LLVM IR after LLVM's own optimisations."""
    return _written(mod, target, "ll").decode()


def _written(mod: IRModule, target: dict[str, Any], form: str) -> bytes:
    library = tvm.tirx.build(mod, target=tvm.target.Target(target))
    fd = os.memfd_create("code")
    try:
        library.write_to_file(f"/proc/self/fd/{fd}", form)
        size = os.fstat(fd).st_size
        return os.pread(fd, size, 0)
    finally:
        os.close(fd)
