"""`fit_observer`: the noise on measured states, by a model; `smooth`: the states without it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from multistep.data import Episode, Episodes, Windows, estimate_noise, unit_of, usual_length, window_starts
from multistep.dynamics import AbstractModel, Observer
from multistep.errors import InputError
from multistep.types import Scalar, State

PaddedStates = Float[Array, "episodes time_and_one state"]
PaddedActions = Float[Array, "episodes time action"]
SEGMENTS, SEGMENT_STEPS = 100, 100
LOWEST_NOISE, HIGHEST_NOISE = 1e-4, 1.0
"""Deviations of noise that are looked for, as shares of each state's own deviation."""
MIN_STEPS = 5
EPISODES_AT_ONCE = 32
PIECE_STEPS, OVERLAP = 4096, 200
"""Longer episodes are smoothed in pieces of so many steps, and so many more on both sides."""


class CannotSmooth(InputError):
    """The noise cannot be told from the motion with these episodes and this model."""


def fit_observer(model: AbstractModel, episodes: Episodes) -> Observer:
    """The observer whose noise makes the measurements of the episodes likeliest under the model."""
    from scipy.optimize import minimize  # slow to import

    _check_length(episodes)
    windows, starts = _segments(episodes)
    unit = unit_of(episodes.states)
    guess = np.nan_to_num(
        estimate_noise(episodes.states, episodes.actions, episodes.lengths) / unit, nan=0.01
    )
    first = np.log(np.clip(np.concatenate([guess, guess / 5]), LOWEST_NOISE, HIGHEST_NOISE))

    def objective(logs: Float[ndarray, " twice_state"]) -> tuple[float, Float[ndarray, " twice_state"]]:
        value, slope = _cost(jnp.asarray(logs, float), jnp.asarray(unit, float), model, windows, starts)
        return float(value), np.asarray(slope, np.float64)

    bounds = [(np.log(LOWEST_NOISE), np.log(HIGHEST_NOISE))] * len(first)
    # A smaller tolerance is lost in single precision: the line search then tries in vain.
    found: Any = minimize(
        objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-5, "maxiter": 100}
    )
    if not np.isfinite(found.fun):
        raise CannotSmooth(
            "The model diverges on the episodes, so that their noise cannot be found: train it for longer."
        )
    return _observer(model, jnp.asarray(found.x, float), jnp.asarray(unit, float))


def innovations(observer: Observer, episodes: Episodes) -> float:
    """Mean log-density of a measurement in these episodes, given those before it."""
    return float(_log_density(observer, *_segments(episodes)))


def _segments(episodes: Episodes) -> tuple[Windows, Int[Array, "segments 2"]]:
    """Pieces of the episodes that noise is found in, spread evenly over them, and where they start."""
    steps = min(SEGMENT_STEPS, usual_length(episodes))
    starts = window_starts(episodes, steps)
    starts = starts[np.unique(np.linspace(0, len(starts) - 1, SEGMENTS).round().astype(int))]
    windows = Windows(jnp.asarray(episodes.states, float), jnp.asarray(episodes.actions, float), steps)
    return windows, jnp.asarray(starts)


def smooth(observer: Observer, episodes: Episodes) -> Episodes:
    """The episodes with the observer's best guess of every state in place of what was measured; a constant
    one stays.

    **Arguments:**

    - `observer`: a model with the noise on measurements and steps.
    - `episodes`: as they were measured; what comes before and after a moment is known to the guess.
    """
    states, constant = np.empty_like(episodes.states), np.ptp(episodes.states, axis=0) == 0
    pieces = [piece for number in range(len(episodes)) for piece in _pieces(number, episodes[number])]
    buckets = np.ceil(np.log2([len(piece.episode.actions) for piece in pieces]))
    for bucket in np.unique(
        buckets
    ):  # padded to the longest of a bucket: few programs to compile, whatever the lengths
        together = [pieces[place] for place in np.flatnonzero(buckets == bucket)]
        found = np.asarray(_smooth_padded(observer, *_padded([piece.episode for piece in together])))
        for piece, smoothed in zip(together, found, strict=True):
            if not np.isfinite(smoothed[: len(piece.episode.states)]).all():
                raise CannotSmooth(
                    f"The model diverges in episode {piece.number} and cannot smooth it: train it for longer."
                )
            first = int(episodes.state_offsets[piece.number]) + piece.first
            states[first + piece.kept.start : first + piece.kept.stop] = smoothed[piece.kept]
    return replace(episodes, states=np.where(constant, episodes.states, states))


class _Piece(NamedTuple):
    """A part of an episode that is smoothed at once."""

    number: int
    episode: Episode
    first: int
    """Its first state in the episode."""
    kept: slice
    """Its states that know enough of what came before and after."""


def _pieces(number: int, episode: Episode) -> Iterator[_Piece]:
    """The episode, if it is long in pieces that overlap: what is kept of each is the whole episode."""
    starts = range(0, max(1, len(episode.actions) - 2 * OVERLAP), PIECE_STEPS)
    for first in starts:
        end = first + PIECE_STEPS + 2 * OVERLAP
        part = Episode(episode.states[first : end + 1], episode.actions[first:end])
        last_kept = len(part.states) if first == starts[-1] else PIECE_STEPS + OVERLAP
        yield _Piece(number, part, first, slice(0 if first == 0 else OVERLAP, last_kept))


def has_noise(observer: Observer, episodes: Episodes) -> bool:
    """Whether there is more noise on a measured state than the model misses of it in one step."""
    larger = observer.measurement_noise > observer.step_noise
    return bool(np.any(np.asarray(larger) & (np.ptp(episodes.states, axis=0) > 0)))


def _check_length(episodes: Episodes) -> None:
    steps = usual_length(episodes)
    if steps < MIN_STEPS:
        raise CannotSmooth(
            f"Half of all steps are in episodes of {steps} steps or fewer, where noise cannot be told from "
            f"motion: that takes {MIN_STEPS} steps."
        )


def _padded(episodes: Sequence[Episode]) -> tuple[PaddedStates, PaddedActions, Int[Array, " episodes"]]:
    """Measured states and actions of each episode, the last ones repeated up to the longest, and their
    numbers of steps."""

    def stack(parts: Sequence[Float[ndarray, "_ dimension"]]) -> Float[Array, "episodes longest dimension"]:
        longest = max(map(len, parts))
        return jnp.asarray(
            np.stack([np.pad(part, ((0, longest - len(part)), (0, 0)), mode="edge") for part in parts]), float
        )

    lengths = jnp.asarray([len(episode.actions) for episode in episodes])
    return (
        stack([episode.states for episode in episodes]),
        stack([episode.actions for episode in episodes]),
        lengths,
    )


@jax.jit
def _smooth_padded(
    observer: Observer, states: PaddedStates, actions: PaddedActions, num_steps: Int[Array, " episodes"]
) -> PaddedStates:
    return jax.lax.map(
        lambda episode: observer.smooth(*episode), (states, actions, num_steps), batch_size=EPISODES_AT_ONCE
    )


@jax.jit
@jax.value_and_grad
def _cost(
    logs: Float[Array, " twice_state"],
    unit: State,
    model: AbstractModel,
    windows: Windows,
    starts: Int[Array, "segments 2"],
) -> Scalar:
    """Minus the mean log-density of a measurement in the segments, for the logarithms of the noise's
    deviations."""
    return -_log_density(_observer(model, logs, unit), windows, starts)


@jax.jit
def _log_density(observer: Observer, windows: Windows, starts: Int[Array, "segments 2"]) -> Scalar:
    """Mean log-density of a measurement, given those before it in its segment."""

    def log_densities(start: Int[Array, " 2"]) -> Float[Array, " time"]:
        past, actions, states = windows.gather(start)
        return observer.filter(jnp.concatenate([past.states, states]), actions).log_density

    return jax.vmap(log_densities)(starts).mean()


def _observer(model: AbstractModel, logs: Float[Array, " twice_state"], unit: State) -> Observer:
    measurement, step = jnp.split(jnp.exp(logs), 2)
    return Observer(model, measurement * unit, step * unit)
