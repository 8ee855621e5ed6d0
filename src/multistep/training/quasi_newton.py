"""`QuasiNewton`: a small network on a small dataset, by second-order descent over all of it at once."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from numpy import ndarray

from multistep.data import Episodes, Window, Windows, usual_length, window_starts
from multistep.dynamics import AbstractArchitecture, CorrectedConfig, in_units
from multistep.errors import InputError
from multistep.losses import Uniform, forecast_batch, squared_errors
from multistep.runs.progress import progress_bar
from multistep.runs.provenance import plain
from multistep.training.base import AbstractRecipe, Fit, Score
from multistep.training.history import Epoch, Outcome, best_of, rankable
from multistep.training.once import check_past
from multistep.training.precision import in_precision
from multistep.training.settings import Settings
from multistep.types import Key, PerHorizon, Scalar

Weights = Float[ndarray, " weights"]

SMALL_NETWORK = CorrectedConfig(hidden_size=8, num_common_layers=1, activation="tanh")


@dataclass(frozen=True)
class QuasiNewton(AbstractRecipe):
    """L-BFGS on the mean squared error of rollouts that cover every training episode, in double precision.

    A pass over a few thousand steps costs so little that each direction can be taken from all of them. Of
    several starts, which differ in their random weights, the one that predicts the validation episodes best
    is kept.
    """

    network: AbstractArchitecture = field(default_factory=lambda: SMALL_NETWORK)
    """What is learned."""
    horizon: int = 100
    """Steps of each rollout, fewer where episodes are shorter; each starts half of that after the one
    before."""
    starts: int = 3
    """Fits from other random weights."""
    adam_steps: int = 500
    """Steps of Adam before, which find a valley to descend in."""
    rounds: int = 10
    """How often the validation score is looked at."""
    iterations: int = 100
    """Iterations of L-BFGS between two looks."""
    ridge: float = 1e-4
    """Cost of the squared distance of the weights from where they started."""
    seconds: float | None = None
    """After which it ends with the best so far, about: each start has its share; none: all iterations."""

    def __post_init__(self) -> None:
        for name in ("horizon", "starts", "adam_steps", "rounds", "iterations"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"The {name.replace('_', ' ')} of QuasiNewton is {getattr(self, name)}: it must be 1 or "
                    "more."
                )

    @property
    def settings(self) -> Settings:
        return Settings(horizon=self.horizon, weights=Uniform(), epochs=self.rounds, least_steps=1)

    def vary(self, **changes: Any) -> "QuasiNewton":
        known = {name: value for name, value in changes.items() if name in ("horizon", "network")}
        return replace(self, **known)

    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        """The best of the starts. It takes seconds: there is no checkpoint, the same call gives the same bits
        if it is not limited in time."""
        parts: dict[str, Fit] = {}
        begun = time.perf_counter()
        for number in range(self.starts):
            if number and self.seconds is not None and time.perf_counter() > begun + self.seconds:
                break
            own_key = jax.random.fold_in(key, number)
            share = math.inf if self.seconds is None else self.seconds * (number + 1) / self.starts
            parts[f"start_{number}"] = part = self._descend(train, valid, own_key, score, begun + share)
            if part.outcome is Outcome.INTERRUPTED:
                break
        best = max(parts, key=lambda name: parts[name].best_score)
        last = parts[f"start_{len(parts) - 1}"]
        outcome = last.outcome if last.outcome is Outcome.INTERRUPTED else parts[best].outcome
        return Fit(parts[best].model, parts[best].history, outcome)

    def _descend(self, train: Episodes, valid: Episodes, key: Key, score: Score, until: float) -> Fit:
        from scipy.optimize import minimize  # slow to import

        with jax.enable_x64(True):
            problem = _problem(self, train, key)
        started, history, best = time.perf_counter(), (), problem.start
        iteration = 0

        def look(weights: Weights) -> None:
            nonlocal history, best, started
            value = rankable(score(problem.model_of(weights), valid))
            errors = problem.errors(weights)
            seconds = time.perf_counter() - started
            epoch = Epoch(len(history), errors, (1 / len(errors),) * len(errors), value, seconds)
            history, started = (*history, epoch), time.perf_counter()
            best = weights.copy() if best_of(history) == epoch else best
            show(value)

        def after_iteration(weights: Weights) -> None:
            nonlocal iteration
            iteration += 1
            if time.perf_counter() > until:
                raise StopIteration  # SciPy's word for it: the result is what was found so far
            if iteration % self.iterations == 0:
                look(weights)

        outcome = Outcome.FINISHED
        try:
            with progress_bar(f"{train.num_steps} steps at once", self.rounds, 0) as show:
                weights = problem.descend_first(problem.start)
                limits = {"maxiter": self.rounds * self.iterations, "maxfun": 10**9, "ftol": 1e-12, "gtol": 0}
                options: Any = {"maxcor": 20, **limits}
                given: Any = {"jac": True, "callback": after_iteration, "options": options}
                found: Any = minimize(problem.cost, weights, method="L-BFGS-B", **given)
                look(found.x)  # what came after the last look
        except KeyboardInterrupt:
            outcome = Outcome.INTERRUPTED
        if history and not history[-1].is_sound:
            outcome = Outcome.DIVERGED
        return Fit(problem.model_of(best), history, outcome)


@plain.register
def _plain_quasi_newton(recipe: QuasiNewton) -> dict[str, Any]:
    """Field by field; the limit in time only where there is one, so that rows from before there was any stay
    valid."""
    shown = {f.name: plain(getattr(recipe, f.name)) for f in fields(recipe)}
    if recipe.seconds is None:
        del shown["seconds"]
    return shown


class _Problem(NamedTuple):
    """What is minimised, on flat arrays of weights in double precision."""

    start: Weights
    cost: Callable[[Weights], tuple[float, Weights]]
    descend_first: Callable[[Weights], Weights]
    errors: Callable[[Weights], tuple[float, ...]]
    model_of: Callable[[Weights], Any]


def _problem(recipe: QuasiNewton, train: Episodes, key: Key) -> _Problem:
    """The mean squared error of the rollouts, with the gradient through all of their steps."""
    architecture = recipe.network.suited_to(train)
    network = architecture.make(train.state_size, train.action_size, key=key)
    normaliser = architecture.normaliser(train)
    states, actions = (jnp.asarray(part, float) for part in normaliser.normalise(train))
    past = network.num_past
    check_past(train, past)
    network = network.begin(Windows(states, actions, 1, past), window_starts(train, 1, past), normaliser)
    network = in_precision(network, np.float64)
    horizon = max(1, min(recipe.horizon, usual_length(train) - past + 1))
    windows = Windows(states, actions, horizon, past)
    starts = jnp.asarray(_spaced_starts(train, horizon, past))
    trained, rest = eqx.partition(network, network.trained())
    flat, restore = ravel_pytree(trained)

    def errors_of(weights: Array) -> PerHorizon:
        batch: Window = jax.vmap(windows.gather)(starts)
        predicted = forecast_batch(eqx.combine(restore(weights), rest), batch, key)
        return squared_errors(predicted.mean, batch.states).mean(axis=0)

    @jax.jit
    @jax.value_and_grad
    def cost(weights: Array) -> Scalar:
        return errors_of(weights).mean() + recipe.ridge * ((weights - flat) ** 2).sum()

    adam = optax.adam(optax.cosine_decay_schedule(1e-2, recipe.adam_steps, 0.1))

    @jax.jit
    def descend_first(weights: Array) -> Array:
        def descend(carried: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], None]:
            weights, moments = carried
            change: Any
            change, moments = adam.update(cost(weights)[1], moments)
            return (weights + change, moments), None

        return jax.lax.scan(descend, (weights, adam.init(weights)), None, recipe.adam_steps)[0][0]

    units = jax.tree.map(lambda values: jnp.asarray(values, float), normaliser)
    compiled_errors = jax.jit(errors_of)

    def evaluate(weights: Weights) -> tuple[float, Weights]:
        with jax.enable_x64(True):
            value, slope = cost(jnp.asarray(weights))
            # L-BFGS turns back from what is infinite; it cannot from what is no number.
            return (float(value) if np.isfinite(value) else np.inf), np.nan_to_num(np.asarray(slope))

    def first(weights: Weights) -> Weights:
        with jax.enable_x64(True):
            found = np.asarray(descend_first(jnp.asarray(weights)))
        return found if evaluate(found)[0] < evaluate(weights)[0] else weights

    def all_errors(weights: Weights) -> tuple[float, ...]:
        with jax.enable_x64(True):
            return tuple(np.asarray(compiled_errors(jnp.asarray(weights))).tolist())

    def model_of(weights: Weights) -> Any:
        """In the precision that everything else has."""
        with jax.enable_x64(True):
            learned = eqx.combine(restore(jnp.asarray(weights)), rest).freeze()
            model = in_units(
                learned, units, train.state_names, train.action_names, train.time_step, train.units
            )
        return in_precision(model, jnp.zeros(()).dtype)

    return _Problem(np.asarray(flat), evaluate, first, all_errors, model_of)


def _spaced_starts(train: Episodes, horizon: int, num_past: int) -> ndarray:
    """Starts of windows, half a horizon apart, and the last one of each episode."""
    starts = window_starts(train, horizon, num_past)
    new = np.flatnonzero(np.diff(starts[:, 0], prepend=-2) != 1)
    lengths = np.diff(np.append(new, len(starts)))
    within = np.arange(len(starts)) - np.repeat(new, lengths)
    kept = (within % max(1, horizon // 2) == 0) | (within == np.repeat(lengths, lengths) - 1)
    return starts[kept]
