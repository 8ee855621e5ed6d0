"""The work item of the training benchmark, in JAX and for a bare matrix product: 17 states, 6 actions, batch
64."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from multistep.data import Episodes, Windows, deal, window_starts
from multistep.dynamics import fit_normaliser, in_units
from multistep.evaluation import score
from multistep.losses import Balanced, MultiStep
from multistep.training import PRESETS, Preset
from multistep.training.epoch import Training, train_epoch

STATES, ACTIONS, HIDDEN, BATCH_SIZE = 17, 6, 256, 64
MULTIPLICATIONS = (
    (STATES + ACTIONS) * HIDDEN + 2 * HIDDEN**2 + HIDDEN * STATES
)  # of one state through the mean path
SCORE_HORIZON = 100

Work = Callable[[], None]


def random_episodes(num_steps: int, num_episodes: int = 1) -> Episodes:
    """Noise in the shape of HalfCheetah's data: speed does not depend on the values."""
    rng = np.random.default_rng(0)
    return Episodes.of(
        (
            rng.standard_normal((num_steps + 1, STATES), np.float32),
            rng.standard_normal((num_steps, ACTIONS), np.float32),
        )
        for _ in range(num_episodes)
    )


def training_work(preset: Preset, episodes: Episodes, horizon: int, num_batches: int) -> tuple[Work, float]:
    """`num_batches` gradient steps as one compiled program, and their floating-point operations.

    Forward is two operations per multiplication, backward twice as many: through the layer and to its
    weights.
    """
    key, starts = jax.random.key(0), window_starts(episodes, horizon)
    windows = Windows(*fit_normaliser(episodes).normalise(episodes), horizon)
    training = Training.start(PRESETS[preset].network.make(STATES, ACTIONS, key=key))
    rates = jnp.full(num_batches, 1e-4)

    def work() -> None:
        nonlocal training
        batches = deal(starts, BATCH_SIZE, key=key)[:num_batches]
        training, report = train_epoch(training, windows, batches, MultiStep(), Balanced(), rates, key=key)
        jax.block_until_ready(report)

    return work, 6.0 * MULTIPLICATIONS * BATCH_SIZE * horizon * num_batches


def scoring_work(episodes: Episodes) -> tuple[Work, float]:
    """Scoring all sub-trajectories up to 100 steps; only steps inside an episode count as work."""
    network = PRESETS["default"].network.make(STATES, ACTIONS, key=jax.random.key(0)).freeze()
    normaliser = jax.tree.map(lambda values: jnp.asarray(values, float), fit_normaliser(episodes))
    model = in_units(network, normaliser, episodes.state_names, episodes.action_names)
    num_steps = score(model, episodes, horizon=SCORE_HORIZON).num_rollouts.sum()
    return lambda: _discard(score(model, episodes, horizon=SCORE_HORIZON)), 2.0 * MULTIPLICATIONS * num_steps


def gemm_work(num_products: int, num_weights: int = 1, num_rows: int = BATCH_SIZE) -> tuple[Work, float]:
    """A chain of bare products of a matrix of 256 columns with 256 x 256 weights, one and the same or several
    in turn."""
    key = jax.random.key(0)
    weights = jax.random.normal(key, (num_weights, HIDDEN, HIDDEN)) / np.sqrt(HIDDEN)
    batch = jax.random.normal(key, (num_rows, HIDDEN))
    rounds = max(1, num_products // num_weights)
    return lambda: _discard(
        _products(batch, weights, rounds=rounds)
    ), 2.0 * num_rows * HIDDEN**2 * num_weights * rounds


def timed(work: Work) -> dict[str, float]:
    """Seconds of the work, and the share of them that the processor spent on it."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    seconds = time.perf_counter() - wall
    return {"seconds": seconds, "cpu_share": (time.process_time() - cpu) / seconds}


@partial(jax.jit, static_argnames="rounds")
def _products(batch: jax.Array, weights: jax.Array, *, rounds: int) -> jax.Array:
    def multiply(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, None]:
        return x @ weight, None

    return jax.lax.fori_loop(0, rounds, lambda _, x: jax.lax.scan(multiply, x, weights)[0], batch)


def _discard(value: Any) -> None:
    if isinstance(value, jax.Array):
        value.block_until_ready()
