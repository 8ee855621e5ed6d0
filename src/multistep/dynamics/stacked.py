"""`stacked`: dynamics of the same shape as one tree, for one program that goes through all of them."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from multistep.dynamics.base import AbstractDynamics


def stacked(members: Sequence[AbstractDynamics]) -> AbstractDynamics:
    """Members of the same shape, each of their arrays with a leading axis of members."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *members)
