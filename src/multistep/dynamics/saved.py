"""`Saved`: what a model file has learned, as an architecture to go on from in place of random weights."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree
from numpy import ndarray

from multistep.data import Episodes, Past, Windows, is_same_step
from multistep.dynamics.base import AbstractArchitecture, AbstractDynamics, Memory, Prediction, check_names
from multistep.dynamics.model import MemoryModel, Model, check_units
from multistep.dynamics.model_files import load_model
from multistep.dynamics.normaliser import Normaliser
from multistep.errors import InputError
from multistep.runs.provenance import plain
from multistep.types import Actions, Key, Scalar


@dataclass(frozen=True)
class Saved(AbstractArchitecture):
    """The dynamics in a model file, with its weights and in its units."""

    path: str | Path
    """The `model.safetensors` that a fit has left."""

    @property
    def model(self) -> Model | MemoryModel:
        """What is in the file, in the precision that everything else has."""
        return jax.tree.map(
            lambda leaf: jnp.asarray(leaf, float) if eqx.is_inexact_array(leaf) else leaf,
            load_model(self.path),
        )

    def suited_to(self, episodes: Episodes) -> "Saved":
        """The same, if the episodes have the columns, the time step and the angles that it was trained on."""
        model = self.model
        check_names(model, episodes.state_names, episodes.action_names)
        check_units(model, episodes.units)
        own, other = model.time_step, episodes.time_step
        if not is_same_step(own, other):
            raise InputError(
                f"The model's step is {own:g}, the data have a sample every {other:g}: resample them to go "
                "on from this model, or fit anew."
            )
        turns = _turns_of(model.learned.architecture)
        turns = None if turns is None else turns[: len(model.state_names)]  # a hidden state has more numbers
        if turns is not None and (turns or None) != (episodes.turns or None):
            known = [name for name, turn in zip(model.state_names, turns or (), strict=False) if turn]
            raise InputError(
                f"The model {self.path} takes {', '.join(known) or 'no state'} for an angle: load the data "
                "with the same angles to go on from it, or fit anew."
            )
        return self

    def normaliser(self, episodes: Episodes) -> Normaliser:
        """The model's own, whatever the episodes."""
        return jax.tree.map(lambda values: np.asarray(values, np.float64), self.model.normaliser)

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Resumed":
        model = self.model
        if (state_size, action_size) != (len(model.state_names), len(model.action_names)):
            raise InputError(
                f"The model {self.path} has {len(model.state_names)} states and {len(model.action_names)} "
                f"actions, the data {state_size} and {action_size}: give the columns that it was trained on."
            )
        return Resumed(model.learned.thaw())


class Resumed(AbstractDynamics):
    """What was learned before, as it is: nothing of it is found anew before the first epoch."""

    learned: AbstractDynamics

    @property
    def num_past(self) -> int:
        return self.learned.num_past

    def start(self, past: Past) -> Memory:
        return self.learned.start(past)

    def step(self, memory: Memory, given: Any) -> Memory:
        return self.learned.step(memory, given)

    def predict(self, memory: Memory) -> Prediction:
        return self.learned.predict(memory)

    def begin(self, windows: Windows, starts: Int[ndarray, "windows 2"], normaliser: Normaliser) -> "Resumed":
        return self

    def inputs(self, actions: Actions, key: Key | None) -> PyTree:
        return self.learned.inputs(actions, key)

    def trained(self) -> PyTree[bool]:
        return Resumed(self.learned.trained())

    def note(self, noted: PyTree) -> "Resumed":
        return eqx.tree_at(lambda resumed: resumed.learned, self, self.learned.note(noted))

    def penalty(self) -> Scalar:
        return self.learned.penalty()

    def freeze(self) -> AbstractDynamics:
        return self.learned.freeze()


@plain.register
def _plain_saved(saved: Saved) -> dict[str, Any]:
    """With a digest of the file: another model in its place is another fit."""
    content = Path(saved.path).read_bytes() if Path(saved.path).is_file() else b""
    return {"saved": str(saved.path), "digest": hashlib.sha256(content).hexdigest()[:16]}


def _turns_of(architecture: AbstractArchitecture | None) -> tuple[float, ...] | None:
    """The angles that it knows of, in itself or in the network within; none if it knows of no such thing."""
    if hasattr(architecture, "turns"):
        return tuple(architecture.turns)  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    within = getattr(architecture, "network", None)
    return None if within is None else _turns_of(within)
