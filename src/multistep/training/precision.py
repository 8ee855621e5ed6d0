"""`in_precision`: second-order descent takes double precision, what comes of it is in the usual one."""

from typing import Any

import equinox as eqx
import jax
import numpy as np


def in_precision(tree: Any, precision: Any) -> Any:
    """The tree with its floating-point arrays in this precision, as NumPy arrays: JAX would round them to its
    own where double precision is not enabled."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf).astype(precision) if eqx.is_inexact_array(leaf) else leaf, tree
    )
