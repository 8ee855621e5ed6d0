"""Checkpoints: all that a fit needs to go on after it was killed, and to end with the same bits."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from multistep.data import Episodes, episodes_digest
from multistep.errors import InputError
from multistep.runs.array_files import read_arrays, write_arrays
from multistep.runs.provenance import plain
from multistep.training.history import Epoch, Outcome
from multistep.types import Key

Tree = TypeVar("Tree", bound=PyTree)
KIND = "record"
REMEDY = "delete it to start this fit anew"
LAYOUT = 3  # of the arrays: a checkpoint of another layout is of another fit


@dataclass(frozen=True)
class Record:
    """The part of a checkpoint that is not arrays."""

    fingerprint: str
    history: tuple[Epoch, ...]
    outcome: Outcome | None


def write_checkpoint(path: Path, tree: PyTree, record: Record) -> None:
    """Replace the checkpoint by a new one: whatever happens in between, one of the two is whole."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    arrays = {f"{index:04d}": np.asarray(leaf) for index, leaf in enumerate(leaves)}
    write_arrays(path, KIND, asdict(record), arrays)


def read_checkpoint(path: Path, like: Tree, fingerprint: str) -> tuple[Tree, Record] | None:
    """Arrays (in the structure of `like`) and record of the checkpoint, or none if there is no file.

    A checkpoint of a fit with other data, settings or key is refused, never continued.
    """
    if not path.exists():
        return None
    damaged = f"The checkpoint {path} is damaged: {REMEDY}."
    header, found, is_whole = read_arrays(path, KIND, damaged)
    try:
        if header is None or not is_whole:
            raise ValueError
        record = _record(header)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(damaged) from error
    if record.fingerprint != fingerprint:
        raise InputError(
            f"The checkpoint {path} belongs to a fit with other data, settings or seed: delete it to start "
            "anew, or write this fit to another place."
        )
    arrays, rest = eqx.partition(like, eqx.is_array)
    expected = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(arrays)]
    if expected != [(found[name].shape, found[name].dtype) for name in sorted(found)]:
        raise InputError(f"The arrays of the checkpoint {path} are not those of this fit: {REMEDY}.")
    leaves = [jnp.asarray(found[name]) for name in sorted(found)]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), leaves), rest), record


def fit_digest(train: Episodes, valid: Episodes, recipe: Any, score: Any, *, key: Key) -> str:
    """A digest of everything that decides how a fit goes."""
    data = [episodes_digest(episodes) for episodes in (train, valid)]
    turns = train.turns or ""
    text = f"{LAYOUT}{json.dumps(plain(recipe), sort_keys=True)}{_name(score)}{data}{turns}"
    return hashlib.sha256(text.encode() + np.asarray(jax.random.key_data(key)).tobytes()).hexdigest()


def _name(score: Any) -> str:
    """What tells a score from others, in another process too: no address in memory."""
    if hasattr(score, "__qualname__"):
        return f"{score.__module__}.{score.__qualname__}"
    kind = type(score)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__repr__ is object.__repr__ else repr(score)


def _record(header: dict[str, Any]) -> Record:
    history = tuple(_epoch(number, epoch) for number, epoch in enumerate(header["history"]))
    outcome = None if header["outcome"] is None else Outcome(header["outcome"])
    return Record(str(header["fingerprint"]), history, outcome)


def _epoch(number: int, values: dict[str, Any]) -> Epoch:
    """The epoch of these values, if they are what epochs are made of."""
    errors, weights = (tuple(map(float, values[name])) for name in ("errors", "weights"))
    epoch = Epoch(**{**values, "errors": errors, "weights": weights})
    figures = (epoch.score, epoch.seconds, 0.0 if epoch.steepness is None else epoch.steepness)
    if (
        epoch.number != number
        or len(errors) != len(weights)
        or not all(isinstance(f, float) for f in figures)
    ):
        raise ValueError(values)
    return epoch
