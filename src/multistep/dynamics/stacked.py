"""Several dynamics in one program: side by side where they are alike, one after the other where not."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from multistep.dynamics.base import AbstractDynamics


def are_alike(members: Sequence[AbstractDynamics]) -> bool:
    """Whether these have the same structure and arrays of the same shapes."""
    arrays = [eqx.filter(member, eqx.is_array) for member in members]
    shapes = {tuple(leaf.shape for leaf in jax.tree.leaves(own)) for own in arrays}
    return len(shapes) == 1 and len({jax.tree.structure(own) for own in arrays}) == 1


def stacked(members: Sequence[AbstractDynamics]) -> AbstractDynamics:
    """Members of the same shape as one tree, each of their arrays with a leading axis of members."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *members)


def of_each(members: Sequence[AbstractDynamics], function: Callable[..., PyTree], *shared: Array) -> PyTree:
    """What the function returns for each member and its own of the arrays, along a leading axis of members.

    **Arguments:**

    - `members`: dynamics of any shapes.
    - `function`: of one of them, and of arrays without the leading axis.
    - `shared`: arrays with a leading axis of members.
    """
    if are_alike(members):
        return eqx.filter_vmap(function)(stacked(members), *shared)
    found = [function(member, *(own[n] for own in shared)) for n, member in enumerate(members)]
    return jax.tree.map(lambda *parts: jnp.stack(parts), *found)
