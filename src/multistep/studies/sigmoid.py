"""`multistep reproduce sigmoid`: what the two-step loss does to the training of a network of two
parameters."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from numpy import ndarray

from multistep.errors import InputError
from multistep.evaluation.intervals import interval
from multistep.runs.atomic import replacing
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_run, write_rows, write_run
from multistep.studies.scales import Scale
from multistep.studies.sigmoid_landscape import LANDSCAPE_ALPHAS, LANDSCAPE_NOISES, landscape
from multistep.studies.sigmoid_system import TRUE_PARAMETERS, Parameters, observe, train, two_step_errors

PAPER_BEST_ALPHA = 0.75
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
NOISES = (0.0, 0.2, 0.4)
LEARNING_RATES = {"adam": 1e-2, "sgd": 1e-1}
BATCH_SIZE = 10
MEASURES = ("one_step", "two_step", "mean", "distance")

COMMAND = "reproduce sigmoid"


@dataclass(frozen=True)
class SigmoidConfig:
    """The two-parameter network of the paper: loss landscapes, and 9,000 trainings as one program."""

    scale: Scale = "quick"
    """How much is run: smoke (seconds), quick (fewer simulations), paper (9,000 trainings of 60 epochs)."""
    num_samples: int = 100
    """Two-step transitions for training, and as many for validation; first states uniform from -2 to 2."""
    seed: int = 0
    """Seed of states, noise, initialisations and batches."""
    out: Path = Path("runs/sigmoid")
    """Folder for the rows and figures."""

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Initial points, simulations, epochs, and points along each side of the landscape's grid."""
        return {"smoke": (2, 2, 5, 41), "quick": (4, 4, 60, 161), "paper": (10, 10, 60, 401)}[self.scale]


@dataclass(frozen=True)
class Ablation:
    """All trainings of the ablation, the two optimisers side by side, as arrays for one program."""

    starts: Float[Array, "trainings 2"]
    alphas: Float[Array, " trainings"]
    datasets: Int[Array, " trainings"]
    training: Float[Array, "datasets samples 3"]
    validation: Float[Array, "datasets samples 3"]
    batches: Int[Array, "epochs batches batch"]
    rows: tuple[Row, ...]
    """What each training is: initialisation, point, noise, simulation, alpha."""


def run_sigmoid(config: SigmoidConfig) -> dict[str, Any]:
    """Run the study, leave its rows in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    if config.num_samples < BATCH_SIZE or config.seed < 0:
        raise InputError(f"The study needs at least {BATCH_SIZE} samples, a batch, and a seed of 0 or more.")
    started = time.perf_counter()
    surface, minima = landscape(config.num_samples, config.sizes[3], config.seed)
    with replacing(config.out / "landscape.parquet") as temporary:
        surface.write_parquet(temporary)
    write_rows(config.out / "minima.csv", minima)
    ablation = prepare(config)
    # Compiled for itself, so that the time of the trainings is theirs alone.
    program = run_ablation.lower(*ablation_inputs(ablation)).compile()
    compiled = time.perf_counter()
    results = {name: np.asarray(values) for name, values in program(*ablation_inputs(ablation)).items()}
    trained = time.perf_counter()
    rows = _training_rows(ablation, results)
    write_rows(config.out / "convergence.csv", _convergence_rows(rows, results))
    by_alpha = _alpha_rows(rows)
    write_rows(config.out / "alphas.csv", by_alpha)
    best = {
        measure: min((row for row in by_alpha if row["measure"] == measure), key=lambda row: row["value"])[
            "alpha"
        ]
        for measure in MEASURES
    }
    summary = {
        "true_parameters": TRUE_PARAMETERS,
        "trainings": len(rows),
        "best_alpha": best,
        "paper_best_alpha_of_mean": PAPER_BEST_ALPHA,
        "mean_at_best_above_one": next(
            {
                name: row[f"above_one{end}"]
                for name, end in (("value", ""), ("low", "_low"), ("high", "_high"))
            }
            for row in by_alpha
            if (row["measure"], row["alpha"]) == ("mean", best["mean"])
        ),
        "minima_at_edge": sum(row["at_edge"] for row in minima),
        "minima_distance": {
            f"noise {noise}": {
                f"alpha {alpha}": float(
                    np.mean([r["distance"] for r in minima if (r["noise"], r["alpha"]) == (noise, alpha)])
                )
                for alpha in LANDSCAPE_ALPHAS
            }
            for noise in LANDSCAPE_NOISES
        },
        "training_seconds": trained - compiled,
        "seconds": time.perf_counter() - started,
    }
    write_run(config.out, COMMAND, config, rows, summary)
    return summary


def initial_points(name: str, number: int, rng: np.random.Generator) -> Float[ndarray, "points 2"]:
    """As PyTorch initialises a layer of one weight: by default, uniformly, or by Xavier's rule."""
    low, high = {"default": (-1.0, 1.0), "uniform": (0.0, 1.0), "xavier_uniform": (-np.sqrt(3), np.sqrt(3))}[
        name
    ]
    return rng.uniform(low, high, (number, 2))


def prepare(config: SigmoidConfig) -> Ablation:
    """The trainings of one optimiser in all combinations of the other factors."""
    num_points, num_simulations, num_epochs, _ = config.sizes
    rng = np.random.default_rng(config.seed)
    states = [rng.uniform(-2, 2, config.num_samples) for _ in range(2)]
    training, validation = (
        np.concatenate([observe(part, noise, num_simulations, rng) for noise in NOISES]) for part in states
    )
    points = {
        name: initial_points(name, num_points, rng) for name in ("default", "uniform", "xavier_uniform")
    }
    whole = (
        config.num_samples // BATCH_SIZE * BATCH_SIZE
    )  # what does not fill a batch waits for another epoch
    order = [rng.permutation(config.num_samples)[:whole] for _ in range(num_epochs)]
    combinations = list(
        product(points, range(num_points), range(len(NOISES)), range(num_simulations), ALPHAS)
    )
    rows = tuple(
        {
            "initialisation": name,
            "point": point,
            "noise": NOISES[noise],
            "simulation": simulation,
            "alpha": alpha,
        }
        for name, point, noise, simulation, alpha in combinations
    )
    return Ablation(
        starts=jnp.asarray(np.stack([points[name][point] for name, point, *_ in combinations]), jnp.float32),
        alphas=jnp.asarray([alpha for *_, alpha in combinations], jnp.float32),
        datasets=jnp.asarray(
            [noise * num_simulations + simulation for _, _, noise, simulation, _ in combinations]
        ),
        training=jnp.asarray(training, jnp.float32),
        validation=jnp.asarray(validation, jnp.float32),
        batches=jnp.asarray(np.stack(order).reshape(num_epochs, -1, BATCH_SIZE)),
        rows=rows,
    )


@jax.jit
def run_ablation(
    starts: Float[Array, "trainings 2"],
    alphas: Float[Array, " trainings"],
    datasets: Int[Array, " trainings"],
    training: Float[Array, "datasets samples 3"],
    validation: Float[Array, "datasets samples 3"],
    batches: Int[Array, "epochs batches batch"],
) -> dict[str, Float[Array, "optimisers trainings epochs_and_one"]]:
    """All trainings with both optimisers, as one program: losses and distance to the truth after every
    epoch."""
    optimisers = (optax.adam(LEARNING_RATES["adam"]), optax.sgd(LEARNING_RATES["sgd"]))

    def measure(
        parameters: Parameters, alpha: Float[Array, ""], dataset: Int[Array, ""]
    ) -> dict[str, Float[Array, ""]]:
        trained = two_step_errors(parameters, training[dataset])
        one, two = two_step_errors(parameters, validation[dataset])
        distance = jnp.mean((parameters - jnp.asarray(TRUE_PARAMETERS, parameters.dtype)) ** 2)
        return {
            "training": alpha * trained[0] + (1 - alpha) * trained[1],
            "one_step": one,
            "two_step": two,
            "mean": (one + two) / 2,
            "distance": distance,
        }

    def run(optimiser: optax.GradientTransformation) -> dict[str, Float[Array, "trainings epochs_and_one"]]:
        def one_training(
            start: Parameters, alpha: Float[Array, ""], dataset: Int[Array, ""]
        ) -> dict[str, Array]:
            history = train(optimiser, start, alpha, training[dataset], batches)
            return jax.vmap(measure, in_axes=(0, None, None))(history, alpha, dataset)

        return jax.vmap(one_training)(starts, alphas, datasets)

    results = [run(optimiser) for optimiser in optimisers]
    return {name: jnp.stack([result[name] for result in results]) for name in results[0]}


def ablation_inputs(ablation: Ablation) -> tuple[Array, ...]:
    """The arguments of `run_ablation`."""
    return (
        ablation.starts,
        ablation.alphas,
        ablation.datasets,
        ablation.training,
        ablation.validation,
        ablation.batches,
    )


def _training_rows(ablation: Ablation, results: dict[str, ndarray]) -> list[Row]:
    """One row per training, with what it came to."""
    return [
        {
            "optimiser": name,
            **row,
            **{measure: float(values[which, number, -1]) for measure, values in results.items()},
        }
        for which, name in enumerate(LEARNING_RATES)
        for number, row in enumerate(ablation.rows)
    ]


def _alpha_rows(rows: Sequence[Row]) -> list[Row]:
    """Each measure by alpha, with bootstrap intervals; also its difference to alpha = 1, training by
    training.

    Trainings differ by noise and start much more than by alpha: only the paired difference can tell alphas
    apart.
    """
    found = []
    for measure in MEASURES:
        by_alpha = {
            alpha: np.array([row[measure] for row in rows if row["alpha"] == alpha]) for alpha in ALPHAS
        }
        noises = np.array([row["noise"] for row in rows if row["alpha"] == ALPHAS[0]])
        for alpha, values in by_alpha.items():
            low, high = interval(values)
            above = values - by_alpha[1.0]
            above_low, above_high = interval(above)
            row = {
                "measure": measure,
                "alpha": alpha,
                "value": float(values.mean()),
                "low": low,
                "high": high,
            }
            row |= {
                "above_one": float(above.mean()),
                "above_one_low": above_low,
                "above_one_high": above_high,
            }
            found.append(row | {f"noise_{noise}": float(values[noises == noise].mean()) for noise in NOISES})
    return found


def _convergence_rows(rows: Sequence[Row], results: dict[str, ndarray]) -> list[Row]:
    """Mean of each measure after each epoch, by alpha."""
    alphas = np.array([row["alpha"] for row in rows])
    flat = {measure: values.reshape(len(rows), -1) for measure, values in results.items()}
    return [
        {"alpha": alpha, "epoch": epoch}
        | {m: float(values[alphas == alpha, epoch].mean()) for m, values in flat.items()}
        for alpha in ALPHAS
        for epoch in range(next(iter(flat.values())).shape[1])
    ]
