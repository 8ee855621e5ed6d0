"""`GaussNewton`: a small model by the method of Levenberg and Marquardt, over all rollouts at once."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy import ndarray
from threadpoolctl import threadpool_limits

from multistep.data import Episodes, Window, Windows, gather_all, join, window_starts
from multistep.dynamics import (
    AbstractArchitecture,
    AbstractDynamics,
    Normaliser,
    ShallowConfig,
    average,
    in_units,
)
from multistep.errors import InputError
from multistep.losses import Uniform
from multistep.runs.progress import progress_bar
from multistep.training.base import AbstractRecipe, Fit, Score
from multistep.training.history import Epoch, Outcome
from multistep.training.normal_equations import (
    DAMPINGS,
    Descent,
    cost_of,
    flat_weights,
    improve,
    squared_residuals,
    with_weights,
)
from multistep.training.once import check_past
from multistep.training.settings import Settings
from multistep.types import Key

FIRST_DAMPING = 1e-2
LENIENCE = 4.0
"""A start that ends with so many times the least cost has not found what the others have."""
PATIENCE = 3
"""Rounds without a better score after which it stops."""


@dataclass(frozen=True)
class GaussNewton(AbstractRecipe):
    """Damped Gauss-Newton steps on the mean squared error of rollouts over all training episodes, in double
    precision; the result is the mean of several starts.

    Where a model has some hundred weights, each iteration solves for all of them at once: what takes descent
    along gradients ten thousand steps takes this some dozens. All starts and ridges go side by side. With
    `folds`, every episode is held out once, the ridge and the length of the training are chosen by that, and
    the model is the one that was trained on all episodes alike.
    """

    network: AbstractArchitecture = field(default_factory=ShallowConfig)
    """What is learned."""
    horizon: int = 300
    """Steps of each rollout, fewer where episodes are shorter; one starts where the last has ended."""
    starts: int = 3
    """Fits from other random weights, of which the model is the mean."""
    ridges: tuple[float, ...] = (1e-6,)
    """Costs of the squared distance of the weights from where they started; the score finds the best."""
    folds: int = 0
    """Parts that the episodes, those of the validation too, are dealt into for cross-fitting; 0: the
    validation episodes are left to judge."""
    rounds: int = 10
    """How often the score is looked at, after the first look at the linear model."""
    iterations: int = 4
    """Iterations between two looks."""
    seconds: float | None = None
    """After which no further round begins; none: all of them, or until the score no longer rises."""

    def __post_init__(self) -> None:
        for name in ("horizon", "starts", "rounds", "iterations"):
            if getattr(self, name) < 1:
                raise InputError(f"The {name} of GaussNewton is {getattr(self, name)}: it must be 1 or more.")
        if self.folds < 0 or self.folds == 1:
            raise InputError(f"The folds of GaussNewton are {self.folds}: give 2 or more, or 0 for none.")
        if not self.ridges or min(self.ridges) < 0:
            raise InputError("GaussNewton needs one ridge or more, and none below 0.")

    @property
    def settings(self) -> Settings:
        return Settings(horizon=self.horizon, weights=Uniform(), epochs=self.rounds, least_steps=1)

    def vary(self, **changes: Any) -> "GaussNewton":
        known = {name: value for name, value in changes.items() if name in ("horizon", "network")}
        return replace(self, **known)

    def most_steps(self, train: Episodes) -> int:
        fits = self.starts * len(self.ridges) * (1 + self.folds)
        return fits * self.rounds * self.iterations * (1 + len(DAMPINGS)) * train.num_steps

    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        """The mean of the starts with the best ridge. There is no checkpoint: the same call gives the same
        bits."""
        # Many small decompositions: threads that wait for each other take fifty times as long.
        with threadpool_limits(limits=1, user_api="blas"):
            return self._fit(train, valid, key, score)

    def _fit(self, train: Episodes, valid: Episodes, key: Key, score: Score) -> Fit:
        pool = join(train, valid) if self.folds else train
        race = _race(self, pool, key)
        judges = [valid] if not self.folds else [pool.take(np.flatnonzero(held)) for held in race.held[1:]]
        history: tuple[Epoch, ...] = ()
        begun = time.perf_counter()
        best, best_value, since = race.models().model(0), -math.inf, 0
        outcome, label = Outcome.FINISHED, f"{pool.num_steps} steps at once"
        try:
            with progress_bar(label, self.rounds, 0) as show:
                for number in range(self.rounds + 1):
                    started = time.perf_counter()
                    race = race.go_on(self.iterations) if number else race
                    models = race.models()
                    values = [models.judge(score, judges, ridge) for ridge in range(len(self.ridges))]
                    ridge = int(np.argmax(values))
                    since += 1
                    if values[ridge] > best_value or not history:
                        best, best_value, since = models.model(ridge), values[ridge], 0
                    errors = race.errors(ridge)
                    weights = (1 / len(errors),) * len(errors)
                    seconds = time.perf_counter() - started
                    history = (*history, Epoch(number, errors, weights, values[ridge], seconds))
                    show(values[ridge])
                    if since >= PATIENCE:
                        outcome = Outcome.STOPPED_EARLY
                        break
                    if self.seconds is not None and time.perf_counter() - begun > self.seconds:
                        break
        except KeyboardInterrupt:
            outcome = Outcome.INTERRUPTED
        if history and not history[-1].is_sound:
            outcome = Outcome.DIVERGED
        return Fit(best, history, outcome)


@dataclass(frozen=True)
class _Race:
    """All fits side by side: for each ridge the starts, each on all episodes and without each fold."""

    members: AbstractDynamics
    """As they started, stacked."""
    descents: Descent
    batch: Window
    shares: Float[ndarray, "members windows horizon"]
    ridges: Float[ndarray, " members"]
    held: Bool[ndarray, "folds_and_one episodes"]
    """What is left out of each fit, nothing of the first."""
    num_starts: int
    pool: Episodes
    normaliser: Normaliser

    def go_on(self, iterations: int) -> "_Race":
        with jax.enable_x64(True):
            given = self.members, self.batch, jnp.asarray(self.shares), jnp.asarray(self.ridges)
            return replace(self, descents=_descend(*given, self.descents, iterations))

    def numbers(self, ridge: int, fold: int) -> range:
        """Places of the starts with this ridge that do without this fold; 0 is none."""
        first = (ridge * len(self.held) + fold) * self.num_starts
        return range(first, first + self.num_starts)

    def models(self) -> "_Finished":
        """All fits as they are now, in the usual precision."""
        with jax.enable_x64(True):
            learned = _learned(self.members, self.descents.weights)
        return _Finished(self, _in_precision(learned, jnp.zeros(()).dtype))

    def errors(self, ridge: int) -> tuple[float, ...]:
        """Mean squared error of the first start on all episodes, at each step ahead."""
        with jax.enable_x64(True):
            place = self.numbers(ridge, 0)[0]
            own = jax.tree.map(lambda leaf: leaf[place], self.members)
            squares = _squares(own, self.descents.weights[place], self.batch)
        counted = self.shares[place] / self.shares[place].sum(axis=0) / self.pool.state_size
        return tuple((np.asarray(squares) * counted).sum(axis=0).tolist())


@dataclass(frozen=True)
class _Finished:
    """The models of a race at one moment."""

    race: _Race
    learned: AbstractDynamics
    """Stacked."""

    def model(self, ridge: int, fold: int = 0) -> Any:
        """The mean of the starts; one that has not found what the best has gives its place to that."""
        places = np.array(self.race.numbers(ridge, fold))
        costs = np.asarray(self.race.descents.cost)[places]
        places = np.where(costs <= LENIENCE * costs.min(), places, places[np.argmin(costs)])
        learned = [
            jax.tree.map(lambda leaf, place=place: jnp.asarray(leaf[place]), self.learned) for place in places
        ]
        one = learned[0] if len(learned) == 1 else average(learned)
        units = jax.tree.map(lambda values: jnp.asarray(values, float), self.race.normaliser)
        pool = self.race.pool
        return in_units(one, units, pool.state_names, pool.action_names, pool.time_step, pool.units)

    def judge(self, score: Score, judges: Sequence[Episodes], ridge: int) -> float:
        """Mean of the scores on what each fold left out, or on the validation episodes."""
        folds = range(1, len(self.race.held)) if len(self.race.held) > 1 else (0,)
        scores = [score(self.model(ridge, fold), each) for fold, each in zip(folds, judges, strict=True)]
        return float(np.nan_to_num(np.mean(scores), nan=-np.inf))


def _race(recipe: GaussNewton, pool: Episodes, key: Key) -> _Race:
    network = recipe.network.suited_to(pool)
    normaliser = network.normaliser(pool)
    size = pool.state_size, pool.action_size
    past = network.make(*size, key=key).num_past
    check_past(pool, past)
    with jax.enable_x64(True):
        states, actions = (jnp.asarray(part, float) for part in normaliser.normalise(pool))
        horizon = min(recipe.horizon, int(pool.lengths.max()) - past + 1)
        windows = Windows(states, actions, horizon, past)
        starts, lengths = laid_end_to_end(pool, horizon, past)
        batch = gather_all(windows, jnp.asarray(starts))
    episode = np.searchsorted(pool.state_offsets, starts[:, 0], side="right") - 1
    held = np.zeros((1 + recipe.folds, len(pool)), bool)
    for fold in range(recipe.folds):
        held[1 + fold, fold :: recipe.folds] = True
    if not (~held).any(axis=1).all() or (recipe.folds and not held[1:].any(axis=1).all()):
        raise InputError(
            f"Cross-fitting with {recipe.folds} folds needs as many episodes, but there are {len(pool)}: cut "
            "them into pieces, or take fewer folds."
        )
    begun: list[AbstractDynamics] = []
    one_step = Windows(states, actions, 1, past)
    for left_out in held:
        own = pool.take(np.flatnonzero(~left_out))
        with jax.enable_x64(True):
            own_states, own_actions = (jnp.asarray(part, float) for part in normaliser.normalise(own))
            one_step = Windows(own_states, own_actions, 1, past)
            for number in range(recipe.starts):
                fresh = network.make(*size, key=jax.random.fold_in(key, number))
                found = fresh.begin(one_step, window_starts(own, 1, past), normaliser)
                begun.append(_in_precision(found, np.float64))
    begun = begun * len(recipe.ridges)
    num_each = len(held) * recipe.starts
    ridges = np.repeat(np.array(recipe.ridges), num_each)
    is_there = np.arange(horizon) < lengths[:, None]
    shares = np.repeat(~held[:, episode, None] * is_there.astype(float), recipe.starts, axis=0)
    shares = np.tile(shares, (len(recipe.ridges), 1, 1))
    with jax.enable_x64(True):
        members = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *begun)
        descents = _first(members, batch, jnp.asarray(shares), jnp.asarray(ridges))
    return _Race(members, descents, batch, shares, ridges, held, recipe.starts, pool, normaliser)


def laid_end_to_end(
    episodes: Episodes, horizon: int, num_past: int
) -> tuple[Int[ndarray, "windows 2"], Int[ndarray, " windows"]]:
    """Starts of windows that cover each episode once, and how many of their steps are in it: each begins
    where the last has ended, and the last one may be shorter."""
    starts, lengths = [], []
    offsets = zip(episodes.state_offsets, episodes.action_offsets, episodes.lengths, strict=True)
    for state, action, steps in offsets:
        first = np.arange(0, steps - num_past + 1, horizon)
        starts.append(np.stack([state + first, action + first], axis=1))
        lengths.append(np.minimum(horizon, steps - num_past + 1 - first))
    return np.concatenate(starts).astype(np.int32), np.concatenate(lengths)


@eqx.filter_jit
def _first(members: Any, batch: Window, shares: Array, ridges: Array) -> Descent:
    def of_member(dynamics: AbstractDynamics, share: Array, ridge: Array) -> Descent:
        weights = flat_weights(dynamics)
        return Descent(
            weights, cost_of(dynamics, weights, batch, share, ridge), jnp.full((), FIRST_DAMPING, float)
        )

    return jax.vmap(of_member)(members, shares, ridges)


@eqx.filter_jit
def _descend(
    members: Any, batch: Window, shares: Array, ridges: Array, descents: Descent, iterations: int
) -> Descent:
    def of_member(dynamics: AbstractDynamics, share: Array, ridge: Array, descent: Descent) -> Descent:
        def again(descent: Descent, _: None) -> tuple[Descent, None]:
            return improve(dynamics, batch, share, ridge, descent), None

        return jax.lax.scan(again, descent, None, iterations)[0]

    return jax.vmap(of_member)(members, shares, ridges, descents)


@eqx.filter_jit
def _learned(members: Any, weights: Array) -> Any:
    return jax.vmap(lambda dynamics, own: with_weights(dynamics, own).freeze())(members, weights)


@eqx.filter_jit
def _squares(dynamics: AbstractDynamics, weights: Array, batch: Window) -> Array:
    return squared_residuals(dynamics, weights, batch)


def _in_precision(tree: Any, precision: Any) -> Any:
    return jax.tree.map(
        lambda leaf: np.asarray(leaf).astype(precision) if eqx.is_inexact_array(leaf) else leaf, tree
    )
