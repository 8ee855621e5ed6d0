import jax
import numpy as np
import pytest

import multistep as ms
from multistep.data import with_angles
from multistep.dynamics import CorrectedConfig, LineConfig
from multistep.training import LeastSquares, Once
from systems import oscillator_episodes, random_episodes, turning_episodes

SCORE = ms.R2Bar(5)


def test_a_linear_plant_is_found_exactly():
    train, valid = oscillator_episodes(5, 40), oscillator_episodes(3, 40, seed=1)
    fit = LeastSquares().fit(train, valid, key=jax.random.key(0), score=SCORE)
    assert fit.best_epoch.score > 1 - 1e-6
    assert fit.history[0].errors[0] < 1e-9


@pytest.mark.parametrize("turns", [(), (2 * np.pi, 0.0)])
def test_the_corrected_model_starts_as_the_line(turns):
    episodes = oscillator_episodes(5, 40, noise=0.1)
    if turns:
        episodes = with_angles(episodes, ["position"])
    line = LeastSquares().fit(episodes, episodes, key=jax.random.key(0), score=SCORE).model
    untrained = Once(
        network=CorrectedConfig(hidden_size=8), horizon=2, epochs=1, least_steps=1, learning_rate=1e-30
    )
    corrected = untrained.fit(episodes, episodes, key=jax.random.key(0), score=SCORE).model
    state, actions = episodes.states[3], episodes.actions[3:10]
    np.testing.assert_allclose(
        corrected.rollout(state, actions), line.rollout(state, actions), rtol=1e-6, atol=1e-9
    )


@pytest.mark.slow
def test_training_corrects_what_is_not_linear():
    episodes = random_episodes([30] * 5, state_size=2, action_size=1)
    bent = episodes.states.copy()
    for number in range(len(episodes)):
        first = episodes.state_offsets[number]
        for step in range(30):
            force = episodes.actions[episodes.action_offsets[number] + step, 0]
            x, v = bent[first + step]
            bent[first + step + 1] = x + 0.1 * v, v + 0.1 * (force - np.sin(2 * x))
    episodes = episodes.with_states(bent)
    linear = LeastSquares().fit(episodes, episodes, key=jax.random.key(0), score=SCORE)
    recipe = Once(network=CorrectedConfig(hidden_size=32), horizon=5, least_steps=1500, learning_rate=3e-3)
    corrected = recipe.fit(episodes, episodes, key=jax.random.key(0), score=SCORE)
    assert 1 - corrected.best_epoch.score < 0.2 * (1 - linear.best_epoch.score)


@pytest.mark.parametrize("config", [LineConfig(), CorrectedConfig(hidden_size=4)])
@pytest.mark.parametrize("angles", [(), ("position:deg",)])
def test_saved_and_loaded_it_is_the_same(config, angles, tmp_path):
    episodes = with_angles(oscillator_episodes(4, 20, noise=0.1), angles)
    recipe = Once(network=config, horizon=2, epochs=1, least_steps=1)
    model = recipe.fit(episodes, episodes, key=jax.random.key(0), score=SCORE).model
    ms.save_model(model, tmp_path / "model.safetensors")
    loaded = ms.load_model(tmp_path / "model.safetensors")
    state, actions = episodes.states[0], episodes.actions[:5]
    np.testing.assert_array_equal(loaded.rollout(state, actions), model.rollout(state, actions))


def test_a_model_of_an_angle_does_not_see_whole_turns():
    episodes = with_angles(turning_episodes(360.0), ["theta:deg"])
    recipe = ms.Once(network=CorrectedConfig(hidden_size=8), horizon=3, epochs=2, least_steps=50)
    model = ms.fit(episodes, episodes, recipe, key=jax.random.key(0), score=ms.R2Bar(3)).model
    state, actions = episodes.states[0], episodes.actions[:6]
    here = np.asarray(model.rollout(state, actions))
    there = np.asarray(model.rollout(state + np.array([720.0, 0.0]), actions))
    np.testing.assert_allclose(there - np.array([720.0, 0.0]), here, rtol=1e-4, atol=1e-3)
