import subprocess
import sys
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import multistep as ms
from multistep.data import Episodes, usual_length
from multistep.dynamics import Observer
from multistep.training import SMOOTHED, Once, Outcome, Smoothed, fit_observer, smooth, smoothing
from systems import LinearModel, oscillator_episodes, random_episodes

TRUTH = LinearModel(jnp.array([[0.99, 0.1], [-0.1, 0.97]]), jnp.array([[0.0], [0.1]]))
SMALL = Once(
    network=ms.NetworkConfig(hidden_size=32),
    horizon=8,
    epochs=40,
    least_steps=1,
    batch_size=32,
    learning_rate=3e-3,
)


def left_over(smoothed, noiseless):
    return np.sqrt(np.mean((smoothed.states - noiseless.states) ** 2, axis=0))


def test_the_noise_of_measurements_is_found():
    noise = 0.2
    episodes = oscillator_episodes(20, 100, noise=noise)
    observer = fit_observer(TRUTH, episodes)
    assert np.allclose(observer.measurement_noise, noise, rtol=0.1)
    assert np.all(observer.step_noise < 0.05 * noise)  # the model is the truth


def test_smoothing_takes_most_of_the_noise_out():
    noisy, noiseless = (oscillator_episodes(10, 100, noise=noise) for noise in (0.2, 0.0))
    assert np.allclose(noisy.actions, noiseless.actions)
    smoothed = smooth(fit_observer(TRUTH, noisy), noisy)
    assert np.all(left_over(smoothed, noiseless) < 0.3 * left_over(noisy, noiseless))


def test_episodes_without_noise_stay_as_they_are():
    episodes = oscillator_episodes(5, 100)
    wrong = LinearModel(1.02 * TRUTH.transition, TRUTH.control)
    assert np.all(left_over(smooth(fit_observer(wrong, episodes), episodes), episodes) < 1e-3)


def test_episodes_of_any_lengths_are_smoothed_each_for_itself():
    whole = oscillator_episodes(3, 40, noise=0.1)
    parts = [
        (whole[number].states[: steps + 1], whole[number].actions[:steps])
        for number, steps in enumerate((40, 33, 1))
    ]
    episodes = Episodes.of(parts, state_names=whole.state_names, action_names=whole.action_names)
    observer = Observer(TRUTH, jnp.array([0.1, 0.1]), jnp.array([0.01, 0.02]))
    together = smooth(observer, episodes)
    for number, (states, actions) in enumerate(parts):
        assert np.allclose(
            together[number].states, observer.smooth(jnp.asarray(states), jnp.asarray(actions))
        )
    assert np.array_equal(together.actions, episodes.actions)
    assert together.state_names == episodes.state_names


def test_a_constant_state_stays_and_disturbs_nothing():
    noisy = oscillator_episodes(5, 60, noise=0.1)
    still = replace(
        noisy, states=np.insert(noisy.states, 2, 7.0, axis=1), state_names=(*noisy.state_names, "still")
    )
    transition = jnp.asarray(np.block([[TRUTH.transition, np.zeros((2, 1))], [np.zeros((1, 2)), 1.001]]))
    model = LinearModel(transition, jnp.concatenate([TRUTH.control, jnp.zeros((1, 1))]))
    smoothed = smooth(fit_observer(model, still), still)
    assert np.all(smoothed.states[:, 2] == 7)
    assert np.allclose(smoothed.states[:, :2], smooth(fit_observer(TRUTH, noisy), noisy).states, atol=0.01)


def test_segments_are_as_long_as_half_of_the_data_allow():
    lengths = [100, *[90] * 50, 3]
    assert usual_length(random_episodes(lengths)) == 90
    assert usual_length(random_episodes([100, 90, 3])) == 100


def test_what_cannot_be_smoothed_gets_a_sentence():
    with pytest.raises(
        ms.InputError, match="in episodes of 2 steps or fewer, where noise cannot be told from motion"
    ):
        fit_observer(TRUTH, oscillator_episodes(50, 2, noise=0.1))
    broken = LinearModel(jnp.full((2, 2), jnp.nan), TRUTH.control)
    with pytest.raises(ms.InputError, match="noise cannot be found"):
        fit_observer(broken, oscillator_episodes(3, 30, noise=0.1))


def test_weights_that_were_given_one_by_one_keep_their_horizon():
    assert Smoothed.of(Once(horizon=32, weights=ms.Custom((1 / 32,) * 32))).settings.horizon == 32
    assert [Smoothed.of(Once(horizon=horizon)).settings.horizon for horizon in (1, 10, 30, 40, 100)] == [
        1,
        10,
        20,
        20,
        50,
    ]


def test_a_model_that_diverges_cannot_smooth():
    episodes = oscillator_episodes(2, 30)
    observer = Observer(
        LinearModel(jnp.full((2, 2), jnp.inf), TRUTH.control), jnp.array([0.1, 0.1]), jnp.array([0.1, 0.1])
    )
    with pytest.raises(ms.InputError, match="diverges in episode 0"):
        smooth(observer, episodes)


@pytest.fixture(scope="module")
def data():
    return oscillator_episodes(10, 60, noise=0.3), oscillator_episodes(20, 60, noise=0.3, seed=1)


@pytest.mark.slow
def test_a_second_fit_to_smoothed_episodes_is_nearer_to_the_truth(data):
    test = oscillator_episodes(5, 60, seed=2)
    score = ms.R2Bar(20)
    first = ms.fit(*data, SMALL, key=jax.random.key(0), score=score)
    second = ms.fit(*data, Smoothed(SMALL, SMALL), key=jax.random.key(0), score=score)
    assert second.outcome is Outcome.FINISHED
    assert second.chosen == "smoothed"
    lost, kept = (1 - ms.score(found.model, test, horizon=20).r2bar() for found in (first, second))
    assert kept < 0.7 * lost


def test_without_noise_the_first_fit_counts_and_is_that_of_fit():
    exact, valid = oscillator_episodes(10, 60), oscillator_episodes(3, 60, seed=1)
    given = {"key": jax.random.key(0), "score": ms.R2Bar(20)}
    first, smoothed = (
        ms.fit(exact, valid, SMALL, **given),
        ms.fit(exact, valid, Smoothed.of(SMALL), **given),
    )
    assert eqx.tree_equal(first.model, smoothed.model)
    assert len(smoothed.history) == SMALL.epochs
    assert smoothed.observer is not None
    assert smoothed.chosen == "measured"
    assert smoothed.notes == ("The noise is less than the model misses in one step.",)


def test_each_fit_has_its_checkpoint(data, tmp_path):
    config = Smoothed(*(replace(SMALL, epochs=epochs, least_steps=1) for epochs in (1, 2)))
    ends = [
        ms.fit(*data, config, key=jax.random.key(0), score=ms.R2Bar(5), checkpoint=tmp_path / "c.safetensors")
        for _ in range(2)
    ]
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [
        "c.safetensors",
        "c_smoothed.safetensors",
    ]
    assert (
        ends[0].history == ends[1].history
    )  # the second call has trained nothing anew: even the seconds are the same
    assert len(ends[0].history) == 2


def test_a_first_fit_that_diverges_is_the_end(data):
    hopeless = replace(SMALL, learning_rate=1e200, weights=ms.Uniform())
    end = ms.fit(*data, Smoothed(hopeless, SMALL), key=jax.random.key(0), score=ms.R2Bar(5))
    assert end.outcome is Outcome.DIVERGED
    assert end.notes == ("The first fit diverged.",)


def test_a_second_fit_that_diverges_leaves_the_first(data):
    given = {"key": jax.random.key(0), "score": ms.R2Bar(5)}
    quick, hopeless = replace(SMALL, epochs=2), replace(SMALL, learning_rate=1e200, weights=ms.Uniform())
    end = ms.fit(*data, Smoothed(quick, hopeless), **given)
    assert end.outcome is Outcome.FINISHED
    assert end.notes == ("Fitted to the smoothed episodes, the model diverged.",)
    assert eqx.tree_equal(end.model, ms.fit(*data, quick, **given).model)


def test_episodes_too_short_to_find_noise_in_are_fitted_once():
    short = oscillator_episodes(50, 3, noise=0.1)
    config = replace(SMALL, horizon=2, epochs=1)
    end = ms.fit(short, short, Smoothed.of(config), key=jax.random.key(0), score=ms.R2Bar(2))
    assert end.outcome is Outcome.FINISHED
    assert end.observer is None
    assert "episodes of 3 steps or fewer, where noise cannot be told from motion" in end.notes[0]


@pytest.mark.parametrize("fit_number", [1, 2])
def test_interrupted_in_either_fit_it_goes_on_and_ends_with_the_same_bits(data, tmp_path, fit_number):
    config = Smoothed(*(replace(SMALL, epochs=2, least_steps=1) for _ in range(2)))
    whole = ms.fit(*data, config, key=jax.random.key(0), score=Watched())
    given = {"key": jax.random.key(0), "checkpoint": tmp_path / "c.safetensors"}
    stopped = ms.fit(
        *data, config, score=Watched(stop_at=2 * fit_number), **given
    )  # in the second epoch of that fit
    assert stopped.outcome is Outcome.INTERRUPTED
    assert stopped.chosen == "measured"
    assert len(stopped.history) == fit_number  # of the first fit: an untrained second model is worth nothing
    assert (stopped.observer is None) == (fit_number == 1)
    resumed = ms.fit(*data, config, score=Watched(), **given)
    assert resumed.chosen == "smoothed"
    assert eqx.tree_equal(resumed.model, whole.model)


class Watched:
    """R2bar(5), interrupted at a call if asked; the same score in the eyes of a checkpoint."""

    def __init__(self, stop_at=None):
        self.calls, self.stop_at = 0, stop_at

    def __call__(self, model, valid):
        self.calls += 1
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        return ms.R2Bar(5)(model, valid)

    def __repr__(self):
        return "Watched"


def test_the_second_fit_looks_half_as_far():
    assert Smoothed.of(ms.DEFAULT) == SMOOTHED
    assert (SMOOTHED.measured.settings.horizon, SMOOTHED.smoothed.settings.horizon) == (40, 20)


def test_long_episodes_are_smoothed_in_pieces(monkeypatch):
    episodes = oscillator_episodes(2, 500, noise=0.2)
    observer = Observer(TRUTH, jnp.array([0.2, 0.2]), jnp.array([0.02, 0.02]))
    whole = smooth(observer, episodes)
    monkeypatch.setattr(smoothing, "PIECE_STEPS", 120)
    monkeypatch.setattr(smoothing, "OVERLAP", 60)
    pieces = list(smoothing._pieces(0, episodes[0]))
    assert [(piece.first, len(piece.episode.actions)) for piece in pieces] == [
        (0, 240),
        (120, 240),
        (240, 240),
        (360, 140),
    ]
    kept = np.concatenate([piece.episode.states[piece.kept] for piece in pieces])
    assert np.array_equal(kept, episodes[0].states)
    assert np.allclose(
        smooth(observer, episodes).states, whole.states, atol=0.02 * 0.2
    )  # a fiftieth of the noise
    assert not np.array_equal(smooth(observer, episodes).states, whole.states)


def test_what_is_no_configuration_gets_a_sentence():
    """In a process of its own: here types are checked first."""
    program = "import jax, multistep as ms; ms.fit(None, None, 'paper', key=jax.random.key(0))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (
        "InputError: The recipe is 'paper': give an Automatic(...), or a Once(...) for one fit."
        in answer.stderr
    )


def test_the_configuration_says_how_often_it_is_fitted(data):
    config = replace(SMALL, epochs=2)
    once = ms.fit(*data, config, key=jax.random.key(0))
    assert once.parts == {}
    assert once.observer is None
    twice = ms.fit(*data, Smoothed.of(config), key=jax.random.key(0))
    assert twice.chosen == "smoothed"
    assert twice.observer is not None
    assert eqx.tree_equal(twice.observer.model, once.model)
    assert eqx.tree_equal(
        twice.model, ms.fit(*data, Smoothed.of(config), key=jax.random.key(0), score=ms.R2Bar(50)).model
    )
