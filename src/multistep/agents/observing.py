"""`Filtered`: a planner that decides in the state that an observer takes the noisy measurement for."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from multistep.agents.planners import AbstractPlanner
from multistep.data import Past
from multistep.dynamics import Belief, Observer
from multistep.types import Action, Key


class Followed(eqx.Module):
    """What is believed of the state after the last decision, the action that was taken, and the planner's own
    memory."""

    belief: Belief
    action: Action
    has_acted: Bool[Array, ""]
    planner_memory: Any


class Filtered(AbstractPlanner[Followed]):
    """Another planner, which decides in the mean of the observer's belief instead of in what was measured."""

    planner: AbstractPlanner[Any]
    observer: Observer
    action_size: int = eqx.field(static=True)

    def start(self) -> Followed:
        unknown = self.observer.start(jnp.zeros_like(self.observer.measurement_noise))
        return Followed(unknown, jnp.zeros(self.action_size), jnp.asarray(False), self.planner.start())

    def decide(self, past: Past, memory: Followed, key: Key) -> tuple[Action, Followed]:
        measured = past.states[-1]
        fresh = self.observer.start(measured)
        followed = self.observer.observe(memory.belief, memory.action, measured).after
        # A belief that is lost begins anew with what was measured.
        is_known = (
            memory.has_acted & jnp.isfinite(followed.mean).all() & jnp.isfinite(followed.covariance).all()
        )
        belief = jax.tree.map(lambda new, old: jnp.where(is_known, old, new), fresh, followed)
        believed = Past(belief.mean[None], past.actions)
        action, planner_memory = self.planner.decide(believed, memory.planner_memory, key)
        return action, Followed(belief, action, jnp.asarray(True), planner_memory)
