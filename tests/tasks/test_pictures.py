import numpy as np
import pytest

from multistep.errors import InputError
from multistep.tasks import CARTPOLE, SWIMMER
from multistep.tasks.pictures import draw_frames


def test_pictures_show_the_state_or_a_sentence_says_why_not():
    states = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, np.pi, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    try:
        frames = draw_frames(CARTPOLE, states, height=60, width=80)
    except InputError as error:
        pytest.skip(str(error))
    assert frames.shape == (3, 60, 80, 3)
    np.testing.assert_array_equal(frames[0], frames[2])
    assert (frames[0] != frames[1]).any()
    assert draw_frames(SWIMMER, np.zeros((1, 10)), height=60, width=80).std() > 0


def test_without_a_gl_a_sentence_says_so(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    with pytest.raises(InputError, match="No pictures can be drawn here"):
        draw_frames(CARTPOLE, np.zeros((1, 4)))
