import jax
import numpy as np
import pytest

from multistep.dynamics import ShallowConfig, forecast
from multistep.errors import InputError
from multistep.training.race import held_in_turn, laid_over, start_race
from systems import oscillator_episodes, random_episodes


def test_windows_cover_every_step_once():
    episodes = random_episodes([25, 10, 3])
    starts, lengths = laid_over(episodes, 10, 1, 10)
    covered = [
        int(start) + step
        for start, length in zip(starts[:, 1], lengths, strict=True)
        for step in range(length)
    ]
    assert sorted(covered) == list(range(38))
    starts, lengths = laid_over(episodes, 10, 4, 10)  # a past of four states uses up three steps
    assert lengths.sum() == 22 + 7 + 0


def test_windows_that_overlap_cover_a_step_as_often_as_was_asked_for():
    episodes = random_episodes([40, 7])
    starts, lengths = laid_over(episodes, 9, 1, 3)
    covered = np.zeros(47, int)
    for start, length in zip(starts[:, 1], lengths, strict=True):
        covered[start : start + length] += 1
    assert (covered[6:40] == 3).all()  # the first steps are in fewer windows
    np.testing.assert_array_equal(covered[:6], [1, 1, 1, 2, 2, 2])
    assert (covered[40:] > 0).all()


def test_long_rollouts_of_few_records_start_from_several_places():
    begun = race(random_episodes([100]), least_rollouts=4)
    assert begun.rollouts(100).is_there.sum(axis=1).tolist() == [100, 75, 50, 25]
    assert begun.rollouts(20).is_there.sum(axis=1).tolist() == [20] * 5


def test_what_is_held_out_is_whole_episodes_or_stretches_of_time():
    many, one = random_episodes([20, 30, 25]), random_episodes([100])
    assert held_in_turn(many, 3, 2) is many
    pieces = held_in_turn(one, 4, 2)
    assert len(pieces) == 8
    assert (pieces.lengths <= 13).all()
    np.testing.assert_array_equal(pieces.actions, one.actions)  # the places of steps are those of the whole
    with pytest.raises(InputError, match="4 folds needs as many stretches of 60 steps"):
        held_in_turn(one, 4, 30)


def race(pool, **options):
    given = {"starts": 1, "ridges": (1e-6,), "folds": 3, "least_rollouts": 1} | options
    return start_race(ShallowConfig(2), pool, key=jax.random.key(0), **given)


def test_every_step_is_held_out_by_one_fold_and_learned_from_by_the_others():
    pool = random_episodes([23, 40])
    begun = race(pool)
    rollouts = begun.rollouts(9)
    assert not rollouts.held[0].any()
    np.testing.assert_array_equal(rollouts.held.sum(axis=0), rollouts.is_there)
    lap = begun.lap(begun.begin(), 9)
    shares = np.asarray(lap.shares)
    np.testing.assert_array_equal(shares, (rollouts.is_there & ~rollouts.held).astype(float))


def test_what_is_held_out_has_no_part_in_the_fit():
    """Other measurements in it, the same model of the fold that does without."""
    pool = oscillator_episodes(3, 30, noise=0.05)
    states = pool.states.copy()
    first = slice(pool.state_offsets[0] + 1, pool.state_offsets[0] + 31)
    states[first] = states[first][::-1]  # the same statistics
    weights = []
    for episodes in (pool, pool.with_states(states)):
        begun = race(episodes)
        lap = begun.lap(begun.begin(), 30).go_on(2)
        weights.append(np.asarray(lap.descents.weights))
    fold = 1  # holds out the first episode
    np.testing.assert_allclose(weights[0][fold], weights[1][fold], rtol=1e-6, atol=1e-9)
    assert np.abs(weights[0][0] - weights[1][0]).max() > 1e-3


def test_r2_of_what_was_held_out_by_hand():
    pool = oscillator_episodes(3, 30, noise=0.05)
    begun = race(pool, starts=2)
    lap = begun.lap(begun.begin(), 10).go_on(1)
    rollouts = begun.rollouts(30)
    unexplained = np.zeros(2)
    targets = np.asarray(rollouts.batch.states)
    for fold in (1, 2, 3):
        window = jax.tree.map(lambda each, fold=fold: each[fold - 1], rollouts.batch)
        predicted = forecast(lap.mean(0, fold), window.past, window.actions).mean
        unexplained += ((np.asarray(predicted) - targets[fold - 1]) ** 2).sum(axis=0)
    flat = targets.reshape(-1, 2)
    expected = 1 - unexplained / ((flat - flat.mean(axis=0)) ** 2).sum(axis=0)
    assert lap.held_out_r2(0, rollouts) == pytest.approx(expected.mean(), abs=1e-6)


def test_members_that_do_not_fit_into_memory_at_once_go_one_after_the_other(monkeypatch):
    begun = race(oscillator_episodes(3, 30), starts=2)
    lap = begun.lap(begun.begin(), 10)
    together = np.asarray(lap.go_on(2).descents.weights)
    monkeypatch.setattr("multistep.training.race.MOST_NUMBERS", 1)
    assert lap._at_once() == 1
    np.testing.assert_allclose(np.asarray(lap.go_on(2).descents.weights), together, rtol=1e-6, atol=1e-9)
