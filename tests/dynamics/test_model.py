import json
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from multistep.dynamics import Model, NetworkConfig, fit_normaliser, in_units, load_model, save_model
from multistep.dynamics.model_files import FORMAT
from multistep.dynamics.network import make_network
from multistep.errors import InputError
from systems import random_episodes


@pytest.fixture
def model(getkey):
    episodes = random_episodes([50])
    network = make_network(NetworkConfig(hidden_size=8, activation="silu"), 3, 2, key=getkey())
    normaliser = jax.tree.map(jnp.asarray, fit_normaliser(episodes))
    return Model(network, normaliser, episodes.state_names, episodes.action_names)


def test_step_is_the_networks_change_in_the_users_units(model):
    state, action = np.array([0.3, -2.0, 1.0]), np.array([0.5, -0.1])
    n = model.normaliser
    z = (state - n.state_mean) / n.state_deviation
    change = model.learned.step(z, (action - n.action_mean) / n.action_deviation) - z
    np.testing.assert_allclose(
        model.step(jnp.asarray(state), jnp.asarray(action)), state + change * n.state_deviation, rtol=1e-12
    )


def test_rollout_repeats_the_step_and_takes_plain_numbers(model):
    state, actions = [0.3, -2.0, 1.0], [[0.5, -0.1]] * 4
    states, current = model.rollout(state, actions), jnp.asarray(state)
    for index in range(4):
        current = model.step(current, jnp.asarray(actions[index]))
        np.testing.assert_allclose(states[index], current, rtol=1e-12)
    together = jax.vmap(model.rollout)(jnp.asarray([state] * 2), jnp.asarray([actions] * 2))
    np.testing.assert_allclose(together[1], states, rtol=1e-12)


def test_a_rollout_of_the_wrong_sizes_gets_one_sentence(model):
    states, actions = len(model.state_names), len(model.action_names)
    for state, steps in (
        (np.zeros(states + 1), np.zeros((4, actions))),
        (np.zeros(states), np.zeros((4, actions + 1))),
    ):
        with pytest.raises(InputError, match="give one number for each of"):
            model.rollout(state, steps)


def test_a_model_file_of_version_1_is_read():
    """Written before there were kinds; the rollout is what the package of then printed."""
    model = load_model(Path(__file__).with_name("model_of_version_1.safetensors"))
    expected = [
        [0.3372330367565155, -0.19599179923534393],
        [0.38712915778160095, -0.21879245340824127],
        [0.42923209071159363, -0.22300852835178375],
    ]
    assert model.names == (("position", "velocity"), ("force",))
    with jax.numpy_dtype_promotion("standard"):
        rolled = model.rollout([0.3, -0.2], [[0.5], [-1.0], [0.2]])
    np.testing.assert_allclose(rolled, expected, rtol=1e-5)


def test_a_saved_model_comes_back_bit_for_bit(model, tmp_path):
    save_model(model, tmp_path / "model.safetensors")
    back = load_model(tmp_path / "model.safetensors")
    assert jax.tree.structure(back) == jax.tree.structure(model)
    for mine, theirs in zip(jax.tree.leaves(model), jax.tree.leaves(back), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


def test_units_and_ranges_are_kept_with_the_model(model, tmp_path):
    names, known = model.names, model.normaliser
    episodes = random_episodes([50])
    np.testing.assert_array_equal(
        known.state_range, np.stack([episodes.states.min(0), episodes.states.max(0)])
    )
    np.testing.assert_array_equal(
        known.action_range, np.stack([episodes.actions.min(0), episodes.actions.max(0)])
    )
    units = {names.actions[0]: "V", names.states[1]: "m/s", "time": "s"}
    with_units = in_units(model.learned, known, names.states, names.actions, 0.1, units)
    assert with_units.units == ((names.states[1], "m/s"), (names.actions[0], "V"))
    save_model(with_units, tmp_path / "model.safetensors")
    back = load_model(tmp_path / "model.safetensors")
    assert (back.units, back.time_step) == (with_units.units, 0.1)
    np.testing.assert_array_equal(back.normaliser.state_range, known.state_range)


def test_a_file_from_before_ranges_were_kept_is_read(model, tmp_path):
    older = replace(model, normaliser=replace(model.normaliser, state_range=None, action_range=None))
    save_model(older, tmp_path / "model.safetensors")
    assert not any("range" in name for name in load_file(tmp_path / "model.safetensors"))
    back = load_model(tmp_path / "model.safetensors")
    assert back.normaliser.state_range is None
    assert jax.tree.structure(back) == jax.tree.structure(older)


def damage(model, path, change):
    """The saved model with one thing changed in its header."""
    save_model(model, path)
    arrays = load_file(path)
    header = json.loads(_metadata(path)[FORMAT])
    metadata = change(header, arrays)
    save_file(arrays, path, metadata={FORMAT: json.dumps(header)} if metadata is None else metadata)


def _metadata(path):
    length = int.from_bytes(path.read_bytes()[:8], "little")
    return json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda header, arrays: header.update(version=99),
            "format version 99, this multistep reads versions up to 2",
        ),
        (lambda header, arrays: header["settings"].update(hidden_size=9), "do not fit its header"),
        (
            lambda header, arrays: header["settings"].update(activation="__import__"),
            "does not describe a model",
        ),
        (lambda header, arrays: header.pop("version") and None, "header of the model file .* is damaged"),
        (lambda header, arrays: arrays.popitem() and None, "do not fit its header"),
        (lambda header, arrays: {}, "not a model of multistep"),
    ],
)
def test_other_and_damaged_files_get_one_sentence(model, tmp_path, change, words):
    path = tmp_path / "model.safetensors"
    damage(model, path, change)
    with pytest.raises(InputError, match=words):
        load_model(path)


def test_truncated_and_missing_files_get_one_sentence(model, tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(InputError, match="There is no model file"):
        load_model(path)
    save_model(model, path)
    whole = path.read_bytes()
    for length in (0, 5, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="is damaged or not"):
            load_model(path)


def test_a_flipped_bit_anywhere_is_found(model, tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(model, path)
    whole = path.read_bytes()
    for place in np.random.default_rng(0).integers(0, 8 * len(whole), 60):
        content = bytearray(whole)
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"model file|holds arrays but not a model"):
            load_model(path)


def _first(arrays, change):
    name = next(name for name in arrays if "common" in name)
    arrays[name] = change(arrays[name])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header, arrays: _first(arrays, lambda a: a * np.nan), "values that are NaN or infinite"),
        (lambda header, arrays: _first(arrays, lambda a: a / 0.0), "values that are NaN or infinite"),
        (lambda header, arrays: _first(arrays, lambda a: a.astype(int)), "is of type int64, not float"),
        (lambda header, arrays: _first(arrays, lambda a: a > 0), "is of type bool, not float"),
        (lambda header, arrays: header.update(state_names=["a", "b", "a"]), "not a list of different names"),
        (lambda header, arrays: header.pop("state_names") and None, "not a list of different names"),
        (lambda header, arrays: header.update(action_names="ab"), "not a list of different names"),
        (lambda header, arrays: header.update(more=1), "has more, which nobody knows"),
        (lambda header, arrays: header.update(units=[1]), "does not describe a model"),
        (lambda header, arrays: header.update(time_step=-1), "does not describe a model"),
        (lambda header, arrays: header.update(kind="multistep.dynamics.saved:Saved"), "is not one of"),
        (lambda header, arrays: {FORMAT: "[" * 100_000}, "header of the model file .* is damaged"),
        (lambda header, arrays: {FORMAT: "[1]"}, "header of the model file .* is damaged"),
    ],
)
def test_what_is_no_model_is_refused(model, tmp_path, change, words):
    path = tmp_path / "model.safetensors"
    with np.errstate(all="ignore"):
        damage(model, path, change)
    with pytest.raises(InputError, match=words):
        load_model(path)


def test_absurd_numbers_of_layers_are_refused_at_once(model, tmp_path):
    path = tmp_path / "model.safetensors"
    network = {"kind": "network", "settings": {"num_common_layers": 10**6}}
    for change in (
        lambda header, arrays: header["settings"].update(num_common_layers=10**6),
        lambda header, arrays: header.update(kind="committee", settings={"members": 10, "network": network}),
    ):
        damage(model, path, change)
        started = time.process_time()
        with pytest.raises(InputError, match=r"asks for 10+ layers or more, the file has \d+ arrays"):
            load_model(path)
        assert time.process_time() - started < 1
