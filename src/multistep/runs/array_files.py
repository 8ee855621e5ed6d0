"""Arrays in `.safetensors` files, with what they are as JSON in the header and a checksum over both.

Reading executes no code, and reserves no more memory than the file is long.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from multistep.errors import InputError
from multistep.runs.atomic import replacing
from multistep.runs.json_texts import parse_json

CHECKSUM = "sha256"


class ArrayFile(NamedTuple):
    """What is in such a file."""

    header: dict[str, Any] | None
    """None: the file holds arrays, but not of this kind."""
    arrays: dict[str, ndarray]
    is_whole: bool | None
    """Whether all is as it was written; None: the file is older than checksums are."""


def write_arrays(path: Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, ndarray]) -> None:
    """Write arrays and header to one file, whole or not at all.

    **Arguments:**

    - `kind`: the name of the header in the file, which tells kinds of files apart.
    """
    whole = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    text = json.dumps({**header, CHECKSUM: _checksum(header, whole)})
    # By way of memory: the library's own writer has an error of its own for a full disk.
    content = save(whole, metadata={kind: text})
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def read_arrays(path: Path, kind: str, damaged: str) -> ArrayFile:
    """What is in the file, and whether it is what was written.

    **Arguments:**

    - `kind`: as it was written.
    - `damaged`: the sentence for a file that is none; a header that is none comes back empty.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            texts = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise InputError(damaged) from error
    if kind not in texts:
        return ArrayFile(None, arrays, None)
    try:
        header = dict(parse_json(texts[kind]))
    except (ValueError, TypeError):
        return ArrayFile({}, arrays, None)
    written = header.pop(CHECKSUM, None)
    return ArrayFile(header, arrays, None if written is None else written == _checksum(header, arrays))


def _checksum(header: Mapping[str, Any], arrays: Mapping[str, ndarray]) -> str:
    found = hashlib.sha256(json.dumps(dict(header), sort_keys=True).encode())
    for name in sorted(arrays):
        found.update(f"\0{name}\0{arrays[name].dtype.str}{arrays[name].shape}".encode())
        found.update(arrays[name].tobytes())
    return found.hexdigest()
