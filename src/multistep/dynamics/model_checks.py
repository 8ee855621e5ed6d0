"""What a model file must hold to be a model: known keys, different names, as many parts as there are arrays,
numbers."""

import math
from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from multistep.errors import InputError

VERSION = 2
KEYS = {"version", "kind", "settings", "state_names", "action_names", "time_step", "units", "uncertainty"}
KEYS_OF_VERSION_1 = KEYS - {"kind", "settings"} | {"hidden_size", "num_common_layers", "activation"}
REMEDY = "save the model again"
COUNTS = ("num_common_layers", "members")
"""Settings that say of how many parts a model is; each part has arrays of its own."""
INFINITE = (".state_range", ".action_range", ".lowest", ".highest", ".disagreement")
"""Ends of arrays' names: limits, which need not be there."""


def checked_header(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    """The header as version 2 has it, or an `InputError` that says what is wrong with it."""
    version = header.get("version")
    if type(version) is not int:
        raise InputError(f"The header of the model file {path} is damaged: {REMEDY}.")
    if version not in (1, VERSION):
        raise InputError(
            f"The model file {path} has format version {version}, this multistep reads versions up to "
            f"{VERSION}: save it again."
        )
    if unknown := sorted(header.keys() - (KEYS_OF_VERSION_1 if version == 1 else KEYS)):
        raise InputError(
            f"The header of the model file {path} has {', '.join(unknown)}, which nobody knows: {REMEDY}."
        )
    if version == 1:  # networks only, their settings among the names
        settings = ("hidden_size", "num_common_layers", "activation")
        header |= {"kind": "network", "settings": {name: header.get(name) for name in settings}}
    for name in ("state_names", "action_names"):
        _check_names(path, name, header.get(name))
    return header


def _check_names(path: Path, what: str, names: Any) -> None:
    is_list = isinstance(names, list) and all(isinstance(name, str) and name for name in names)
    if not is_list or len(set(names)) < len(names) or (what == "state_names" and not names):
        raise InputError(
            f"The {what} in the header of the model file {path} are not a list of different names: {REMEDY}."
        )


def check_counts(path: Path, described: Any, most: int, ours: Container[str]) -> None:
    """Refuse a header that asks for more parts than there are arrays, before they are laid out; what the
    settings of a user's own kind mean is not known here."""
    if (parts := _num_parts(described, most, ours)) > most:
        raise InputError(
            f"The header of the model file {path} asks for {parts} layers or more, the file has "
            f"{most} arrays: {REMEDY}."
        )


def _num_parts(described: Any, most: int, ours: Container[str]) -> int:
    """Parts that have arrays, the networks within a network too; beyond the most nobody counts on."""
    if not isinstance(described, dict) or str(described.get("kind")) not in ours:
        return 1
    settings = described.get("settings", {})
    own = math.prod(max(1, int(settings.get(name, 1))) for name in COUNTS)
    inner = [settings["network"]] if "network" in settings else settings.get("networks", [])
    if own > most or not inner:
        return own
    return own * sum(_num_parts(network, most, ours) for network in inner)


def positive(step: Any) -> float:
    if not (isinstance(step, int | float) and 0 < step < float("inf")):
        raise ValueError(step)
    return float(step)


def check_numbers(path: Path, name: str, array: ndarray, expected: np.dtype) -> None:
    """Refuse another kind of numbers, and what is no number. Infinite may only be what limits something."""
    is_float = np.issubdtype(expected, np.floating)
    if array.dtype.kind != ("f" if is_float else expected.kind) or (is_float and array.dtype.itemsize < 4):
        raise InputError(
            f"The array {name} of the model file {path} is of type {array.dtype}, not {expected}: {REMEDY}."
        )
    may_be_infinite = name.endswith(INFINITE)
    if is_float and not (~np.isnan(array) if may_be_infinite else np.isfinite(array)).all():
        raise InputError(
            f"The array {name} of the model file {path} has values that are NaN or infinite: fit again."
        )
    if ".normaliser." in name and name.endswith("_deviation") and not (array > 0).all():
        raise InputError(
            f"The array {name} of the model file {path} has values that are not above 0: {REMEDY}."
        )
