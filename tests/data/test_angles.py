import numpy as np
import pytest

import multistep as ms
from multistep.data import with_angles, wrapped_angles
from systems import random_episodes, turning_episodes


@pytest.mark.parametrize(("unit", "word"), [(2 * np.pi, "theta"), (360.0, "theta:deg")])
def test_wrapped_angles_are_noticed_and_unwrapped(unit, word):
    wrapped, smooth = turning_episodes(unit), turning_episodes(unit, wrap=False)
    assert wrapped_angles(wrapped) == [word]
    assert wrapped_angles(smooth) == []
    known = with_angles(wrapped, [word])
    assert wrapped_angles(known) == []
    assert known.turns == (unit, 0.0)
    for number in range(len(known)):
        mine, theirs = known[number].states[:, 0], smooth[number].states[:, 0]
        np.testing.assert_allclose(np.diff(mine), np.diff(theirs), rtol=1e-4)
        np.testing.assert_allclose(
            (mine[0] - theirs[0]) / unit, round((mine[0] - theirs[0]) / unit), atol=1e-6
        )


def test_nothing_else_looks_like_an_angle():
    assert wrapped_angles(random_episodes([50, 50])) == []


def test_without_angles_nothing_is_copied():
    episodes = turning_episodes()
    assert with_angles(episodes, ()) is episodes


def test_parts_of_episodes_keep_their_angles():
    known = with_angles(turning_episodes(), ["theta"])
    assert known.take([1]).turns == known.turns == ms.cut(known, 10).turns


@pytest.mark.parametrize("word", ["thetta", "theta:grad"])
def test_what_is_no_angle_is_said(word):
    with pytest.raises(
        ms.InputError, match=f"There is no angle {word}: write NAME or NAME:deg .*theta, rate"
    ):
        with_angles(turning_episodes(), [word])
