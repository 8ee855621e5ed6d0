import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from multistep.data import Windows, deal, window_starts
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
        np.testing.assert_array_equal(gathered.states[index], states)
        np.testing.assert_array_equal(gathered.actions[index], actions)


def test_a_deal_is_a_random_order_without_repetition():
    starts = window_starts(random_episodes([50, 60]), 3)
    batches = deal(starts, 7, key=jax.random.key(0))
    assert batches.shape == (len(starts) // 7, 7, 2)
    dealt = [tuple(pair) for pair in batches.reshape(-1, 2).tolist()]
    assert len(set(dealt)) == len(dealt)
    assert set(dealt) <= {tuple(pair) for pair in starts.tolist()}
    np.testing.assert_array_equal(batches, deal(starts, 7, key=jax.random.key(0)))
    assert not np.array_equal(batches, deal(starts, 7, key=jax.random.key(1)))
