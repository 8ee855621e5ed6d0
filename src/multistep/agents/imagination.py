"""Rollouts in a learned model, many side by side: pure functions that the environments are shells of."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from multistep.data import Episodes, Past, window_starts
from multistep.dynamics import AbstractDynamics, Particle, advance, are_alike, check_names, stacked
from multistep.errors import InputError, reason_of
from multistep.types import Action, Key, Scalar, State

Reward = Callable[[State, Action, State], Scalar]
ActionRange = tuple[float | Sequence[float], float | Sequence[float]]
"""The lowest and the highest action: one number for all, or one for each."""
ROLLOUT_STEPS = 100
USUAL_STEPS = 100  # 1 / (1 - discount) with SAC's discount of 0.99


class Rollouts(eqx.Module):
    """Rollouts under way."""

    memories: PyTree
    """What the dynamics carries of each."""
    states: Float[Array, "rollouts state"]
    steps: Int[Array, " rollouts"]
    """Steps that each has taken."""
    key: Key


class StepResult(NamedTuple):
    """What one step of every rollout came to."""

    next_states: Float[Array, "rollouts state"]
    """The states that were reached, before any new start."""
    rewards: Float[Array, " rollouts"]
    left: Bool[Array, " rollouts"]
    """Whether the model left the range; the state is then the nearest one inside."""
    truncated: Bool[Array, " rollouts"]
    """Whether the rollout is as long as it may be."""


class Attempt(NamedTuple):
    """What one step from given memories and states came to."""

    memories: PyTree
    states: Float[Array, "rollouts state"]
    """Kept within the range."""
    rewards: Float[Array, " rollouts"]
    left: Bool[Array, " rollouts"]


class SplitArrays(eqx.Module):
    """An object, split so that its arrays are inputs of compiled code and the rest (functions, say) part of
    it."""

    arrays: PyTree
    rest: Any = eqx.field(static=True)

    @classmethod
    def of(cls, whole: Any) -> "SplitArrays":
        return cls(*eqx.partition(whole, eqx.is_array))

    @property
    def whole(self) -> Any:
        return eqx.combine(self.arrays, self.rest)


class Imagination(eqx.Module):
    """A learned model, or an ensemble, with a reward, start states and the ranges of states and actions.

    The members of an ensemble share the rollouts evenly: rollout i belongs to one member from start to end.
    """

    members: SplitArrays
    """The models, their arrays stacked along a leading axis."""
    reward: SplitArrays
    start_states: Float[Array, "all_states state"]
    start_actions: Float[Array, "all_steps action"]
    start_places: Int[Array, "starts 2"]
    """Where in these the past of each start begins: its first state and first action."""
    low: Float[Array, " state"]
    high: Float[Array, " state"]
    action_low: Float[Array, " action"]
    action_high: Float[Array, " action"]
    worst_reward: Scalar
    """The lowest reward in the data, or 0 if none is negative: the most that a step earns once the model has
    left the range."""
    num_members: int = eqx.field(static=True)
    num_past: int = eqx.field(static=True)
    rollout_steps: int = eqx.field(static=True)
    penalty: Scalar | None = None
    """What a unit of doubt costs of the reward of a step (MOPO's form), if it costs anything."""

    @property
    def action_size(self) -> int:
        return self.action_low.size

    def start(self, num_rollouts: int, key: Key) -> Rollouts:
        """New rollouts from moments drawn uniformly from the data."""
        key, draw_key = jax.random.split(key)
        drawn = jax.random.randint(draw_key, (num_rollouts,), 0, len(self.start_places))
        before = jnp.arange(self.num_past)
        places = self.start_places[drawn]
        states = self.start_states[places[:, :1] + before[None]]
        pasts = Past(states, self.start_actions[places[:, 1:] + before[None, :-1]])
        return Rollouts(self.start_memories(pasts), states[:, -1], jnp.zeros(num_rollouts, int), key)

    def start_memories(self, pasts: Past) -> PyTree:
        """The memories after these pasts, which the members share evenly."""
        return self._by_member(lambda model, past: model.start(past), pasts)

    def in_range(self, shares: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
        """Actions from shares of their range: -1 is its low end, 1 its high end."""
        return self.action_low + (shares + 1) / 2 * (self.action_high - self.action_low)

    def step(
        self, rollouts: Rollouts, actions: Float[Array, "rollouts action"]
    ) -> tuple[Rollouts, StepResult]:
        """The rollouts after one step, new ones in place of those that ended, and what the step came to.

        A rollout that leaves is charged for as many steps as count with the usual discount, or as a rollout
        may have: ending early must not pay, whatever its age, which a policy does not see.
        """
        memories, kept, rewards, left = self.try_actions(rollouts.memories, rollouts.states, actions)
        steps = rollouts.steps + 1
        rewards += jnp.where(left, max(USUAL_STEPS, self.rollout_steps) * self.reward_outside(rewards), 0)
        result = StepResult(kept, rewards, left, steps >= self.rollout_steps)
        fresh = self.start(len(kept), rollouts.key)
        ended = left | result.truncated

        def renew(new: Array, old: Array) -> Array:
            return jnp.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        states, memories = jax.tree.map(renew, (fresh.states, fresh.memories), (kept, memories))
        return Rollouts(memories, states, jnp.where(ended, 0, steps), fresh.key), result

    def try_actions(
        self,
        memories: PyTree,
        states: Float[Array, "rollouts state"],
        actions: Float[Array, "rollouts action"],
    ) -> Attempt:
        """What follows: memories, states kept in the range, rewards, and whether the model had left the
        range."""
        reward = self.reward.whole

        def settle(state: State, action: Action, reached: State) -> tuple[State, Scalar, Bool[Array, ""]]:
            # A comparison with NaN is false: what is not a number has left too.
            left = ~((reached >= self.low) & (reached <= self.high)).all()
            kept = jnp.clip(jnp.where(jnp.isnan(reached), state, reached), self.low, self.high)
            return kept, reward(state, action, kept), left

        def move(model: AbstractDynamics, given: tuple[PyTree, Action]) -> tuple[PyTree, State]:
            memory, predicted = advance(model, *given)
            return memory, predicted.mean

        memories, reached = self._by_member(move, (memories, actions))
        tried = Attempt(memories, *jax.vmap(settle)(states, actions, reached))
        if self.penalty is None:
            return tried
        return tried._replace(rewards=tried.rewards - self.penalty * self.doubt(states, actions))

    def reward_outside(self, rewards: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """What each step earns after the one that left, given what that one earned at the edge of the
        range."""
        return jnp.minimum(rewards, self.worst_reward)

    def _by_member(self, function: Callable[[AbstractDynamics, Any], PyTree], given: PyTree) -> PyTree:
        """The function of each rollout's member and of what is given for it."""

        count = len(jax.tree.leaves(given)[0])
        each = -(-count // self.num_members)

        def share(values: Array) -> Array:
            missing = each * self.num_members - count  # the last member may have fewer
            more = jnp.broadcast_to(values[-1:], (missing, *values.shape[1:]))
            values = jnp.concatenate([values, more]) if missing else values
            return values.reshape(self.num_members, each, *values.shape[1:])

        def of_member(arrays: PyTree, own: PyTree) -> PyTree:
            return jax.vmap(partial(function, eqx.combine(arrays, self.members.rest)))(own)

        found = jax.vmap(of_member)(self.members.arrays, jax.tree.map(share, given))
        return jax.tree.map(
            lambda values: values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])[:count], found
        )

    def doubt(
        self, states: Float[Array, "rollouts state"], actions: Float[Array, "rollouts action"]
    ) -> Float[Array, " rollouts"]:
        """Deviation of where the members arrive about their mean, in units of the width of the range."""

        def of_member(arrays: PyTree) -> Float[Array, "rollouts state"]:
            model = _certain(eqx.combine(arrays, self.members.rest))
            nothing = jnp.zeros((self.num_past - 1, self.action_size))

            def arrive(state: State, action: Action) -> State:
                return advance(model, model.start(Past(state[None], nothing)), action)[1].mean

            return jax.vmap(arrive)(states, actions)

        arrived = jax.vmap(of_member)(self.members.arrays)
        return jnp.sqrt((arrived.var(axis=0) / (self.high - self.low)[None] ** 2).mean(axis=-1))


def imagine(
    models: AbstractDynamics | Sequence[AbstractDynamics],
    reward: Reward,
    starts: Episodes,
    *,
    margin: float = 0.5,
    rollout_steps: int = ROLLOUT_STEPS,
    action_range: ActionRange | None = None,
    penalty: float = 0.0,
) -> Imagination:
    """Rollouts of the model (or models) from the states of `starts`; each keeps one member of an ensemble.

    States are kept within the range of those of `starts`, widened on both sides by `margin` times its width.
    Actions are within `action_range`, the lowest and the highest of each; without it within -1 and 1, or
    within the range of the data if some there are beyond. With a `penalty`, the reward of a step is less by
    that times how much the members disagree on where it leads.
    """
    members = _separate([models] if isinstance(models, AbstractDynamics) else list(models))
    _check_members(members, starts)
    _check_penalty(penalty, members)
    if rollout_steps < 1 or not 0 <= margin < float("inf"):
        raise InputError(
            f"Rollouts of {rollout_steps} steps, margin {margin}: give 1 step or more, and a margin of 0 or "
            "more."
        )
    low, high = starts.states.min(axis=0), starts.states.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    worst_reward = min(0.0, _check_reward(reward, starts))
    action_low, action_high = (
        _usual_action_range(starts) if action_range is None else _action_range(starts, action_range)
    )
    return Imagination(
        members=SplitArrays.of(stacked(members)),
        reward=SplitArrays.of(reward),
        start_states=jnp.asarray(starts.states, float),
        start_actions=jnp.asarray(starts.actions, float),
        start_places=jnp.asarray(window_starts(starts, 0, members[0].num_past)),
        low=jnp.asarray(low - margin * width, float),
        high=jnp.asarray(high + margin * width, float),
        action_low=jnp.asarray(action_low, float),
        action_high=jnp.asarray(action_high, float),
        worst_reward=jnp.asarray(worst_reward, float),
        num_members=len(members),
        num_past=members[0].num_past,
        rollout_steps=rollout_steps,
        penalty=jnp.asarray(penalty, float) if penalty else None,
    )


def imagination_digest(imagination: Imagination, *settings: int) -> str:
    """A digest of models, reward, starts, range and settings: what a training in them depends on."""
    digest = hashlib.sha256(repr((settings, imagination.rollout_steps, imagination.num_members)).encode())
    state, action = imagination.low, imagination.action_low
    # An edited reward is another one.
    program = jax.jit(lambda reward, *moment: reward.whole(*moment)).lower(
        imagination.reward, state, action, state
    )
    digest.update(program.as_text().encode())  # its constants are part of the text
    for leaf in jax.tree.leaves(imagination):
        digest.update(np.ascontiguousarray(leaf).data)
    return digest.hexdigest()


def _action_range(
    starts: Episodes, asked: ActionRange
) -> tuple[Float[np.ndarray, " action"], Float[np.ndarray, " action"]]:
    try:
        low, high = (np.broadcast_to(np.asarray(end, np.float64), starts.action_size) for end in asked)
    except ValueError as error:
        raise InputError(
            f"The range of actions is {asked}: give the lowest and the highest, one number for all or one "
            f"for each of {', '.join(starts.action_names)}."
        ) from error
    if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise InputError(
            f"The range of actions is {asked}: the lowest must be below the highest, and both finite."
        )
    return low, high


def _usual_action_range(
    starts: Episodes,
) -> tuple[Float[np.ndarray, " action"], Float[np.ndarray, " action"]]:
    low, high = starts.actions.min(axis=0), starts.actions.max(axis=0)
    within = (low >= -1) & (high <= 1)
    if (stuck := ~within & (low == high)).any():
        name = starts.action_names[int(np.flatnonzero(stuck)[0])]
        raise InputError(
            f"The action {name} is the same in all of the data: there is nothing to choose; leave it out."
        )
    return np.where(within, -1, low), np.where(within, 1, high)


def _separate(models: list[AbstractDynamics]) -> list[AbstractDynamics]:
    """The members of all of these, if they are alike enough to go side by side; else the models as they
    are."""
    members = [own for model in models for own in model.separate()]
    return members if are_alike(members) else models


def _certain(member: AbstractDynamics) -> AbstractDynamics:
    """A particle's model without what is drawn for its steps."""
    return member.inner if isinstance(member, Particle) else member


def _check_penalty(penalty: float, members: Sequence[AbstractDynamics]) -> None:
    if not 0 <= penalty < float("inf"):
        raise InputError(f"The penalty on doubt is {penalty}: give a number of 0 or more.")
    if penalty and len({id(_certain(member)) for member in members}) < 2:
        raise InputError(
            "A penalty on doubt takes members that can disagree: give an ensemble of networks of the same "
            "shape, or leave the penalty out."
        )
    if penalty and members[0].num_past > 1:
        raise InputError("A penalty on doubt takes models that start from one state: leave it out.")


def _check_members(members: Sequence[AbstractDynamics], starts: Episodes) -> None:
    if not members:
        raise InputError("There is no model to roll out: give one or more.")
    for model in members:
        check_names(model, starts.state_names, starts.action_names, whose="the start states' data")
    shapes = [[jnp.shape(leaf) for leaf in jax.tree.leaves(eqx.filter(m, eqx.is_array))] for m in members]
    alike = all(jax.tree.structure(model) == jax.tree.structure(members[0]) for model in members)
    if not alike or any(shape != shapes[0] for shape in shapes):
        raise InputError(
            "The models of an ensemble must have networks of the same shape, and the same states and actions."
        )
    if int(starts.lengths.max()) < members[0].num_past - 1:
        raise InputError(
            f"The model starts from {members[0].num_past} states, which no episode of the data has: give "
            "longer ones."
        )


def _check_reward(reward: Reward, starts: Episodes) -> float:
    """Try the reward on the transitions of the data: it must give one finite number each. The lowest is
    returned."""
    before = np.concatenate([starts[number].states[:-1] for number in range(len(starts))])
    after = np.concatenate([starts[number].states[1:] for number in range(len(starts))])
    given = [jnp.asarray(values, float) for values in (before, starts.actions, after)]
    name = getattr(reward, "__name__", "reward")
    try:
        shape = jax.eval_shape(reward, *(values[0] for values in given))
    except Exception as error:
        raise InputError(
            f"The reward {name} cannot be used in compiled code on (state, action, next state): "
            f"{reason_of(error)}."
        ) from error
    if getattr(shape, "shape", None) != ():
        found = getattr(shape, "shape", type(shape).__name__)
        raise InputError(
            f"The reward {name} must return one number for a (state, action, next state), but returned "
            f"{found}."
        )
    rewards: Any = np.asarray(jax.jit(jax.vmap(reward))(*given))
    if not np.isfinite(rewards).all():
        row = int(np.flatnonzero(~np.isfinite(rewards))[0])
        raise InputError(
            f"The reward {name} is {rewards[row]} at step {row + 1} of the data: it must be a finite number."
        )
    return float(rewards.min())
