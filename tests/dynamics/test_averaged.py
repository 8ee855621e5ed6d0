import jax
import jax.numpy as jnp
import numpy as np

from multistep.data import Episodes
from multistep.dynamics import (
    AveragedConfig,
    CorrectedConfig,
    HiddenConfig,
    LaggedConfig,
    average,
    in_units,
    load_model,
    save_model,
)
from multistep.dynamics.averaged import Averaged
from multistep.dynamics.committee import Committee
from multistep.dynamics.normaliser import fit_normaliser

SMALL = CorrectedConfig(hidden_size=4, num_common_layers=1)


def episodes(num=3, steps=20, seed=0):
    rng = np.random.default_rng(seed)
    return Episodes.of([(rng.normal(size=(steps + 1, 2)), rng.normal(size=(steps, 1))) for _ in range(num)])


def loud(model, key):
    """With weights that say something: the last layers start at zero."""
    leaves, structure = jax.tree.flatten(model)
    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(
        structure, [0.3 * jax.random.normal(own, leaf.shape) for own, leaf in zip(keys, leaves, strict=True)]
    )


def test_a_step_is_the_mean_of_the_members_steps(getkey):
    members = [loud(SMALL.make(2, 1, key=getkey()), getkey()) for _ in range(3)]
    averaged = average(members)
    state, action = jnp.array([0.3, -1.0]), jnp.array([0.5])
    expected = np.mean([member.step(state, action) for member in members], axis=0)
    np.testing.assert_allclose(averaged.step(state, action), expected, rtol=1e-6)
    assert averaged.architecture == AveragedConfig(3, SMALL)


def test_models_of_lags_share_the_lags_and_average_the_step(getkey):
    members = [loud(LaggedConfig(2, SMALL).make(1, 1, key=getkey()), getkey()) for _ in range(2)]
    averaged = average(members)
    assert isinstance(averaged.model, Averaged)
    assert averaged.lags == 2
    assert isinstance(
        average([HiddenConfig(2, 3, SMALL).make(1, 1, key=getkey()) for _ in range(2)]), Committee
    )


def test_an_averaged_model_is_saved_and_loaded(getkey, tmp_path):
    data = episodes()
    learned = average([loud(SMALL.make(2, 1, key=getkey()), getkey()) for _ in range(2)])
    model = in_units(learned, fit_normaliser(data), data.state_names, data.action_names, 0.02)
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    state, actions = data.states[0], data.actions[:5]
    np.testing.assert_array_equal(again.rollout(state, actions), model.rollout(state, actions))
    assert again.time_step == 0.02
