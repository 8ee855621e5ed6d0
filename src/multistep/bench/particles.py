"""`multistep bench particles`: a thousand particles beside the bare products of their networks, and five
members beside one fit."""

import statistics
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from multistep.bench.training import TRUSTED_CPU_SHARE
from multistep.bench.workload import timed
from multistep.data import Past, split
from multistep.dynamics import (
    CorrectedConfig,
    Model,
    Uncertainty,
    average,
    fit_normaliser,
    in_units,
    roll_particles,
)
from multistep.dynamics.uncertainty import normal_scales
from multistep.errors import InputError
from multistep.evaluation import R2Bar
from multistep.losses import Balanced
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_run, write_run
from multistep.tasks import CARTPOLE
from multistep.training import Ensemble, Growing, Once

COMMAND = "bench particles"
MEMBERS, PARTICLES, STEPS, HIDDEN = 5, 1000, 100, 256


@dataclass(frozen=True)
class ParticlesBenchConfig:
    """Particles beside the products of their networks, an ensemble beside one fit."""

    out: Path = Path("runs/bench-particles")
    """Folder for the results."""
    rounds: int = 9
    """Rounds in which each measurement follows the other."""
    fits: int = 2
    """Rounds of one fit and one ensemble."""
    fit_steps: int = 400_000
    """Model steps of the fit whose five-fold is measured."""


def run_particles_bench(config: ParticlesBenchConfig) -> dict[str, Any]:
    """Measure, leave rows and summary in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    if config.rounds < 1 or config.fits < 1:
        raise InputError("The benchmark needs at least one round of each kind.")
    works = {"particles": particles_work(), "products": products_work()}
    for work in works.values():
        work()  # compiled
    rows = [
        {"measured": name, "round": number, **timed(work)}
        for number in range(config.rounds)
        for name, work in works.items()
    ]
    rows += fit_rows(config.fits, config.fit_steps)
    summary = _summary(rows)
    write_run(config.out, COMMAND, config, rows, summary)
    return summary


def particles_work() -> Any:
    """A thousand particles of an ensemble of Cartpole's networks, a hundred steps."""
    model, known = cartpole_ensemble()
    past = Past(jnp.zeros((1, 5)), jnp.zeros((0, 1)))
    actions = jnp.zeros((STEPS, 1))
    roll = jax.jit(partial(roll_particles, number=PARTICLES))

    def work() -> None:
        roll(model, known, past, actions, key=jax.random.key(0)).block_until_ready()

    return work


def cartpole_ensemble() -> tuple[Model, Uncertainty]:
    """Five networks of the default's size with random weights."""
    episodes = CARTPOLE.collect_random(2, key=jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), MEMBERS)
    members = [CorrectedConfig(HIDDEN).make(5, 1, key=key).freeze() for key in keys]
    units = jax.tree.map(lambda values: jnp.asarray(values, float), fit_normaliser(episodes))
    model = in_units(average(members), units, episodes.state_names, episodes.action_names)
    assert isinstance(model, Model)
    noise, scales = 0.01 * jnp.ones(5), normal_scales(STEPS, 5)
    return model, Uncertainty(noise, noise, jnp.zeros((STEPS, 5)), scales, jnp.zeros(()), 0, 1)


def products_work() -> Any:
    """The same steps of nothing but the products: two of 256 by 256 between a narrow one on each side."""
    shapes = ((6, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 6))
    keys = jax.random.split(jax.random.key(0), len(shapes))
    weights = [
        jax.random.normal(key, (MEMBERS, *shape)) / np.sqrt(shape[0])
        for key, shape in zip(keys, shapes, strict=True)
    ]

    @jax.jit
    def multiply(rows: jax.Array) -> jax.Array:
        def step(rows: jax.Array, _: None) -> tuple[jax.Array, None]:
            for weight in weights:
                rows = jnp.einsum("mrc,mcd->mrd", rows, weight)
            return rows, None

        return jax.lax.scan(step, rows, None, STEPS)[0]

    start = jnp.ones((MEMBERS, PARTICLES // MEMBERS, 6))
    return lambda: multiply(start).block_until_ready()


def fit_rows(rounds: int, model_steps: int) -> list[Row]:
    """One fit and an ensemble of five in turn, after one that compiles."""
    episodes = CARTPOLE.collect_random(10, key=jax.random.key(0))
    train, valid = split(episodes, (0.8, 0.2), key=jax.random.key(1))
    curriculum = Growing(model_steps, stages=1)
    one = Once(horizon=20, weights=Balanced(), network=CorrectedConfig(), curriculum=curriculum)
    given = {"key": jax.random.key(2), "score": R2Bar(20)}
    works = {
        "one fit": lambda: one.fit(train, valid, **given),
        "five members": lambda: Ensemble(one, MEMBERS).fit(train, valid, **given),
    }
    works["one fit"]()
    return [
        {"measured": name, "round": number, **timed(lambda own=work: _nothing(own()))}
        for number in range(rounds)
        for name, work in works.items()
    ]


def _nothing(value: Any) -> None:
    """For work that returns something."""


def _summary(rows: list[Row]) -> dict[str, Any]:
    """Ratios of neighbouring measurements, of those that nothing disturbed if there are any, and the
    milliseconds of each."""

    def pairs(name: str, other: str) -> list[tuple[Row, Row]]:
        own, others = ([row for row in rows if row["measured"] == each] for each in (name, other))
        found = list(zip(own, others, strict=True))
        quiet = [pair for pair in found if min(row["cpu_share"] for row in pair) >= TRUSTED_CPU_SHARE]
        return quiet or found

    def ratio(name: str, other: str) -> float:
        return statistics.median(one["seconds"] / two["seconds"] for one, two in pairs(name, other))

    both = pairs("particles", "products")
    return {
        "particles_over_products": ratio("particles", "products"),
        "five_members_over_one_fit": ratio("five members", "one fit"),
        "particles_ms": 1e3 * statistics.median(one["seconds"] for one, _ in both),
        "products_ms": 1e3 * statistics.median(two["seconds"] for _, two in both),
        "undisturbed": sum(row["cpu_share"] >= TRUSTED_CPU_SHARE for row in rows) / len(rows),
    }
