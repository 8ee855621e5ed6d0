"""`Limited`: a model of states that stop at an end, as the level of a tank does at its rim."""

from dataclasses import dataclass, field, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from numpy import ndarray

from multistep.data import Episodes, Windows, stuck_ends
from multistep.dynamics.base import AbstractArchitecture, AbstractDynamics, AbstractModel
from multistep.dynamics.normaliser import Normaliser
from multistep.dynamics.shallow import ShallowConfig
from multistep.errors import InputError
from multistep.types import Action, Key, State

Ends = tuple[float | None, ...]


@dataclass(frozen=True)
class LimitedConfig(AbstractArchitecture):
    """A model whose first states stay within these ends, in the user's units; None: there is none."""

    network: AbstractArchitecture = field(default_factory=ShallowConfig)
    """What predicts the next state."""
    lowest: Ends = ()
    highest: Ends = ()

    def suited_to(self, episodes: Episodes) -> AbstractArchitecture:
        """With the ends at which the states of these episodes stay; without any there is nothing to limit."""
        network = self.network.suited_to(episodes)
        lowest, highest = stuck_ends(episodes)
        if all(end is None for end in lowest + highest):
            return network
        return LimitedConfig(network, lowest, highest)

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Limited":
        inner = self.network.make(state_size, action_size, key=key)
        if not isinstance(inner, AbstractModel):
            raise InputError(
                f"Ends were asked for around {type(self.network).__name__}, which has a memory of its own: "
                "put the memory around the ends."
            )
        nowhere = jnp.full(state_size, jnp.inf)
        return Limited(inner, -nowhere, nowhere, self)


class Limited(AbstractModel):
    r"""$s' = \min(\max(f(s, a), l), u)$: what is beyond an end is not, neither now nor for what follows."""

    inner: AbstractModel
    lowest: Float[Array, " state"]
    highest: Float[Array, " state"]
    made_by: LimitedConfig = eqx.field(static=True)

    def step(self, state: State, action: Action) -> State:
        lowest, highest = jax.lax.stop_gradient((self.lowest, self.highest))
        return jnp.minimum(jnp.maximum(self.inner.step(state, action), lowest), highest)

    def begin(self, windows: Windows, starts: Int[ndarray, "windows 2"], normaliser: Normaliser) -> "Limited":
        """The inner model as it begins, and the ends in normalised units."""
        inner = self.inner.begin(windows, starts, normaliser)
        assert isinstance(inner, AbstractModel)
        mean, deviation = (
            np.asarray(each, np.float64) for each in (normaliser.state_mean, normaliser.state_deviation)
        )

        def normalised(ends: Ends, nowhere: float) -> Float[Array, " state"]:
            known = [nowhere if end is None else end for end in ends]
            known += [nowhere] * (len(mean) - len(known))  # a hidden state has more numbers than outputs
            return jnp.asarray((np.array(known) - mean) / deviation, float)

        lowest, highest = normalised(self.made_by.lowest, -np.inf), normalised(self.made_by.highest, np.inf)
        return replace(self, inner=inner, lowest=lowest, highest=highest)

    def separate(self) -> tuple[AbstractDynamics, ...]:
        return tuple(replace(self, inner=own) for own in self.inner.separate())  # pyright: ignore

    def trained(self) -> PyTree[bool]:
        everything = jax.tree.map(lambda _: True, self)
        parts = self.inner.trained(), False, False
        return eqx.tree_at(lambda spec: (spec.inner, spec.lowest, spec.highest), everything, parts)

    def freeze(self) -> "Limited":
        inner = self.inner.freeze()
        assert isinstance(inner, AbstractModel)
        return replace(self, inner=inner)

    @property
    def architecture(self) -> LimitedConfig:
        return self.made_by
