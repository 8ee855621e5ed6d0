import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import Episodes, Past
from multistep.dynamics import (
    AveragedConfig,
    CommitteeConfig,
    CorrectedConfig,
    HiddenConfig,
    LaggedConfig,
    ShallowConfig,
    average,
    forecast,
    in_units,
    load_model,
    save_model,
    together,
)
from multistep.dynamics.ensemble import Averaged, Committee
from multistep.dynamics.normaliser import fit_normaliser
from multistep.dynamics.renormalised import renormalised
from multistep.dynamics.stacked import are_alike, of_each
from multistep.errors import InputError

HIDDEN = HiddenConfig(3, 4, ShallowConfig(5), encoder_size=0)
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


def test_a_committee_predicts_the_mean_of_its_members_forecasts(getkey):
    members = [loud(HIDDEN.make(1, 1, key=getkey()), getkey()) for _ in range(3)]
    committee = average(members)
    assert committee.architecture == CommitteeConfig(3, HIDDEN)
    rng = np.random.default_rng(0)
    past = Past(jnp.asarray(rng.normal(size=(4, 1))), jnp.asarray(rng.normal(size=(3, 1))))
    actions = jnp.asarray(rng.normal(size=(7, 1)))
    expected = np.mean([forecast(member, past, actions).mean for member in members], axis=0)
    np.testing.assert_allclose(forecast(committee, past, actions).mean, expected, rtol=1e-10)


def test_each_member_reads_as_much_of_the_past_as_it_needs(getkey):
    short, long = (
        loud(HiddenConfig(2, lags, ShallowConfig(3), encoder_size=0).make(1, 1, key=getkey()), getkey())
        for lags in (2, 5)
    )
    committee = average([short, long])
    assert committee.num_past == 5
    rng = np.random.default_rng(0)
    past = Past(jnp.asarray(rng.normal(size=(5, 1))), jnp.asarray(rng.normal(size=(4, 1))))
    first, _ = committee.start(past)
    np.testing.assert_array_equal(first, short.start(Past(past.states[3:], past.actions[3:])))


def test_a_committee_is_saved_and_loaded(getkey, tmp_path):
    rng = np.random.default_rng(1)
    data = Episodes.of([(rng.normal(size=(20, 1)), rng.normal(size=(19, 1)))])
    learned = average([loud(HIDDEN.make(1, 1, key=getkey()), getkey()) for _ in range(2)])
    model = in_units(learned, fit_normaliser(data), data.state_names, data.action_names, 0.02)
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    given = data.states[:4], data.actions[:3], data.actions[3:9]
    np.testing.assert_array_equal(again.rollout(*given), model.rollout(*given))


def test_members_of_other_shapes_and_units_are_one_model_and_one_file(getkey, tmp_path):
    datas = [episodes(seed=0), episodes(seed=1)]
    models = [
        in_units(loud(config.make(2, 1, key=getkey()), getkey()), fit_normaliser(data), ("a", "b"), ("u",))
        for config, data in zip((SMALL, CorrectedConfig(hidden_size=5)), datas, strict=True)
    ]
    one = together(models)
    assert [type(each).__name__ for each in one.learned.members] == ["Corrected", "Renormalised"]
    save_model(one, tmp_path / "model.safetensors")
    state, action = jnp.asarray(datas[0].states[3]), jnp.asarray(datas[0].actions[3])
    expected = np.mean([model.step(state, action) for model in models], axis=0)
    for model in (one, load_model(tmp_path / "model.safetensors")):
        np.testing.assert_allclose(model.step(state, action), expected, rtol=1e-5)
    alone = [member.step(state, action) for member in one.separate()]
    np.testing.assert_allclose(alone, [model.step(state, action) for model in models], rtol=1e-5)


def test_memories_of_other_units_are_one_model(getkey, tmp_path):
    datas = [Episodes.of([(n + part.states[:, :1], part.actions)]) for n, part in enumerate(episodes(2))]
    models = [
        in_units(loud(HIDDEN.make(1, 1, key=getkey()), getkey()), fit_normaliser(data), ("y",), ("u",))
        for data in datas
    ]
    one, data = together(models), datas[0]
    save_model(one, tmp_path / "model.safetensors")
    given = data.states[:4], data.actions[:3], data.actions[3:9]
    expected = np.mean([model.rollout(*given) for model in models], axis=0)
    for model in (one, load_model(tmp_path / "model.safetensors")):
        np.testing.assert_allclose(model.rollout(*given), expected, rtol=1e-5, atol=1e-6)


def test_members_of_other_widths_are_refused(getkey):
    datas = [episodes(), Episodes.of([(np.zeros((9, 1)), np.zeros((8, 1)))])]
    models = [
        in_units(SMALL.make(d.state_size, 1, key=getkey()), fit_normaliser(d), d.state_names, d.action_names)
        for d in datas
    ]
    with pytest.raises(InputError, match=r"2 state dimensions .* another member 1"):
        together(models)
    with pytest.raises(InputError, match="no models"):
        together([])


def test_there_is_no_committee_of_none():
    with pytest.raises(InputError, match="1 or more"):
        CommitteeConfig(0)
    with pytest.raises(InputError, match="1 or more"):
        ShallowConfig(0)


def test_what_is_done_with_each_member_does_not_depend_on_whether_they_are_alike(getkey):
    alike = [loud(SMALL.make(2, 1, key=getkey()), getkey()) for _ in range(3)]
    unlike = [*alike[:2], loud(CorrectedConfig(hidden_size=5).make(2, 1, key=getkey()), getkey())]
    states, action = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2))), jnp.array([0.5])
    for members in (alike, unlike):
        found = of_each(members, lambda member, state: member.step(state, action), states)
        expected = [member.step(state, action) for member, state in zip(members, states, strict=True)]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert are_alike(alike)
    assert not are_alike(unlike)


def test_units_are_not_trained_and_members_within_are_found(getkey):
    data = [episodes(seed=0), episodes(seed=1)]
    models = [
        in_units(loud(SMALL.make(2, 1, key=getkey()), getkey()), fit_normaliser(own), ("a", "b"), ("u",))
        for own in data
    ]
    inner = together([models[1], models[1]]).learned
    moved = renormalised(inner, models[1].normaliser, models[0].normaliser)
    assert len(moved.separate()) == 2
    state, action = jnp.array([0.3, -1.0]), jnp.array([0.5])
    np.testing.assert_allclose(moved.separate()[0].step(state, action), moved.step(state, action), rtol=1e-5)
    trained = moved.trained()
    assert not any(jax.tree.leaves((trained.states, trained.actions)))
    assert jax.tree.leaves(trained.inner) == jax.tree.leaves(inner.trained())
