import numpy as np
import pytest

from multistep.data import Episodes, Samples, in_pieces
from multistep.errors import InputError
from systems import random_episodes

X = np.array([[7, 0, 10], [7, 1, 11], [7, 2, 12], [3, 3, 13], [3, 4, 14.0]])


def test_columns_and_rows_by_their_part():
    samples = Samples.of(X, 1, has_ids=True)
    assert samples.bounds.tolist() == [[0, 3], [3, 5]]
    episodes = samples.episodes(["y"], ["u"])
    assert (episodes.state_names, episodes.action_names) == (("y",), ("u",))
    assert [episode.states.tolist() for episode in episodes] == [[[0], [1], [2]], [[3], [4]]]
    assert [episode.actions.tolist() for episode in episodes] == [[[10], [11]], [[13]]]
    whole = Samples.of(X, 0, has_ids=False).episodes()
    assert (len(whole), whole.state_size, whole.action_size) == (1, 3, 0)


def test_the_past_of_a_row_stays_in_its_episode():
    pasts = Samples.of(X, 1, has_ids=True).pasts(2)
    assert pasts.tolist() == [[0, 0], [0, 1], [1, 2], [3, 3], [3, 4]]
    assert Samples.of(X, 1, has_ids=False).pasts(1).tolist() == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize("steps", [6, 7, 50, 63])
def test_pieces_share_a_state_and_are_about_as_long(steps):
    whole = random_episodes([steps])
    pieces = in_pieces(whole, 8, least_steps=3)
    assert pieces.lengths.sum() == steps
    assert len(pieces) == min(8, steps // 3)
    assert pieces.lengths.min() >= 3
    assert np.ptp(pieces.lengths) <= 1
    np.testing.assert_array_equal(pieces.actions, whole.actions)
    ends = [pieces[number].states[-1] for number in range(len(pieces) - 1)]
    np.testing.assert_array_equal(ends, [pieces[number].states[0] for number in range(1, len(pieces))])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Samples.of(X, 2, has_ids=True), r"X has 3 columns, 1 of them of episodes and 2 of inputs"),
        (lambda: Samples.of(X[[0, 1, 3, 4, 2]], 1, has_ids=True), "Episode 7 starts a second time in row 4"),
        (lambda: Samples.of(X[:4], 1, has_ids=True).episodes(), "in row 3 of X has one row and so no step"),
        (lambda: Samples.of(X, 1, has_ids=True).pasts(3), "starts from 3 samples, but .* row 3 .* has 2"),
        (
            lambda: in_pieces(Episodes.of([(X, X[1:])]), 8, least_steps=3),
            "one episode of 5 rows .* give 7 or",
        ),
    ],
)
def test_what_cannot_be_gets_a_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()
