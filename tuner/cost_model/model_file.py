"""One model in one file: a zip of plain numpy arrays and JSON (no pickle), written at once or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.errors import StorageError

Arrays = dict[str, npt.NDArray[Any]]

_FORMAT = "tunesmith-cost-model-1"
_HEADER = "header"


def write(path: Path, kind: str, version: str, header: dict[str, Any], arrays: Arrays) -> None:
    """Replaces `path`; readers see the old file or the new one.

    Raises:
        StorageError: the folder is missing, read-only or full.
    """
    text = json.dumps({"format": _FORMAT, "kind": kind, "version": version, **header})
    everything = {**arrays, _HEADER: np.frombuffer(text.encode(), dtype=np.uint8)}
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **everything)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise StorageError(f"can't save the cost model to {path}: {error.strerror or error}") from error


def read(path: Path, kind: str, version: str) -> tuple[dict[str, Any], Arrays]:
    """Returns the header and the arrays that `write` was given.

    Raises:
        StorageError: the file is missing, damaged, no cost model, of another kind, or of another version.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
        found = header.pop("format"), header.pop("kind"), header.pop("version")
    except OSError as error:
        raise StorageError(f"can't read the cost model {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise StorageError(f"{path} is damaged or not a cost model; delete it to start afresh") from error
    if found != (_FORMAT, kind, version):
        want = f"{_FORMAT}, {kind}, {version}"
        raise StorageError(f"{path} holds another cost model: want {want}, got {', '.join(map(str, found))}")
    return header, arrays
