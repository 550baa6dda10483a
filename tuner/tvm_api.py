"""The only file that imports tvm. Imported inside children; the main process never needs it.

Checks the tvm / tvm-ffi pair before anything else: another pair satisfies pip and segfaults later.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
import types
from typing import Any

from tuner.errors import ToolchainError

TVM_VERSION = "0.27.0.post1"
TVM_FFI_VERSION = "0.1.14.post1"


def check_versions() -> None:
    """Refuses a tvm / tvm-ffi pair that was not tested together.

    Raises:
        ToolchainError: names both versions and the command that mends it.
    """
    wanted = {"apache-tvm": TVM_VERSION, "apache-tvm-ffi": TVM_FFI_VERSION}
    found: dict[str, str] = {}
    for name in wanted:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    if found != wanted:
        want = " ".join(f"{k}=={v}" for k, v in wanted.items())
        got = " ".join(f"{k}=={v}" for k, v in found.items())
        raise ToolchainError(f"need {want}, found {got}; run: pip install {want}")


check_versions()

import tvm  # noqa: E402
import tvm_ffi  # noqa: E402
from tvm import te, tirx, topi  # noqa: E402
from tvm_ffi_orcjit import default_session as jit_session  # noqa: E402


def _defer_tensor_intrinsics() -> None:
    """Keeps TuneContext from importing all 248 tensor intrinsics (10 to 12 s in each new process).

    A package object stands in for `tvm.s_tir.tensor_intrin`; its modules stay importable one by one, so
    a target that needs intrinsics registers just its own.
    """
    name = "tvm.s_tir.tensor_intrin"
    if name in sys.modules:
        return
    spec = importlib.util.find_spec("tvm.s_tir")
    if spec is None or spec.origin is None:
        raise ToolchainError(f"{name} not found; reinstall apache-tvm=={TVM_VERSION}")
    package = types.ModuleType(name)
    package.__path__ = [os.path.join(os.path.dirname(spec.origin), "tensor_intrin")]
    sys.modules[name] = package
    tvm.s_tir.tensor_intrin = package


_defer_tensor_intrinsics()

from tvm.s_tir import meta_schedule as ms  # noqa: E402

Schedule = tvm.s_tir.Schedule
Trace = tvm.s_tir.Trace
IRModule = tvm.IRModule


def structural_hash(node: Any) -> int:
    """TVM's structural hash: for use within one process only, it is not stable across environments."""
    return int(tvm_ffi.structural_hash(node))


__all__ = [
    "TVM_FFI_VERSION",
    "TVM_VERSION",
    "IRModule",
    "Schedule",
    "Trace",
    "check_versions",
    "jit_session",
    "ms",
    "structural_hash",
    "te",
    "tirx",
    "topi",
    "tvm",
    "tvm_ffi",
]
