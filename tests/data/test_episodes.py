from dataclasses import replace

import numpy as np
import pytest

from multistep.data import Episodes, cut, join, pooled
from multistep.errors import InputError
from systems import random_episodes


def test_episodes_come_back_as_they_went_in():
    rng = np.random.default_rng(0)
    parts = [
        (rng.standard_normal((n + 1, 3)), rng.standard_normal((n, 2)), rng.standard_normal(n))
        for n in (4, 1, 7)
    ]
    episodes = Episodes.of(parts, state_names=("a", "b", "c"))
    assert len(episodes) == 3
    assert episodes.num_steps == 12
    assert episodes.action_names == ("action_0", "action_1")
    for number, (states, actions, rewards) in enumerate(parts):
        np.testing.assert_array_equal(episodes[number].states, states)
        np.testing.assert_array_equal(episodes[number].actions, actions)
        np.testing.assert_array_equal(episodes[number].rewards, rewards)
    assert episodes.returns is not None
    np.testing.assert_allclose(episodes.returns, [part[2].sum() for part in parts])


def test_take_keeps_order_and_repeats():
    episodes = random_episodes([2, 3, 4], rewards=True)
    taken = episodes.take([2, 0])
    np.testing.assert_array_equal(taken.lengths, [4, 2])
    np.testing.assert_array_equal(taken[0].states, episodes[2].states)
    np.testing.assert_array_equal(taken[1].rewards, episodes[0].rewards)


def test_cut_keeps_every_step_once_and_shares_the_state_at_the_cut():
    episodes = random_episodes([7, 4], rewards=True)
    pieces = cut(episodes, 3)
    np.testing.assert_array_equal(pieces.lengths, [3, 3, 1, 3, 1])
    np.testing.assert_array_equal(pieces.actions, episodes.actions)
    np.testing.assert_array_equal(pieces[0].states[-1], pieces[1].states[0])
    np.testing.assert_array_equal(pieces[2].states[-1], episodes[0].states[-1])


def test_single_and_double_precision_are_kept():
    assert random_episodes([3], dtype=np.float32).states.dtype == np.float32
    assert random_episodes([3], dtype=np.float64).states.dtype == np.float64
    assert Episodes.of([(np.arange(4)[:, None], np.arange(3)[:, None])]).states.dtype == np.float64


def test_printed_it_says_what_it_holds():
    said = repr(random_episodes([3, 7], rewards=True))
    assert said == (
        "Episodes(2 of 3 to 7 steps, 10 in all, with rewards; states state_0, state_1, state_2; actions "
        "action_0, action_1)"
    )


def test_constant_columns_are_named():
    states = np.stack([np.arange(5.0), np.full(5, 0.1)], axis=1)
    assert Episodes.of([(states, np.ones((4, 1)))], state_names=("x", "mode")).constant_columns() == [
        "mode",
        "action_0",
    ]


def nan_at(step, column):
    states = np.zeros((5, 3))
    states[step, column] = np.nan
    return states


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([], ["no episodes"]),
        (
            [(np.zeros((5, 3)), np.zeros((4, 1))), (nan_at(3, 2), np.zeros((4, 1)))],
            ["episode 1", "step 3", "column 2", "NaN"],
        ),
        (
            [(np.zeros((5, 3)), np.array([[0.0], [np.inf], [0], [0]]))],
            ["actions", "episode 0", "step 1", "column 0"],
        ),
        ([(np.zeros((5, 3)), np.zeros((5, 1)))], ["Episode 0", "5 states and 5 actions", "one state more"]),
        ([(np.zeros((1, 3)), np.zeros((0, 1)))], ["1 state and 0 actions", "at least one action"]),
        ([(np.zeros(5), np.zeros((4, 1)))], ["shape (5,)", "(time, size)"]),
        (
            [(np.zeros((5, 3)), np.zeros((4, 1))), (np.zeros((5, 2)), np.zeros((4, 1)))],
            ["Episode 1", "2 columns of states"],
        ),
        ([(np.array([["a"], ["b"]]), np.zeros((1, 1)))], ["must be numbers"]),
        ([(np.zeros((5, 3)), np.zeros((4, 1)), np.zeros(5))], ["5 rewards and 4 actions"]),
        (
            [(np.zeros((5, 3)), np.zeros((4, 1)), np.zeros(4)), (np.zeros((5, 3)), np.zeros((4, 1)))],
            ["Episodes 0 and 1", "rewards"],
        ),
    ],
)
def test_bad_episodes_get_one_sentence(parts, words):
    with pytest.raises(InputError) as caught:
        Episodes.of(parts)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_bad_names_get_one_sentence():
    with pytest.raises(InputError, match="2 state names for 3 columns"):
        Episodes.of([(np.zeros((5, 3)), np.zeros((4, 1)))], state_names=("a", "b"))
    with pytest.raises(InputError, match="state names a occur more than once"):
        Episodes.of([(np.zeros((5, 3)), np.zeros((4, 1)))], state_names=("a", "b", "a"))
    with pytest.raises(InputError, match="at least 1"):
        cut(random_episodes([3]), 0)


def test_what_is_in_both_is_pooled_once():
    train, other = random_episodes([5, 3, 5]), random_episodes([4, 5], seed=1)
    again = join(other.take([0]), train.take([2, 0]))
    found = pooled(train, join(again, other.take([1])))
    assert found.lengths.tolist() == [5, 3, 5, 4, 5]
    np.testing.assert_array_equal(found.states, np.concatenate([train.states, other.states]))
    assert pooled(train, train.take([1])) is train
    same_states = replace(train, actions=train.actions + 1)  # another experiment
    assert len(pooled(train, same_states)) == 6
