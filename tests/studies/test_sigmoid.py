import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

from multistep.bench.sigmoid import torch_distance
from multistep.report.sigmoid_figures import draw_sigmoid
from multistep.studies.sigmoid import (
    LANDSCAPE_NOISES,
    TRUE_PARAMETERS,
    SigmoidConfig,
    ablation_inputs,
    observe,
    prepare,
    run_ablation,
    run_sigmoid,
)
from multistep.studies.sigmoid_system import two_step_errors, two_step_loss

SMOKE = SigmoidConfig(scale="smoke")


@pytest.fixture(autouse=True)
def standard_promotion():
    """optax mixes integers and floats."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="module")
def ablation():
    return prepare(SMOKE)


@pytest.fixture(scope="module")
def results(ablation):
    with jax.numpy_dtype_promotion("standard"):
        return {name: np.asarray(values) for name, values in run_ablation(*ablation_inputs(ablation)).items()}


def plain_loss(parameters, observed, alpha):
    """The same without the core."""
    one = parameters[0] / (1 + np.exp(-parameters[1] * observed[:, 0]))
    two = parameters[0] / (1 + np.exp(-parameters[1] * one))
    return alpha * np.mean((one - observed[:, 1]) ** 2) + (1 - alpha) * np.mean((two - observed[:, 2]) ** 2)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_the_general_loss_has_the_plain_values_and_gradients(alpha):
    observed = observe(np.linspace(-2, 2, 15), 0.2, 1, np.random.default_rng(0))[0]
    for parameters in ([0.5, -1.0], [1.5, 2.0], [-2.0, 0.1]):
        value, slope = jax.value_and_grad(two_step_loss)(
            jnp.asarray(parameters), jnp.asarray(observed), jnp.asarray(alpha)
        )
        np.testing.assert_allclose(value, plain_loss(parameters, observed, alpha), rtol=1e-12)
        for index, change in enumerate(1e-6 * np.eye(2)):
            above, below = (
                plain_loss(np.add(parameters, sign * change), observed, alpha) for sign in (1, -1)
            )
            np.testing.assert_allclose(slope[index], (above - below) / 2e-6, rtol=1e-6, atol=1e-9)


def test_without_noise_the_truth_has_no_error():
    observed = observe(np.linspace(-2, 2, 15), 0.0, 1, np.random.default_rng(0))[0]
    np.testing.assert_allclose(
        two_step_errors(jnp.asarray(TRUE_PARAMETERS), jnp.asarray(observed)), 0, atol=1e-30
    )


def test_noise_is_on_what_follows_with_the_asked_deviation():
    states = np.linspace(-2, 2, 2000)
    clean, noisy = (observe(states, noise, 5, np.random.default_rng(0)) for noise in (0.0, 0.4))
    added = noisy - clean
    assert (added[..., 0] == 0).all()
    np.testing.assert_allclose(added[..., 1:].std(), 0.4 * np.ptp(clean[..., 1:]), rtol=0.03)


def test_every_combination_is_there_once(ablation):
    assert len(ablation.rows) == 3 * 2 * 3 * 2 * 5
    assert len({tuple(row.values()) for row in ablation.rows}) == len(ablation.rows)
    paper = SigmoidConfig(scale="paper")
    points, simulations, epochs, _ = paper.sizes
    assert (2 * 3 * points * 3 * simulations * 5, epochs) == (9000, 60)


def test_the_program_agrees_with_a_loop_in_pytorch(ablation, results):
    for which in (0, 1):
        for training in (0, 37, 101, 179):
            expected = torch_distance(ablation, which, training)
            np.testing.assert_allclose(
                results["distance"][which, training, -1], expected, rtol=1e-4, atol=1e-6
            )


def test_training_lowers_the_loss(results):
    for measure in ("training", "one_step", "two_step", "distance"):
        assert results[measure][..., -1].mean() < results[measure][..., 0].mean()
    np.testing.assert_allclose(results["mean"], (results["one_step"] + results["two_step"]) / 2, rtol=1e-5)


def test_the_study_leaves_rows_and_figures(tmp_path):
    summary = run_sigmoid(SigmoidConfig(scale="smoke", out=tmp_path))
    assert summary["trainings"] == 360
    rows = pl.read_csv(tmp_path / "rows.csv")
    by_alpha = pl.read_csv(tmp_path / "alphas.csv")
    for alpha in (0.0, 0.75):
        own = rows.filter(pl.col("alpha") == alpha)
        found = by_alpha.row(
            by_predicate=(pl.col("measure") == "mean") & (pl.col("alpha") == alpha), named=True
        )
        np.testing.assert_allclose(found["value"], own["mean"].mean())
        assert found["low"] < found["value"] < found["high"]
    minima = pl.read_csv(tmp_path / "minima.csv").filter(pl.col("noise") == 0)
    np.testing.assert_allclose(
        minima.select("theta_1", "theta_2").to_numpy(), [TRUE_PARAMETERS] * len(minima), atol=1e-9
    )
    _check_landscape(tmp_path)
    for path in draw_sigmoid(tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")


def _check_landscape(out):
    """The surface is the mean over the draws of the general loss, and its minima are those that SciPy finds
    on it."""
    rng = np.random.default_rng([0, 1])
    states = rng.uniform(-2, 2, SMOKE.num_samples)
    draws = {noise: observe(states, noise, 10, rng) for noise in LANDSCAPE_NOISES}
    surface, minima = pl.read_parquet(out / "landscape.parquet"), pl.read_csv(out / "minima.csv")
    value_and_slope = jax.jit(jax.value_and_grad(two_step_loss))
    for noise, alpha in ((0.2, 0.5), (0.4, 1.0), (0.6, 0.0)):
        chosen = (pl.col("noise") == noise) & (pl.col("alpha") == alpha)
        for row in surface.filter(chosen).sample(5, seed=0).iter_rows(named=True):
            at = jnp.asarray([row["theta_1"], row["theta_2"]], float)
            losses = [
                float(value_and_slope(at, jnp.asarray(draw), jnp.asarray(alpha))[0]) for draw in draws[noise]
            ]
            np.testing.assert_allclose(row["loss"], np.mean(losses), rtol=1e-4)
    found = minima.filter((pl.col("noise") == 0.2) & (pl.col("alpha") == 0.5))
    for draw, row in zip(draws[0.2], found.iter_rows(named=True), strict=True):
        best = minimize(
            lambda at, draw=draw: [
                np.asarray(part, float)
                for part in value_and_slope(jnp.asarray(at), jnp.asarray(draw), jnp.asarray(0.5))
            ],
            TRUE_PARAMETERS,
            jac=True,
        ).x
        np.testing.assert_allclose([row["theta_1"], row["theta_2"]], best, atol=(2 / 40 + 8 / 40))
