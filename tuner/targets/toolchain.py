"""The versions that decide what code a target gets. Read from the installed packages; TVM is not imported."""

from __future__ import annotations

import importlib.metadata
import platform

# Built into the apache-tvm wheel; tests/targets/test_toolchain.py asks TVM itself.
LLVM_VERSION = "22.1.0"

_PACKAGES = {
    "tvm": "apache-tvm",
    "tvm-ffi": "apache-tvm-ffi",
    "orcjit": "apache-tvm-ffi-orcjit",
    "tunesmith": "tunesmith",
}


def toolchain_versions() -> dict[str, str]:
    """{"tvm", "tvm-ffi", "orcjit", "tunesmith", "llvm", "python"}; "not installed" where a package is missing."""
    versions = {name: _version(package) for name, package in _PACKAGES.items()}
    return {**versions, "llvm": LLVM_VERSION, "python": platform.python_version()}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
