"""`Race`: many small fits side by side, from several starts, with several ridges, each with and without each
fold."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy import ndarray

from multistep.data import Episodes, Window, Windows, cut, gather_all, window_starts
from multistep.dynamics import (
    AbstractArchitecture,
    AbstractDynamics,
    Normaliser,
    average,
    forecast,
    in_units,
)
from multistep.errors import InputError
from multistep.training.normal_equations import (
    Descent,
    cost_of,
    flat_weights,
    improve,
    squared_residuals,
    with_weights,
)
from multistep.training.once import check_past
from multistep.training.precision import in_precision
from multistep.types import Key

FIRST_DAMPING = 1e-2
LENIENCE = 4.0
"""A start that ends with so many times the least cost has not found what the others have."""
STRETCHES = 2
"""Of time that each fold holds out, where there are fewer episodes than folds."""
LEAST_STRETCH = 2
"""Pasts that fit into a stretch."""
WILD, SHORTEST = 1e20, 20
"""A mean squared error, in normalised units, at which rollouts have run away; and steps that they have at
least."""
MOST_NUMBERS, COPIES = 2**27, 3
"""Numbers in memory for slopes and normal equations, a gigabyte; and how often an iteration has each."""


class Rollouts(NamedTuple):
    """Windows that cover all episodes, and which of their steps are there, and are held out by which fold."""

    batch: Window
    is_there: Bool[ndarray, "windows horizon"]
    held: Bool[ndarray, "folds_and_one windows horizon"]
    """What is left out of each fit, nothing of the first."""


@dataclass(frozen=True)
class Race:
    """The fits before they begin, and what they are fitted to."""

    members: AbstractDynamics
    """As they begin, stacked: for each ridge, on everything and without each fold, every start."""
    ridges: tuple[float, ...]
    num_starts: int
    num_folds: int
    least_rollouts: int
    pool: Episodes
    pieces: Episodes
    """The same, in what is held out as a whole."""
    normaliser: Normaliser
    num_past: int

    def rollouts(self, horizon: int) -> Rollouts:
        """Of so many steps, fewer where episodes are shorter."""
        horizon = max(1, min(horizon, int(self.pool.lengths.max()) - self.num_past + 1))
        spacing = max(1, min(horizon, self.pool.num_steps // self.least_rollouts))
        starts, lengths = laid_over(self.pool, horizon, self.num_past, spacing)
        is_there = np.arange(horizon) < lengths[:, None]
        # The action of each step of each window says what piece the step is in.
        steps = starts[:, 1:] + self.num_past - 1 + np.arange(horizon)
        piece = np.searchsorted(self.pieces.action_offsets, steps, side="right") - 1
        folds = np.arange(1 + self.num_folds)[:, None, None]
        held = is_there & (folds > 0) & (piece % max(self.num_folds, 1) == folds - 1)
        with jax.enable_x64(True):
            states, actions = (jnp.asarray(part, float) for part in self.normaliser.normalise(self.pool))
            windows = Windows(states, actions, horizon, self.num_past)
            return Rollouts(gather_all(windows, jnp.asarray(starts)), is_there, held)

    def lap(self, weights: Array, horizon: int) -> "Lap":
        """Everyone at these weights, about to go on through rollouts of so many steps, or of fewer: those
        that run away have no slope to go along."""
        while True:
            rollouts = self.rollouts(horizon)
            shares = np.repeat((rollouts.is_there & ~rollouts.held).astype(float), self.num_starts, axis=0)
            shares = np.tile(shares, (len(self.ridges), 1, 1))
            ridges = np.repeat(np.array(self.ridges), len(shares) // len(self.ridges))
            with jax.enable_x64(True):
                given = rollouts.batch, jnp.asarray(shares), jnp.asarray(ridges)
                descents = _first(self.members, weights, *given)
            if horizon <= SHORTEST or bool((np.asarray(descents.cost) < WILD).all()):
                return Lap(self, rollouts, *given[1:], descents)
            horizon = max(SHORTEST, horizon // 2)

    def begin(self) -> Array:
        """The weights that everyone has before the first iteration."""
        with jax.enable_x64(True):
            return _weights(self.members)

    def places(self, ridge: int, fold: int) -> range:
        """Places of the starts with this ridge that do without this fold; 0 is none."""
        first = (ridge * (1 + self.num_folds) + fold) * self.num_starts
        return range(first, first + self.num_starts)


@dataclass(frozen=True)
class Lap:
    """Where everyone is, on the way through rollouts of one length."""

    race: Race
    rollouts: Rollouts
    shares: Float[Array, "members windows horizon"]
    ridges: Float[Array, " members"]
    descents: Descent

    @property
    def horizon(self) -> int:
        """Steps of the rollouts."""
        return self.rollouts.is_there.shape[1]

    def go_on(self, iterations: int) -> "Lap":
        """Everyone so many iterations later."""
        with jax.enable_x64(True):
            given = self.race.members, self.rollouts.batch, self.shares, self.ridges
            descents = _descend(*given, self.descents, iterations, self._at_once())
            return replace(self, descents=descents)

    def _at_once(self) -> int:
        """How many members' slopes and matrices fit into memory side by side."""
        windows, weights = len(self.rollouts.is_there), self.descents.weights.shape[1]
        past = jax.tree.map(lambda each: each[0], self.rollouts.batch.past)
        one = jax.tree.map(lambda leaf: leaf[0], self.race.members)
        carried = sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(one.start, past)))
        numbers = COPIES * weights * (windows * (carried + self.race.pool.state_size) + weights)
        return max(1, MOST_NUMBERS // numbers)

    def mean(self, ridge: int, fold: int = 0) -> AbstractDynamics:
        """The mean of the starts; one that has not found what the best has gives its place to that."""
        places = np.array(self.race.places(ridge, fold))
        costs = np.asarray(self.descents.cost)[places]
        places = np.where(costs <= LENIENCE * np.nanmin(costs), places, places[np.nanargmin(costs)])
        with jax.enable_x64(True):
            learned = [_learned(self.race.members, self.descents.weights, int(place)) for place in places]
        return learned[0] if len(learned) == 1 else average(learned)

    def model(self, ridge: int) -> Any:
        """The mean of those that were fitted to everything, in the user's units and the usual precision."""
        units = jax.tree.map(lambda values: jnp.asarray(values, float), self.race.normaliser)
        pool, usual = self.race.pool, jnp.zeros(()).dtype
        one = jax.tree.map(jnp.asarray, in_precision(self.mean(ridge), usual))
        return in_units(one, units, pool.state_names, pool.action_names, pool.time_step, pool.units)

    def errors(self, ridge: int) -> tuple[float, ...]:
        """Mean squared error of the first start on everything, at each step ahead."""
        place = self.race.places(ridge, 0)[0]
        with jax.enable_x64(True):
            squares = _squares(self.race.members, self.descents.weights, place, self.rollouts.batch)
        there = self.rollouts.is_there
        counted = np.where(there, np.asarray(squares), 0.0).sum(axis=0)
        return tuple((counted / there.sum(axis=0) / self.race.pool.state_size).tolist())

    def held_out_r2(self, ridge: int, rollouts: Rollouts) -> float:
        """Of each output's variance the share that is explained by those who have not seen it; the mean."""
        targets = np.asarray(rollouts.batch.states)
        squares = np.zeros(targets.shape[2])
        for fold, held in enumerate(rollouts.held[1:], start=1):
            with jax.enable_x64(True):
                predicted = np.asarray(_predicted(self.mean(ridge, fold), rollouts.batch))
            squares += ((predicted - targets)[held] ** 2).sum(axis=0)
        targets = targets[rollouts.held.any(axis=0)]
        spread = ((targets - targets.mean(axis=0)) ** 2).sum(axis=0)
        return float(np.mean(1 - squares[spread > 0] / spread[spread > 0])) if spread.any() else np.nan


def start_race(
    network: AbstractArchitecture,
    pool: Episodes,
    *,
    starts: int,
    ridges: tuple[float, ...],
    folds: int,
    least_rollouts: int,
    key: Key,
) -> Race:
    """Everyone at the start: at the linear model of what it may see, with random units."""
    network = network.suited_to(pool)
    normaliser = network.normaliser(pool)
    past = network.make(pool.state_size, pool.action_size, key=key).num_past
    check_past(pool, past)
    if (pool.lengths > past).any():  # shorter ones have nothing to learn from, or to be held out
        pool = pool.take(np.flatnonzero(pool.lengths > past))
    pieces = held_in_turn(pool, folds, past)
    in_fold = np.arange(len(pieces)) % max(folds, 1)
    begun: list[AbstractDynamics] = []
    for fold in range(1 + folds):
        own = pieces.take(np.flatnonzero(in_fold != fold - 1)) if fold else pool
        begun += _beginnings(network, own, starts, past, normaliser, key)
    with jax.enable_x64(True):
        stacked = jax.tree.map(
            lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *begun * len(ridges)
        )
    return Race(stacked, ridges, starts, folds, least_rollouts, pool, pieces, normaliser, past)


def held_in_turn(pool: Episodes, folds: int, num_past: int) -> Episodes:
    """What is held out as a whole: episodes, or stretches of them where there are fewer than folds."""
    if len(pool) >= folds:
        return pool
    least = LEAST_STRETCH * num_past
    pieces = cut(pool, max(-(-pool.num_steps // (STRETCHES * folds)), least))
    if len(pieces) < folds:
        raise InputError(
            f"Cross-fitting with {folds} folds needs as many stretches of {least} steps, but the episodes "
            f"have {pool.num_steps} steps in all: take fewer folds, or fewer lags."
        )
    return pieces


def laid_over(
    episodes: Episodes, horizon: int, num_past: int, spacing: int
) -> tuple[Int[ndarray, "windows 2"], Int[ndarray, " windows"]]:
    """Starts of windows that cover each episode, so many steps apart, and how many of their steps are in it:
    the last ones may be shorter."""
    starts, lengths = [], []
    offsets = zip(episodes.state_offsets, episodes.action_offsets, episodes.lengths, strict=True)
    for state, action, steps in offsets:
        first = np.arange(0, steps - num_past + 1, spacing)
        starts.append(np.stack([state + first, action + first], axis=1))
        lengths.append(np.minimum(horizon, steps - num_past + 1 - first))
    return np.concatenate(starts).astype(np.int32), np.concatenate(lengths)


def _beginnings(
    network: AbstractArchitecture,
    episodes: Episodes,
    starts: int,
    num_past: int,
    normaliser: Normaliser,
    key: Key,
) -> list[AbstractDynamics]:
    """The dynamics of every start before the first iteration, in double precision."""
    with jax.enable_x64(True):
        states, actions = (jnp.asarray(part, float) for part in normaliser.normalise(episodes))
        given = Windows(states, actions, 1, num_past), window_starts(episodes, 1, num_past), normaliser
        size = episodes.state_size, episodes.action_size
        fresh = [network.make(*size, key=jax.random.fold_in(key, number)) for number in range(starts)]
        return [in_precision(each.begin(*given), np.float64) for each in fresh]


@eqx.filter_jit
def _weights(members: Any) -> Float[Array, "members weights"]:
    return jax.vmap(flat_weights)(members)


@eqx.filter_jit
def _first(members: Any, weights: Array, batch: Window, shares: Array, ridges: Array) -> Descent:
    def of_member(dynamics: AbstractDynamics, weights: Array, share: Array, ridge: Array) -> Descent:
        cost = cost_of(dynamics, weights, batch, share, ridge)
        return Descent(weights, cost, jnp.full((), FIRST_DAMPING, float))

    return jax.vmap(of_member)(members, weights, shares, ridges)


@eqx.filter_jit
def _descend(
    members: Any, batch: Window, shares: Array, ridges: Array, descents: Descent, iterations: int, num: int
) -> Descent:
    def of_member(given: tuple[Any, Array, Array, Descent]) -> Descent:
        dynamics, share, ridge, descent = given

        def again(descent: Descent, _: None) -> tuple[Descent, None]:
            return improve(dynamics, batch, share, ridge, descent), None

        return jax.lax.scan(again, descent, None, iterations)[0]

    given = members, shares, ridges, descents
    return jax.vmap(of_member)(given) if num >= len(ridges) else jax.lax.map(of_member, given, batch_size=num)


def _learned(members: Any, weights: Array, place: int) -> AbstractDynamics:
    own = jax.tree.map(lambda leaf: leaf[place], members)
    return with_weights(own, weights[place]).freeze()


@eqx.filter_jit
def _predicted(dynamics: AbstractDynamics, batch: Window) -> Float[Array, "windows horizon output"]:
    return jax.vmap(lambda window: forecast(dynamics, window.past, window.actions).mean)(batch)


@eqx.filter_jit
def _squares(members: Any, weights: Array, place: int, batch: Window) -> Float[Array, "windows horizon"]:
    own = jax.tree.map(lambda leaf: leaf[place], members)
    return squared_residuals(own, weights[place], batch)
