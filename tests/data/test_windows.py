import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multistep.data import Windows, count_windows, deal, window_starts
from systems import random_episodes


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 9))
def test_windows_are_all_and_only_those_within_an_episode(lengths, horizon):
    episodes = random_episodes(lengths)
    found = {tuple(pair) for pair in window_starts(episodes, horizon).tolist()}
    expected, state, action = set(), 0, 0
    for length in lengths:
        expected |= {(state + t, action + t) for t in range(length - horizon + 1)}
        state, action = state + length + 1, action + length
    assert found == expected


def test_gathered_windows_are_slices_of_their_episode():
    episodes, horizon = random_episodes([5, 8, 3]), 3
    starts = jnp.asarray(window_starts(episodes, horizon))
    windows = Windows(jnp.asarray(episodes.states), jnp.asarray(episodes.actions), horizon)
    gathered = jax.jit(lambda windows, starts: jax.vmap(windows.gather)(starts))(windows, starts)
    expected = [
        (episodes[e].states[t : t + 4], episodes[e].actions[t : t + 3])
        for e, n in ((0, 5), (1, 8), (2, 3))
        for t in range(n - 2)
    ]
    assert len(expected) == len(starts)
    for index, (states, actions) in enumerate(expected):
        np.testing.assert_array_equal(gathered.past.states[index], states[:1])
        np.testing.assert_array_equal(gathered.states[index], states[1:])
        np.testing.assert_array_equal(gathered.actions[index], actions)


@pytest.mark.parametrize("num_past", [2, 4])
def test_a_window_has_its_past(num_past):
    """States and actions up to the moment, then the actions from it on and the states after them."""
    episodes, horizon = random_episodes([5, 8, 3]), 2
    starts = jnp.asarray(window_starts(episodes, horizon, num_past))
    arrays = jnp.asarray(episodes.states), jnp.asarray(episodes.actions)
    gathered = jax.vmap(Windows(*arrays, horizon, num_past).gather)(starts)
    length = num_past - 1 + horizon
    pieces = [
        (episodes[e].states[t : t + length + 1], episodes[e].actions[t : t + length])
        for e, n in ((0, 5), (1, 8), (2, 3))
        for t in range(n - length + 1)
    ]
    assert len(pieces) == len(starts) == count_windows(episodes.lengths, horizon, num_past).sum()
    for index, (states, actions) in enumerate(pieces):
        np.testing.assert_array_equal(gathered.past.states[index], states[:num_past])
        np.testing.assert_array_equal(gathered.past.actions[index], actions[: num_past - 1])
        np.testing.assert_array_equal(gathered.actions[index], actions[num_past - 1 :])
        np.testing.assert_array_equal(gathered.states[index], states[num_past:])


def test_a_deal_is_a_random_order_without_repetition():
    starts = window_starts(random_episodes([50, 60]), 3)
    batches = deal(starts, 7, key=jax.random.key(0))
    assert batches.shape == (len(starts) // 7, 7, 2)
    dealt = [tuple(pair) for pair in batches.reshape(-1, 2).tolist()]
    assert len(set(dealt)) == len(dealt)
    assert set(dealt) <= {tuple(pair) for pair in starts.tolist()}
    np.testing.assert_array_equal(batches, deal(starts, 7, key=jax.random.key(0)))
    assert not np.array_equal(batches, deal(starts, 7, key=jax.random.key(1)))
