import numpy as np
import pytest

from multistep.data import Recording, as_episodes, every, is_same_step, resample, way_to_step
from multistep.errors import InputError


def recording(*episodes, rewards=False):
    """One from (times, states, actions) of each episode."""
    times, states, actions = zip(*episodes, strict=True)
    return Recording(
        source="log.csv",
        states=np.concatenate(states),
        actions=np.concatenate(actions),
        lengths=np.array([len(own) for own in actions]),
        state_names=("x", "y"),
        action_names=("u",),
        first_rows=np.ones(len(actions), int),
        time_steps=np.concatenate([np.diff(own) for own in times]),
        rewards=np.concatenate([np.arange(len(own), dtype=float) for own in actions]) if rewards else None,
    )


def line(times):
    """States that are linear in time, which interpolation finds exactly; the action counts the steps."""
    times = np.asarray(times, float)
    return times, np.stack([2 * times + 1, -times], axis=1), np.arange(len(times) - 1.0)[:, None]


def test_states_are_interpolated_and_actions_held():
    uneven = np.cumsum([0, 0.1, 0.12, 0.08, 0.1, 0.11, 0.09, 0.1])
    found = resample(recording(line(uneven), line(np.arange(5) * 0.1)), 0.15)
    assert found.lengths.tolist() == [4, 2]
    grid = 0.15 * np.arange(5)
    np.testing.assert_allclose(found.states[:5, 0], 2 * grid + 1, rtol=1e-6)
    np.testing.assert_allclose(found.states[:5, 1], -grid, atol=1e-6)
    held = [np.flatnonzero(uneven <= time + 1e-9)[-1] for time in grid[:-1]]
    assert found.actions[:4, 0].tolist() == held
    np.testing.assert_allclose(found.time_steps, 0.15)
    assert as_episodes([found]).time_step == 0.15


def test_the_same_step_changes_nothing():
    own = recording(line(0.1 * np.arange(9)))
    found = resample(own, 0.1)
    np.testing.assert_allclose(found.states, own.states, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(found.actions, own.actions)


def test_every_so_many_samples_are_kept():
    own = recording(line(0.1 * np.arange(8)), line(0.1 * np.arange(2)), rewards=True)
    found = every(own, 3)
    assert found.lengths.tolist() == [2]  # the second episode has no sample three steps later
    np.testing.assert_array_equal(found.states, own.states[[0, 3, 6]])
    assert found.actions[:, 0].tolist() == [0, 3]
    np.testing.assert_allclose(found.time_steps, 0.3)
    assert found.rewards.tolist() == [0 + 1 + 2, 3 + 4 + 5]


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (lambda own: resample(own, 0.02), "would make samples up; give 0.1 or more"),
        (lambda own: resample(own, 9.0), "long enough for resampling to 9"),
        (lambda own: resample(own, 0.0), "a number above 0"),
        (lambda own: every(own, 100), "long enough for keeping every 100"),
        (lambda own: every(own, 0), "give 1 or more"),
    ],
)
def test_what_cannot_be_resampled_is_refused(do, words):
    with pytest.raises(InputError, match=words):
        do(recording(line(0.1 * np.arange(9))))


def test_without_times_there_is_nothing_to_resample_by():
    from dataclasses import replace

    with pytest.raises(InputError, match="name its time column"):
        resample(replace(recording(line(np.arange(4))), time_steps=None), 1.0)


def test_time_steps_are_the_same_within_a_hundredth_and_else_there_is_a_way():
    assert is_same_step(0.02, 0.0201)
    assert is_same_step(None, 0.3)
    assert not is_same_step(0.02, 0.0203)
    ways = [way_to_step(0.02, wanted) for wanted in (0.06, 0.05, 0.01)]
    assert ways == ["--every 3", "--resample 0.05", "--resample 0.01"]
    assert way_to_step(0.02, 0.008) == ""  # between samples there is nothing
