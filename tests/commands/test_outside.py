"""What is outside of the range of the training data, counted by hand."""

import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.commands.outside import count_outside
from multistep.data import Episodes
from multistep.dynamics import LineConfig, fit_normaliser, in_units


def model_of(episodes):
    units = jax.tree.map(lambda values: jnp.asarray(values, float), fit_normaliser(episodes))
    line = LineConfig().make(episodes.state_size, episodes.action_size, key=jax.random.key(0)).freeze()
    return in_units(line, units, episodes.state_names, episodes.action_names)


def episodes_of(states, actions):
    """Two episodes of these, the second one backwards."""
    states, actions = np.array(states, float), np.array(actions, float)[:, None]
    return Episodes.of(
        [(states, actions), (states[::-1], actions[::-1])], state_names=("x", "y"), action_names=("u",)
    )


TRAIN = episodes_of([[0, 0], [1, 10], [2, 5]], [-1, 1])


def test_samples_outside_are_counted_once_and_said_in_a_remark():
    # First episode: x too high and u too low in one sample, y too low in the last. Second: backwards.
    test = episodes_of([[3, 1], [1, 1], [1, -1]], [-2, 1])
    with pytest.warns(UserWarning, match=r"5 of 6 samples .* \(x in 2, y in 2, u in 2\)") as found:
        assert count_outside(model_of(TRAIN), test) == 5
    assert len(found) == 1


def test_what_it_was_trained_on_is_inside_and_old_models_do_not_know():
    model = model_of(TRAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count_outside(model, TRAIN) == 0
        older = replace(model, normaliser=replace(model.normaliser, state_range=None, action_range=None))
        assert count_outside(older, episodes_of([[9, 9]] * 3, [9, 9])) is None


def test_single_precision_is_not_outside_of_itself():
    values = np.array([[0.1, 0.7], [0.3, 0.2], [0.2, 0.3]])
    double, single = (
        Episodes.of([(values.astype(kind), values[:2, :1].astype(kind))]) for kind in (np.float64, np.float32)
    )
    model = model_of(double)
    rounded = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), model.normaliser)
    for episodes in (double, single):
        assert count_outside(replace(model, normaliser=rounded), episodes) == 0


@pytest.mark.parametrize(("turn", "expected"), [(0.0, 6), (360.0, 2)])
def test_an_angle_is_the_same_after_whole_turns(turn, expected):
    """Trained from 0 to 20 degrees; 370 degrees are 10, 200 are not in it."""
    train = replace(episodes_of([[0, 0], [20, 1], [10, 1]], [0, 1]), turns=(turn, 0.0))
    test = replace(episodes_of([[370, 0], [-350, 1], [200, 1]], [0, 1]), turns=(turn, 0.0))
    with pytest.warns(UserWarning, match=f"{expected} of 6 samples"):
        assert count_outside(model_of(train), test) == expected
    whole = replace(episodes_of([[0, 0], [365, 1], [10, 1]], [0, 1]), turns=(turn, 0.0))
    if turn:
        assert count_outside(model_of(whole), replace(test)) == 0


def test_a_few_are_counted_without_a_remark():
    states = np.concatenate([np.tile([[0, 0], [2, 10]], (150, 1)), [[3, 5]]])
    actions = np.ones(300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count_outside(model_of(TRAIN), episodes_of(states, actions)) == 2
