"""`multistep reproduce linear`: what the two-step loss does to the one parameter of a linear system, and
beyond two steps."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.errors import InputError
from multistep.evaluation.intervals import interval
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_run, write_rows, write_run
from multistep.studies import linear_system as system
from multistep.studies.scales import Scale

SHOWN_THETA = 0.78
CURVE_ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
ESTIMATORS = {"alpha 0": 0.0, "alpha 0.5": 0.5, "alpha 1": 1.0}
SMALL_NOISE = 0.1
LARGE_NOISE = 1.0
BETAS = (0.5, 1.0, 2.0)
SIMULATIONS_FACTOR = 5

COMMAND = "reproduce linear"


@dataclass(frozen=True)
class LinearConfig:
    """The one-parameter linear system of the paper: loss, minimisers, bias and variance, in closed form."""

    scale: Scale = "quick"
    """How much is run: smoke (a second), quick (seconds), paper (10 parameters x 100 simulations, 21 noise
    levels)."""
    num_states: int = 10
    """Initial states in the dataset, uniform from -5 to 5."""
    seed: int = 0
    """Seed of states and noise."""
    out: Path = Path("runs/linear")
    """Folder for the rows and figures."""

    @property
    def sizes(self) -> tuple[int, int, int, tuple[int, ...]]:
        """Parameters, simulations, noise levels and horizons."""
        return {
            "smoke": (2, 20, 3, (1, 2)),
            "quick": (10, 100, 6, (1, 2, 3, 4)),
            "paper": (10, 100, 21, (1, 2, 3, 4, 6, 10)),
        }[self.scale]


def run_linear(config: LinearConfig) -> dict[str, Any]:
    """Run the study, leave its rows in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    if config.num_states < 1 or config.seed < 0:
        raise InputError("The study needs at least one initial state and a seed of 0 or more.")
    started = time.perf_counter()
    num_thetas, num_simulations, num_noises, horizons = config.sizes
    rng = np.random.default_rng(config.seed)
    states = rng.uniform(-5, 5, config.num_states)
    # The system is the same with its sign turned round: positive parameters say it all.
    thetas = (np.arange(num_thetas) + 0.5) / num_thetas
    noises = np.linspace(0, 2, num_noises)
    # The same draws for all noise levels and estimators: differences between them are not chance. The last
    # step is a second look at the first one, for averaging.
    draws = rng.standard_normal((num_thetas, num_simulations, max(horizons) + 1, config.num_states))
    curves, roots = _curve_rows()
    write_rows(config.out / "curves.csv", curves)
    write_rows(config.out / "roots.csv", roots)
    write_rows(config.out / "distance.csv", _distance_rows(states, thetas, noises, draws))
    write_rows(config.out / "density.csv", _density_rows(states, thetas, draws))
    # One parameter at a time, intervals need more simulations to be told from theory.
    many = rng.standard_normal((num_thetas, SIMULATIONS_FACTOR * num_simulations, *draws.shape[2:]))
    by_theta = _by_theta_rows(states, thetas, many)
    write_rows(config.out / "by_theta.csv", by_theta)
    write_rows(config.out / "horizons.csv", _horizon_rows(states, thetas, many, horizons))
    rows = _noise_rows(states, thetas, noises, draws)
    summary = _summary(rows, by_theta, roots) | {"seconds": time.perf_counter() - started}
    write_run(config.out, COMMAND, config, rows, summary)
    return summary


def observe(
    states: Float[ndarray, " n"], theta: float, noise: float, draws: Float[ndarray, "simulations steps n"]
) -> Float[ndarray, "simulations steps n"]:
    r"""$o_{i,j} = \theta^j s_i + \sigma \varepsilon_{i,j}$; the last step is the first one, seen again."""
    steps = np.append(np.arange(1, draws.shape[1]), 1)
    return theta ** steps[:, None] * states + noise * draws


def _estimates(
    states: ndarray, theta: float, noise: float, draws: ndarray
) -> dict[str, Float[ndarray, " simulations"]]:
    """Every estimate of theta, from the same observations."""
    observed = observe(states, theta, noise, draws)
    p = system.moments(states, observed[:, :2])
    return {name: system.minimiser(p, alpha, 1.0) for name, alpha in ESTIMATORS.items()} | {
        "augmented": system.augmented(states, observed[:, :2]),
        "averaged": system.averaged(states, observed[:, 0], observed[:, -1]),
    }


def _first_order(name: str, theta: float, noise: float, energy: float) -> float | None:
    """The variance to first order in the noise; none is known here for the augmented one."""
    if name == "averaged":
        return noise**2 / energy / 2
    alphas = {"alpha 0": (0, 1), "alpha 0.5": (0.5, 0.5), "alpha 1": (1, 0)}.get(name)
    return (
        None if alphas is None else system.first_order_variance(theta, np.array(alphas, float), noise, energy)
    )


def _curve_rows() -> tuple[list[Row], list[Row]]:
    """Loss and derivative without noise, and the real roots of the derivative."""
    grid, p = np.linspace(-1.2, 1.2, 241), SHOWN_THETA ** np.arange(1, 3)
    curves, roots = [], []
    for alpha in CURVE_ALPHAS:
        alphas = np.array([alpha, 1 - alpha])
        losses, slopes = system.loss(grid, p, alphas), system.derivative(grid, p, alphas)
        curves += [
            {"alpha": alpha, "theta": float(t), "loss": float(value), "derivative": float(slope)}
            for t, value, slope in zip(grid, losses, slopes, strict=True)
        ]
        if alpha == 1:
            found = np.array([SHOWN_THETA])
        else:
            values, real = system.real_roots(p, alphas)
            found = np.sort(values[real])
        roots += [
            {"alpha": alpha, "root": float(root), "loss": float(system.loss(np.array([root]), p, alphas)[0])}
            for root in found
        ]
    return curves, roots


def _distance_rows(states: ndarray, thetas: ndarray, noises: ndarray, draws: ndarray) -> list[Row]:
    """Mean distance of the minimiser to the true parameter, for a fine grid of alphas."""
    rows = []
    for noise in noises[:: max(1, (len(noises) - 1) // 5)]:
        observed = [
            observe(states, float(theta), noise, own) for theta, own in zip(thetas, draws, strict=True)
        ]
        moments = [system.moments(states, part[:, :2]) for part in observed]
        alphas = np.linspace(0, 1, 21)
        # (alpha, theta, simulation) at once.
        found = system.minimiser(np.stack(moments), alphas[:, None, None], 1.0)
        for alpha, errors in zip(alphas, np.abs(found - thetas[:, None]), strict=True):
            low, high = interval(errors)
            rows.append(
                {
                    "noise": float(noise),
                    "alpha": float(alpha),
                    "distance": float(errors.mean()),
                    "low": low,
                    "high": high,
                }
            )
    return rows


def _density_rows(states: ndarray, thetas: ndarray, draws: ndarray) -> list[Row]:
    return [
        {"estimator": name, "theta": float(theta), "error": float(value - theta)}
        for theta, own in zip(thetas, draws, strict=True)
        for name, values in _estimates(states, float(theta), LARGE_NOISE, own).items()
        for value in values
    ]


def _noise_rows(states: ndarray, thetas: ndarray, noises: ndarray, draws: ndarray) -> list[Row]:
    """Bias and variance of every estimator against the noise, averaged over the parameters."""
    rows, energy = [], float(states @ states)
    for noise in noises:
        estimates = [
            _estimates(states, float(theta), float(noise), own)
            for theta, own in zip(thetas, draws, strict=True)
        ]
        for name in estimates[0]:
            errors = np.stack([e[name] - theta for e, theta in zip(estimates, thetas, strict=True)])
            theory = [_first_order(name, float(theta), float(noise), energy) for theta in thetas]
            rows.append({"estimator": name, "noise": float(noise), **_bias_and_variance(errors, theory)})
    return rows


def _by_theta_rows(states: ndarray, thetas: ndarray, draws: ndarray) -> list[Row]:
    """The same at one small and one large noise, for each parameter by itself."""
    rows, energy = [], float(states @ states)
    for noise in (SMALL_NOISE, LARGE_NOISE):
        for theta, own in zip(thetas, draws, strict=True):
            for name, values in _estimates(states, float(theta), noise, own).items():
                theory = [_first_order(name, float(theta), noise, energy)]
                row = {"estimator": name, "noise": noise, "theta": float(theta)}
                rows.append(row | _bias_and_variance(values[None] - theta, theory))
    return rows


def _horizon_rows(states: ndarray, thetas: ndarray, draws: ndarray, horizons: tuple[int, ...]) -> list[Row]:
    """The same for longer horizons with exponential weights, which the paper does not show."""
    rows, energy = [], float(states @ states)
    for noise in (SMALL_NOISE, LARGE_NOISE):
        for theta, own in zip(thetas, draws, strict=True):
            observed = observe(states, float(theta), noise, own)
            for horizon in horizons:
                p = system.moments(states, observed[:, :horizon])
                for beta in BETAS if horizon > 1 else (1.0,):
                    alphas = beta ** np.arange(horizon) / np.sum(beta ** np.arange(horizon))
                    errors = system.minimiser_any_horizon(p, alphas, 1.0)[None] - theta
                    theory = [system.first_order_variance(float(theta), alphas, noise, energy)]
                    row = {"noise": noise, "theta": float(theta), "horizon": horizon, "beta": beta}
                    rows.append(row | _bias_and_variance(errors, theory))
    return rows


def _bias_and_variance(
    errors: Float[ndarray, "thetas simulations"], theory: Sequence[float | None]
) -> dict[str, float | None]:
    bias_low, bias_high = interval(errors)
    low, high = interval(errors, np.var)
    known = [value for value in theory if value is not None]
    return {
        "bias": float(errors.mean()),
        "absolute_bias": float(np.abs(errors.mean(axis=1)).mean()),
        "bias_low": bias_low,
        "bias_high": bias_high,
        "variance": float(errors.var(axis=1).mean()),
        "variance_low": low,
        "variance_high": high,
        "first_order_variance": float(np.mean(known)) if known else None,
    }


def _summary(rows: list[Row], by_theta: list[Row], roots: list[Row]) -> dict[str, Any]:
    """The findings in numbers: at the largest noise, where the claims turn round, and how many roots there
    are."""

    def ratio(name: str, other: str, thetas: Sequence[float]) -> dict[str, float]:
        """Of two variances at the small noise, each the mean over these parameters; and to first order."""
        found = {
            (row["estimator"], column): np.mean(
                [
                    float(r[column])
                    for r in by_theta
                    if (r["estimator"], r["noise"]) == (row["estimator"], SMALL_NOISE)
                    and r["theta"] in thetas
                ]
            )
            for row in by_theta
            if row["estimator"] in (name, other)
            for column in ("variance", "first_order_variance")
        }
        return {
            "simulated": float(found[name, "variance"] / found[other, "variance"]),
            "first_order": float(found[name, "first_order_variance"] / found[other, "first_order_variance"]),
        }

    thetas = sorted({row["theta"] for row in by_theta})
    largest = max(row["noise"] for row in rows)
    return {
        "real_roots": {str(alpha): sum(row["alpha"] == alpha for row in roots) for alpha in CURVE_ALPHAS},
        "at_largest_noise": {
            row["estimator"]: {name: row[name] for name in ("bias", "absolute_bias", "variance")}
            for row in rows
            if row["noise"] == largest
        },
        "two_steps_over_one_step": ratio("alpha 0.5", "alpha 1", thetas),
        "two_steps_over_averaging": {
            "below_half": ratio("alpha 0.5", "averaged", [theta for theta in thetas if theta < 0.5]),
            "above_half": ratio("alpha 0.5", "averaged", [theta for theta in thetas if theta > 0.5]),
        },
        "thetas": len(thetas),
    }
