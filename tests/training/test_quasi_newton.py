import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import multistep as ms
from multistep.dynamics import CorrectedConfig
from multistep.runs.provenance import plain
from multistep.training import LeastSquares, Outcome, QuasiNewton
from multistep.training.quasi_newton import _spaced_starts
from systems import oscillator_episodes, random_episodes


def pendulum(num_episodes, seed, steps=60, noise=0.0):
    """A damped pendulum under a held torque, integrated by SciPy."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(num_episodes):
        states, torques = [rng.uniform(-2, 2, 2)], rng.uniform(-2, 2, (steps, 1))
        for torque in torques[:, 0]:
            step = solve_ivp(
                lambda _, s, u=torque: [s[1], -2 * np.sin(s[0]) - 0.2 * s[1] + u],
                (0, 0.1),
                states[-1],
                rtol=1e-8,
            )
            states.append(step.y[:, -1])
        parts.append((np.array(states) + noise * rng.standard_normal((steps + 1, 2)), torques))
    return ms.Episodes.of(parts, state_names=("angle", "rate"), action_names=("torque",))


@pytest.mark.slow
def test_a_small_network_beats_the_line_by_far_on_little_data():
    train, valid, score = pendulum(6, 0), pendulum(3, 1), ms.R2Bar(40)
    linear = LeastSquares().fit(train, valid, key=jax.random.key(0), score=score)
    small = QuasiNewton(starts=1, rounds=5).fit(train, valid, key=jax.random.key(0), score=score)
    assert small.outcome is Outcome.FINISHED
    assert 1 - small.best_epoch.score < 0.02 * (1 - linear.best_epoch.score)
    assert small.best_epoch.score == pytest.approx(score(small.model, valid), abs=1e-6)


@pytest.mark.slow
def test_the_same_key_gives_the_same_bits_and_more_starts_are_never_worse():
    train, valid = oscillator_episodes(4, 30, noise=0.05), oscillator_episodes(2, 30, noise=0.05, seed=1)
    given = {"key": jax.random.key(3), "score": ms.R2Bar(10)}
    short = {"adam_steps": 20, "rounds": 2, "iterations": 5, "horizon": 10}
    network = CorrectedConfig(hidden_size=4, num_common_layers=1)
    first, again, more = (
        QuasiNewton(network, starts=starts, **short).fit(train, valid, **given) for starts in (1, 1, 2)
    )
    for one, other in zip(jax.tree.leaves(first.model), jax.tree.leaves(again.model), strict=True):
        np.testing.assert_array_equal(one, other)
    assert more.best_epoch.score >= first.best_epoch.score


def test_rollouts_cover_every_step_of_every_episode():
    episodes = random_episodes([25, 10, 3])
    starts = _spaced_starts(episodes, 10, 1)
    covered = {int(start) + step for start in starts[:, 1] for step in range(10)}
    assert covered == set(range(35))  # the last episode is too short for a rollout
    assert len(starts) < 10


def test_a_limit_in_time_ends_it_with_the_best_so_far(monkeypatch):
    train, descents = oscillator_episodes(4, 30, noise=0.05), []
    descend = QuasiNewton._descend

    def counted(*given):
        descents.append(given)
        return descend(*given)

    monkeypatch.setattr(QuasiNewton, "_descend", counted)
    recipe = QuasiNewton(CorrectedConfig(4, 1), adam_steps=5, horizon=10, seconds=1e-9)
    fit = recipe.fit(train, train, key=jax.random.key(0), score=ms.R2Bar(10))
    assert (len(descents), len(fit.history), fit.outcome) == (1, 1, Outcome.FINISHED)
    assert fit.best_score == pytest.approx(ms.R2Bar(10)(fit.model, train), abs=1e-6)
    assert "seconds" not in plain(QuasiNewton())
    assert plain(recipe)["seconds"] == 1e-9


def test_numbers_below_one_are_refused():
    with pytest.raises(ms.InputError, match="The adam steps of QuasiNewton is 0: it must be 1 or more"):
        QuasiNewton(adam_steps=0)
