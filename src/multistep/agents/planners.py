"""Planners: the best first action of many action sequences tried in the model. One compiled function per
decision."""

from abc import abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from multistep.agents.imagination import Imagination
from multistep.agents.policy import Policy
from multistep.data import Past
from multistep.errors import InputError
from multistep.types import Action, Key, Scalar, State

Memory = TypeVar("Memory")


class Sequences(NamedTuple):
    """Sequences of actions on their way through the model."""

    memories: PyTree
    """What the dynamics carries of each."""
    states: Float[Array, "sequences state"]
    going: Bool[Array, " sequences"]
    """Whether the model is still in its range."""
    earned_outside: Float[Array, " sequences"]
    """What each further step earns those that are not."""

    @classmethod
    def start(cls, imagination: Imagination, observed: State | Past, num_sequences: int) -> "Sequences":
        """As many from what was observed, for all members together."""
        past = past_of(observed, imagination.num_past)
        pasts = jax.tree.map(lambda values: jnp.broadcast_to(values, (num_sequences, *values.shape)), past)
        states = pasts.states[:, -1]
        going, nothing = jnp.ones(num_sequences, bool), jnp.zeros(num_sequences, states.dtype)
        return cls(imagination.start_memories(pasts), states, going, nothing)

    def take(
        self, imagination: Imagination, actions: Float[Array, "sequences action"]
    ) -> "tuple[Sequences, Float[Array, ' sequences']]":
        """After one more action in each, and what it has earned."""
        memories, states, rewards, left = imagination.try_actions(
            self.memories, self.states, imagination.in_range(actions)
        )
        outside = jnp.where(self.going & left, imagination.reward_outside(rewards), self.earned_outside)
        earned = jnp.where(self.going, rewards, self.earned_outside)
        return Sequences(memories, states, self.going & ~left, outside), earned


class AbstractPlanner(eqx.Module, Generic[Memory]):
    """Chooses an action by rollouts in the model. Inside, actions are shares of their range, within -1 and
    1."""

    @property
    def num_past(self) -> int:
        """Observations that it decides by: as many as its model starts from."""
        return 1

    @abstractmethod
    def start(self) -> Memory:
        """What it remembers before the first decision of an episode."""

    @abstractmethod
    def decide(self, past: Past, memory: Memory, key: Key) -> tuple[Action, Memory]:
        """The action to take now, and what to remember for the next decision. Pure; `decide` below compiles
        it.

        **Arguments:**

        - `past`: the last observations, as many as the model starts from, and the actions between them.
        - `memory`: what `start` or the decision before returned.
        - `key`: for what is drawn.
        """


def decide(
    planner: AbstractPlanner[Any], observed: State | Past, memory: Any, key: Key
) -> tuple[Action, Any]:
    """The planner's decision, compiled: the action to take, and what to remember for the next decision.

    **Arguments:**

    - `planner`: how actions are tried and chosen.
    - `observed`: the state, or for a model that starts from several states the `Past`.
    - `memory`: `planner.start()` before the first decision, then what the decision before returned.
    - `key`: for what is drawn.
    """
    past = past_of(observed, planner.num_past)
    action, memory = _decide(planner, past, memory, key)
    if not np.isfinite(action).all():
        state = np.array2string(np.asarray(past.states[-1]), precision=4)
        raise InputError(
            f"Nothing that was tried from the state {state} has a finite return: the reward must be a "
            "finite number wherever the model goes."
        )
    return action, memory


def past_of(observed: State | Past, num_past: int) -> Past:
    """What was observed, as a past of as many states as the model starts from."""
    if not isinstance(observed, Past):
        observed = Past(observed[None], jnp.zeros((0, 0), observed.dtype))
    if len(observed.states) != num_past:
        raise InputError(
            f"The model starts from {num_past} states and the actions between them, but was given "
            f"{len(observed.states)}: give a Past of as many."
        )
    return observed


@eqx.filter_jit
def _decide(planner: AbstractPlanner[Any], past: Past, memory: Any, key: Key) -> tuple[Action, Any]:
    return planner.decide(past, memory, key)


class PolicyGuided(AbstractPlanner[None]):
    """Sequences sampled from a policy in the model; returns are completed with its value of the last state.

    The planner of the paper's appendix "Agent", with 500 sequences of 20 steps.
    """

    imagination: Imagination
    policy: Policy
    num_sequences: int = eqx.field(static=True, default=500)
    horizon: int = eqx.field(static=True, default=20)

    @property
    def num_past(self) -> int:
        return self.imagination.num_past

    def start(self) -> None:
        return None

    def decide(self, past: Past, memory: None, key: Key) -> tuple[Action, None]:
        first_key, rollout_key = jax.random.split(key)
        state = past.states[-1]
        first = self.policy.sample(jnp.broadcast_to(state, (self.num_sequences, state.size)), first_key)
        return self.imagination.in_range(_best(first, self.returns(past, first, rollout_key))), None

    def returns(
        self, observed: State | Past, first: Float[Array, "sequences action"], key: Key
    ) -> Float[Array, " sequences"]:
        """Discounted return of each sequence that begins with one of these actions and goes on with the
        policy's."""
        tried = jnp.tile(
            first, (self.imagination.num_members, 1)
        )  # every model of an ensemble tries all of them

        def advance(carried: tuple[Sequences, Array], step_key: Key) -> tuple[tuple[Sequences, Array], Array]:
            now, actions = carried
            now, rewards = now.take(self.imagination, actions)
            return (now, self.policy.sample(now.states, step_key)), rewards

        started = (Sequences.start(self.imagination, observed, len(tried)), tried)
        (last, last_actions), rewards = jax.lax.scan(advance, started, jax.random.split(key, self.horizon))
        discounts = self.policy.discount ** jnp.arange(self.horizon + 1, dtype=rewards.dtype)
        outside = last.earned_outside / (1 - self.policy.discount)
        value = jnp.where(last.going, self.policy.value(last.states, last_actions), outside)
        return _over_members(discounts @ jnp.concatenate([rewards, value[None]]), len(first))


class RandomShooting(AbstractPlanner[None]):
    """Sequences of actions uniform in -1 to 1."""

    imagination: Imagination
    num_sequences: int = eqx.field(static=True, default=500)
    horizon: int = eqx.field(static=True, default=20)

    @property
    def num_past(self) -> int:
        return self.imagination.num_past

    def start(self) -> None:
        return None

    def decide(self, past: Past, memory: None, key: Key) -> tuple[Action, None]:
        shape = (self.num_sequences, self.horizon, self.imagination.action_size)
        sequences = jax.random.uniform(key, shape, past.states.dtype, -1, 1)
        returns = sequence_returns(self.imagination, past, sequences)
        return self.imagination.in_range(_best(sequences[:, 0], returns)), None


class CrossEntropy(AbstractPlanner[Float[Array, "horizon action"]]):
    """The cross-entropy method: sample around a mean sequence, move it to the best, repeat; go on from it at
    the next step."""

    imagination: Imagination
    num_sequences: int = eqx.field(static=True, default=500)
    horizon: int = eqx.field(static=True, default=20)
    num_rounds: int = eqx.field(static=True, default=5)
    num_elites: int = eqx.field(static=True, default=50)

    @property
    def num_past(self) -> int:
        return self.imagination.num_past

    def start(self) -> Float[Array, "horizon action"]:
        return jnp.zeros((self.horizon, self.imagination.action_size))

    def decide(
        self, past: Past, memory: Float[Array, "horizon action"], key: Key
    ) -> tuple[Action, Float[Array, "horizon action"]]:
        def refine(
            carried: tuple[Array, Array, Array], round_key: Key
        ) -> tuple[tuple[Array, Array, Array], Scalar]:
            mean, deviation, best = carried
            noise = jax.random.normal(round_key, (self.num_sequences, *mean.shape), mean.dtype)
            # The best so far is tried again: it is never lost to chance.
            sequences = jnp.clip(mean[None] + deviation[None] * noise, -1, 1).at[0].set(best)
            returns = sequence_returns(self.imagination, past, sequences)
            elites = sequences[jax.lax.top_k(returns, min(self.num_elites, self.num_sequences))[1]]
            return (elites.mean(axis=0), elites.std(axis=0), elites[0]), returns.max()

        started = (memory, jnp.full_like(memory, 0.5), memory)
        (mean, _, best), found = jax.lax.scan(refine, started, jax.random.split(key, self.num_rounds))
        action = self.imagination.in_range(_best(best[:1], found[-1:]))
        return action, jnp.concatenate([mean[1:], mean[-1:]])


def sequence_returns(
    imagination: Imagination, observed: State | Past, sequences: Float[Array, "sequences horizon action"]
) -> Float[Array, " sequences"]:
    """Sum of rewards along each sequence of actions, averaged over the models of an ensemble.

    Once the model has left its range, a step earns what the edge does, but the worst reward of the data at
    most, or nothing.
    """
    tried = jnp.tile(sequences, (imagination.num_members, 1, 1))
    _, rewards = jax.lax.scan(
        lambda now, actions: now.take(imagination, actions),
        Sequences.start(imagination, observed, len(tried)),
        tried.swapaxes(0, 1),
    )
    return _over_members(rewards.sum(axis=0), len(sequences))


def _best(actions: Float[Array, "sequences action"], returns: Float[Array, " sequences"]) -> Action:
    """The action with the highest return; not a number if there is none that is finite."""
    return jnp.where(jnp.isfinite(returns).any(), actions[jnp.argmax(returns)], jnp.nan)


def _over_members(returns: Float[Array, " tried"], num_sequences: int) -> Float[Array, " sequences"]:
    """Mean return of each sequence over the models; one that is not a number is never the best."""
    means = returns.reshape(-1, num_sequences).mean(axis=0)
    return jnp.where(jnp.isfinite(means), means, -jnp.inf)
