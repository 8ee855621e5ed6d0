import jax
import jax.numpy as jnp
import numpy as np
import pytest

import multistep as ms
from multistep.data import add_noise
from multistep.dynamics import Observer
from multistep.training import Filtered, fit_observer, judge
from systems import LinearModel, oscillator_episodes

TRUTH = LinearModel(jnp.array([[1.0, 0.1], [-0.1, 0.99]]), jnp.array([[0.0], [0.1]]))
BLURRED = LinearModel(jnp.array([[1.0, 0.1], [-0.1, 0.99]]) * 0.985, jnp.array([[0.0], [0.1]]))
SCORE = ms.R2Bar(30)


@pytest.fixture(scope="module")
def noisy():
    """A lightly damped oscillator with a great deal of noise: training episodes and others, also without."""
    clean = rolled(TRUTH, oscillator_episodes(30, 100))
    noisy = add_noise(clean, 0.15, key=jax.random.key(1))
    return noisy.take(range(20)), noisy.take(range(20, 30)), clean.take(range(20, 30))


def rolled(model, like):
    states = like.states.copy()
    for number in range(len(like)):
        first, start = like.state_offsets[number], like.action_offsets[number]
        for step in range(int(like.lengths[number])):
            action = jnp.asarray(like.actions[start + step], float)
            states[first + step + 1] = model.step(jnp.asarray(states[first + step], float), action)
    return like.with_states(states)


@pytest.mark.slow
def test_the_judge_prefers_the_truth_where_noisy_starts_prefer_what_shrinks(noisy):
    train, valid, clean = noisy
    assert SCORE(TRUTH, clean) > SCORE(BLURRED, clean)
    assert SCORE(TRUTH, valid) < SCORE(BLURRED, valid)  # what plain validation would choose
    assert judge(TRUTH, train, valid, SCORE) > judge(BLURRED, train, valid, SCORE)
    filtered = Filtered.by(fit_observer(TRUTH, train), SCORE)
    assert filtered(TRUTH, valid) > filtered(BLURRED, valid)


def test_the_step_noise_is_what_the_steps_are_off_by(noisy):
    train, _, _ = noisy
    rng = np.random.default_rng(0)
    pushed = rolled(TRUTH, train.take([0]))
    states = [pushed.states[0]]
    for action in pushed.actions:
        own = np.asarray(TRUTH.step(jnp.asarray(states[-1], float), jnp.asarray(action, float)))
        states.append(own + np.array([0.05, 0.2]) * rng.standard_normal(2))
    measured = np.array(states) + 0.1 * rng.standard_normal((len(states), 2))
    many = [(measured[: len(pushed.actions) + 1], pushed.actions)]
    for _ in range(40):
        noise = 0.1 * rng.standard_normal(measured.shape)
        steps = [pushed.states[0]]
        for action in pushed.actions:
            own = np.asarray(TRUTH.step(jnp.asarray(steps[-1], float), jnp.asarray(action, float)))
            steps.append(own + np.array([0.05, 0.2]) * rng.standard_normal(2))
        many.append((np.array(steps) + noise, pushed.actions))
    episodes = ms.Episodes.of(many)
    view = Filtered(SCORE, (0.1, 0.1)).view(TRUTH, episodes)
    np.testing.assert_allclose(view.observer.step_noise, [0.05, 0.2], rtol=0.15)
    assert view.num_past == 20


def test_without_noise_filtered_scores_are_those_from_the_measured_states(noisy):
    clean = noisy[2]
    observer = Observer(TRUTH, jnp.full(2, 1e-6), jnp.full(2, 1e-6))
    for model in (TRUTH, BLURRED):
        filtered = Filtered.by(observer, ms.R2Bar(5))(model, clean)
        np.testing.assert_allclose(filtered, ms.R2Bar(5)(model, clean), atol=0.02)


def test_no_model_suffers_from_an_observer_that_is_wrong(noisy):
    """One that takes what was measured exactly for noise starts rollouts from where the model would be."""
    clean = noisy[2]
    wrong = Filtered(ms.R2Bar(5), (100.0, 100.0))
    view = wrong.view(BLURRED, clean)
    measured = ms.R2Bar(5)(BLURRED, clean)
    assert ms.R2Bar(5)(view, clean) < measured - 0.02
    assert wrong(BLURRED, clean) == measured
    assert wrong.best_view(BLURRED, clean) is BLURRED
