from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import Episodes, Past
from multistep.dynamics import (
    HiddenConfig,
    LaggedConfig,
    LimitedConfig,
    LineConfig,
    ShallowConfig,
    forecast,
    load_model,
    save_model,
)
from multistep.errors import InputError
from multistep.evaluation import FreeRunR2
from multistep.training import GaussNewton, LeastSquares
from systems import random_episodes

RIM = 1.5


def tank(num_steps, seed):
    """A level that integrates what flows in and leaks, and cannot pass the rim."""
    rng = np.random.default_rng(seed)
    inflow = np.repeat(rng.uniform(0, 0.5, (num_steps // 20 + 1, 1)), 20, axis=0)[:num_steps]
    levels = [np.array([0.5])]
    for flow in inflow:
        levels.append(np.minimum(0.9 * levels[-1] + flow, RIM))
    return np.array(levels), inflow


def episodes(seeds):
    return Episodes.of([tank(200, seed) for seed in seeds])


def rollout(model, seed):
    levels, inflow = tank(200, seed)
    past = Past(jnp.asarray(levels[: model.num_past]), jnp.asarray(inflow[: model.num_past - 1]))
    predicted = forecast(model, past, jnp.asarray(inflow[model.num_past - 1 :])).mean
    return np.asarray(predicted), levels[model.num_past :]


def test_a_limited_line_is_the_tank():
    network = LimitedConfig(LineConfig())
    recipe = GaussNewton(network, starts=1, horizons=(50,), rounds=3, iterations=2)
    fit = recipe.fit(episodes([0, 1, 2]), episodes([3]), key=jax.random.key(0), score=FreeRunR2())
    predicted, levels = rollout(fit.model, 4)
    assert (levels == RIM).any()  # it runs over, and what follows depends on the rim
    np.testing.assert_allclose(predicted, levels, atol=1e-4)
    assert predicted.max() == pytest.approx(RIM, abs=1e-6)


@pytest.mark.parametrize("memory", [LaggedConfig(2), HiddenConfig(2, 3, encoder_size=0)])
def test_with_a_memory_outputs_stay_within_the_ends(memory, tmp_path):
    network = replace(memory, network=LimitedConfig(ShallowConfig(2)))
    train = episodes([0, 1, 2])
    model = LeastSquares(network).fit(train, train, key=jax.random.key(0), score=lambda *_: 0.0).model
    predicted, _ = rollout(model, 4)
    assert predicted.max() <= RIM + 1e-6
    save_model(model, tmp_path / "model.safetensors")
    again, _ = rollout(load_model(tmp_path / "model.safetensors"), 4)
    np.testing.assert_array_equal(again, predicted)


def test_where_nothing_stops_there_is_nothing_to_limit():
    assert LimitedConfig(ShallowConfig(3)).suited_to(random_episodes([50])) == ShallowConfig(3)


def test_ends_around_a_memory_are_refused():
    with pytest.raises(InputError, match="put the memory around the ends"):
        LimitedConfig(LaggedConfig(2)).make(1, 1, key=jax.random.key(0))
