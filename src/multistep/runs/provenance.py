"""What a row needs to be trusted later: settings in terms of JSON, a digest of them, versions."""

import hashlib
import json
import math
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache, singledispatch
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


@singledispatch
def plain(value: Any) -> Any:
    """The value in terms of JSON; numbers that JSON has no word for become the words inf, -inf and nan.

    What is written otherwise than field by field (weights, recipes) says so with `plain.register`.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def digest(value: Any) -> str:
    """Sixteen letters that differ for different settings, and stay the same from run to run and machine to
    machine."""
    text = json.dumps(plain(value), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def versions() -> dict[str, str | None]:
    """Versions of what decides the numbers, and the commit where this is a checkout."""
    return dict(_versions())


def differing_versions(theirs: Mapping[str, str | None]) -> list[str]:
    """Names of what decides the numbers and has another version there than here."""
    return [name for name, mine in versions().items() if name != "commit" and theirs.get(name) != mine]


@cache
def _versions() -> dict[str, str | None]:
    packages = {name: version(name) for name in ("multistep", "jax", "jaxlib", "equinox", "optax", "numpy")}
    return {"python": platform.python_version(), **packages, "commit": _commit()}


def _commit() -> str | None:
    source = Path(__file__).resolve().parents[3]
    if not (source / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()
