import numpy as np

from multistep.data import Episodes, stuck_ends

RNG = np.random.default_rng(0)


def ends_of(*columns):
    states = np.stack(columns, axis=1)
    return stuck_ends(Episodes.of([(states, np.zeros((len(states) - 1, 1)))]))


def test_a_full_tank_has_a_rim_and_no_floor():
    level = np.minimum(5 + 3 * np.sin(np.arange(200) / 20), 7.0)
    free = RNG.standard_normal(200)
    assert ends_of(level, free) == ((None, None), (7.0, None))


def test_a_stop_on_either_side():
    position = np.clip(4 * np.sin(np.arange(400) / 20), -2.0, 3.0)
    assert ends_of(position) == ((-2.0,), (3.0,))


def test_coarse_steps_and_switches_have_no_ends():
    slow = np.round(
        np.sin(np.arange(400) / 60), 2
    )  # as long at its turning points as a sensor's steps let it be
    switch = np.repeat(RNG.integers(0, 2, 40), 10).astype(float)
    assert ends_of(slow, switch) == ((None, None), (None, None))
    assert ends_of(np.ones(50)) == ((None,), (None,))


def test_rest_before_the_first_push_is_no_end():
    level = np.concatenate([np.zeros(20), 1 - np.exp(-np.arange(100) / 20)])
    both = [(level[:, None], np.zeros((len(level) - 1, 1)))] * 2
    assert stuck_ends(Episodes.of(both)) == ((None,), (None,))
