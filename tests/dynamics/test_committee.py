import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import Episodes, Past
from multistep.dynamics import (
    CommitteeConfig,
    HiddenConfig,
    ShallowConfig,
    average,
    forecast,
    in_units,
    load_model,
    save_model,
)
from multistep.dynamics.normaliser import fit_normaliser
from multistep.errors import InputError

HIDDEN = HiddenConfig(3, 4, ShallowConfig(5), encoder_size=0)


def loud(dynamics, key):
    leaves, structure = jax.tree.flatten(dynamics)
    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(
        structure, [0.2 * jax.random.normal(own, leaf.shape) for own, leaf in zip(keys, leaves, strict=True)]
    )


def test_a_committee_predicts_the_mean_of_its_members_forecasts(getkey):
    members = [loud(HIDDEN.make(1, 1, key=getkey()), getkey()) for _ in range(3)]
    together = average(members)
    assert together.architecture == CommitteeConfig(3, HIDDEN)
    rng = np.random.default_rng(0)
    past = Past(jnp.asarray(rng.normal(size=(4, 1))), jnp.asarray(rng.normal(size=(3, 1))))
    actions = jnp.asarray(rng.normal(size=(7, 1)))
    expected = np.mean([forecast(member, past, actions).mean for member in members], axis=0)
    np.testing.assert_allclose(forecast(together, past, actions).mean, expected, rtol=1e-10)


def test_each_member_reads_as_much_of_the_past_as_it_needs(getkey):
    short, long = (
        loud(HiddenConfig(2, lags, ShallowConfig(3), encoder_size=0).make(1, 1, key=getkey()), getkey())
        for lags in (2, 5)
    )
    together = average([short, long])
    assert together.num_past == 5
    rng = np.random.default_rng(0)
    past = Past(jnp.asarray(rng.normal(size=(5, 1))), jnp.asarray(rng.normal(size=(4, 1))))
    first, _ = together.start(past)
    np.testing.assert_array_equal(first, short.start(Past(past.states[3:], past.actions[3:])))


def test_it_is_saved_and_loaded(getkey, tmp_path):
    rng = np.random.default_rng(1)
    data = Episodes.of([(rng.normal(size=(20, 1)), rng.normal(size=(19, 1)))])
    learned = average([loud(HIDDEN.make(1, 1, key=getkey()), getkey()) for _ in range(2)])
    model = in_units(learned, fit_normaliser(data), data.state_names, data.action_names, 0.02)
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    given = data.states[:4], data.actions[:3], data.actions[3:9]
    np.testing.assert_array_equal(again.rollout(*given), model.rollout(*given))


def test_there_is_no_committee_of_none():
    with pytest.raises(InputError, match="1 or more"):
        CommitteeConfig(0)
    with pytest.raises(InputError, match="1 or more"):
        ShallowConfig(0)
