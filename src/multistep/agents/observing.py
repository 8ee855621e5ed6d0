"""`Observing`: a planner that decides in the state that an observer takes the noisy measurement for."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from multistep.agents.planners import AbstractPlanner
from multistep.dynamics import Belief, Observer
from multistep.types import Action, Key, State


class Watched(eqx.Module):
    """What is believed of the state after the last decision, the action that was taken, and the planner's own
    memory."""

    belief: Belief
    action: Action
    has_acted: Bool[Array, ""]
    planner_memory: Any


class Observing(AbstractPlanner[Watched]):
    """Another planner, which decides in the mean of the observer's belief instead of in what was measured."""

    planner: AbstractPlanner[Any]
    observer: Observer
    action_size: int = eqx.field(static=True)

    def start(self) -> Watched:
        unknown = self.observer.start(jnp.zeros_like(self.observer.measurement_noise))
        return Watched(unknown, jnp.zeros(self.action_size), jnp.asarray(False), self.planner.start())

    def decide(self, state: State, memory: Watched, key: Key) -> tuple[Action, Watched]:
        fresh, followed = (
            self.observer.start(state),
            self.observer.observe(memory.belief, memory.action, state).after,
        )
        # A belief that is lost begins anew with what was measured.
        is_known = (
            memory.has_acted & jnp.isfinite(followed.mean).all() & jnp.isfinite(followed.covariance).all()
        )
        belief = jax.tree.map(lambda new, old: jnp.where(is_known, old, new), fresh, followed)
        action, planner_memory = self.planner.decide(belief.mean, memory.planner_memory, key)
        return action, Watched(belief, action, jnp.asarray(True), planner_memory)
