from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multistep.data import Episodes, split, split_in_time, spread
from multistep.errors import InputError
from systems import random_episodes


def numbered_episodes(count: int) -> Episodes:
    """Episode i is full of i, so that it can be recognised."""
    return Episodes.of([(np.full((3, 1), float(i)), np.full((2, 1), float(i))) for i in range(count)])


def numbers_of(episodes: Episodes) -> list[int]:
    return [int(episodes[i].states[0, 0]) for i in range(len(episodes))]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(3, 60), st.integers(0, 5))
def test_every_episode_lands_in_exactly_one_part(count, seed):
    parts = split(numbered_episodes(count), (0.7, 0.1, 0.2), key=jax.random.key(seed))
    found = [number for part in parts for number in numbers_of(part)]
    assert sorted(found) == list(range(count))
    for part, share in zip(parts, (0.7, 0.1, 0.2), strict=True):
        assert len(part) >= 1
        assert abs(len(part) - share * count) < 1.5 or len(part) == 1


def test_counts_are_taken_exactly():
    parts = split(numbered_episodes(50), (36, 4, 10), key=jax.random.key(0))
    assert [len(part) for part in parts] == [36, 4, 10]
    assert [len(part) for part in split(numbered_episodes(50), (0.72, 0.08, 0.2), key=jax.random.key(0))] == [
        36,
        4,
        10,
    ]


@pytest.mark.parametrize("lengths", [[1000], [20] * 50, [700, 3, 40, 257], [30] * 30 + [100]])
def test_some_steps_from_all_over_stand_for_all(lengths):
    """Each step is its own number."""
    offsets = np.cumsum([0, *np.add(lengths, 1)])
    parts = [
        (np.arange(first, first + length + 1.0)[:, None], np.zeros((length, 1)))
        for first, length in zip(offsets, lengths, strict=False)
    ]
    episodes = Episodes.of(parts)
    found = spread(episodes, 200)
    assert 130 <= found.num_steps <= 270
    for number in range(len(found)):
        assert (np.diff(found[number].states[:, 0]) == 1).all()
    places = np.concatenate([found[number].states[:-1, 0] for number in range(len(found))])
    assert len(np.unique(places)) == len(places)
    assert np.diff(places).max() < 0.25 * offsets[-1]
    assert places[0] == 0
    assert spread(episodes, 1000) is episodes


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((0.5, 0.1), "sum to 1"),
        ((3, 3), "counts that sum to 5"),
        ((0.9, 0.1, 0.0), "more than 0"),
        ((0.2,) * 5 + (1e-9,), "cannot be split"),
    ],
)
def test_bad_parts_get_one_sentence(parts, words):
    with pytest.raises(InputError, match=words):
        split(numbered_episodes(5), parts, key=jax.random.key(0))


@pytest.mark.parametrize("share", [0.25, 0.5, 0.61, 0.999])
def test_a_split_in_time_cuts_one_episode_and_loses_nothing(share):
    episodes = replace(random_episodes([40, 7, 53]), origins=("a", "b", "c"), time_step=0.1)
    first, rest = split_in_time(episodes, share)
    steps = min(round(share * 100), 99)
    assert (first.num_steps, rest.num_steps) == (steps, 100 - steps)
    np.testing.assert_array_equal(np.concatenate([first.actions, rest.actions]), episodes.actions)
    assert len(first) + len(rest) in (3, 4)  # at a border between two nothing is cut
    assert (first.origins[0], rest.time_step) == ("a", 0.1)
    if len(first) + len(rest) == 4:  # the state at the cut ends one part and starts the other
        np.testing.assert_array_equal(first.states[-1], rest.states[0])


def test_a_share_of_many_episodes_is_made_of_whole_pieces():
    found = spread(random_episodes([101] * 40), 1000)
    assert 900 <= found.num_steps <= 1100
    assert found.lengths.min() >= 50
