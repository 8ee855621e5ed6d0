import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multistep.errors import InputError
from multistep.selection.folds import deal_folds, deal_sized_folds


# A permutation is compiled anew for every number of episodes: hence so few of them.
@settings(max_examples=20, deadline=None)
@given(num_episodes=st.sampled_from((4, 5, 13)), num_folds=st.integers(2, 4), seed=st.integers(0, 100))
def test_every_episode_is_tested_once_and_is_in_one_part_of_a_fold(num_episodes, num_folds, seed):
    folds = deal_folds(num_episodes, num_folds, key=jax.random.key(seed))
    assert sorted(number for fold in folds for number in fold.test) == list(range(num_episodes))
    for fold in folds:
        assert sorted(fold.train + fold.valid + fold.test) == list(range(num_episodes))
        assert fold.train
        assert len(fold.valid) == max(1, round(0.1 * num_episodes))


@pytest.mark.parametrize("sizes", [(36, 4, 10), (76, 4, 20), (156, 4, 40)])
def test_folds_of_the_papers_sizes(sizes):
    folds = deal_sized_folds(sizes, 3, key=jax.random.key(0))
    assert [tuple(map(len, (fold.train, fold.valid, fold.test))) for fold in folds] == [sizes] * 3
    tests = [set(fold.test) for fold in folds]
    assert len(set.union(*tests)) == 3 * sizes[2]
    for fold in folds:
        assert sorted(fold.train + fold.valid + fold.test) == list(range(sum(sizes)))


def test_the_key_decides():
    first, again, other = (deal_folds(20, 3, key=jax.random.key(seed)) for seed in (0, 0, 1))
    assert first == again != other


def test_too_few_episodes_are_refused():
    with pytest.raises(InputError, match="2 episodes cannot be dealt into 3 folds"):
        deal_folds(2, 3, key=jax.random.key(0))
    with pytest.raises(InputError, match="2 episodes cannot be dealt into 2 folds with 1 of the rest"):
        deal_folds(2, 2, key=jax.random.key(0))
    with pytest.raises(InputError, match="choose fewer folds"):
        deal_sized_folds((5, 1, 4), 3, key=jax.random.key(0))
