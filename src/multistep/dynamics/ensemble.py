"""An ensemble: several dynamics in one."""

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp

from multistep.dynamics.averaged import Averaged
from multistep.dynamics.base import AbstractDynamics, AbstractModel
from multistep.dynamics.committee import Committee
from multistep.dynamics.lagged import Lagged


def average(learned: Sequence[AbstractDynamics]) -> AbstractDynamics:
    """The mean of what was learned several times: of each step, where the memories mean the same; of what is
    predicted, where they do not, as those of hidden states."""
    if all(isinstance(each, AbstractModel) for each in learned):
        return Averaged(tuple(learned))  # pyright: ignore[reportArgumentType]
    if all(isinstance(each, Lagged) for each in learned):
        return replace(learned[0], model=Averaged(tuple(each.model for each in learned)))  # pyright: ignore
    return Committee(tuple(learned))


def stacked(members: Sequence[AbstractDynamics]) -> AbstractDynamics:
    """Members of the same shape as one tree, each of its arrays with a leading axis of members."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *members)
