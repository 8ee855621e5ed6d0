"""Faults that were put into the data are found, and nothing is found where there are none."""

import re
from dataclasses import replace

import numpy as np
import pytest

import multistep as ms
from multistep.data import remarks_on
from multistep.data.checks import find_dropouts, find_functions, find_limits, find_odd_logs, find_shifts
from multistep.data.checks.dropouts import Drops, Frozen
from multistep.data.checks.regression import BLOCKS, Products
from systems import oscillator_episodes, plant_episodes, random_episodes, turning_episodes


def in_other_rows(episodes, rows, columns=None):
    """What the log is if the value of each action stands so many rows below where it was taken."""
    parts = []
    for states, actions, _ in (episodes[number] for number in range(len(episodes))):
        length = len(actions)
        kept = slice(max(rows, 0), length + min(rows, 0))
        moved = actions.copy()
        for column in range(actions.shape[1]) if columns is None else columns:
            moved[kept, column] = actions[kept.start - rows : kept.stop - rows, column]
        parts.append((states[kept.start : kept.stop + 1], moved[kept]))
    return ms.Episodes.of(parts, state_names=episodes.state_names, action_names=episodes.action_names)


def with_values(episodes, rows, column, value):
    """A copy in which a state has another value in these rows."""
    states = episodes.states.copy()
    states[rows, column] = value
    return episodes.with_states(states)


CLEAN = {
    "oscillator": lambda: oscillator_episodes(9, 60),
    "noisy oscillator": lambda: oscillator_episodes(9, 200, noise=0.05),
    "plant": lambda: plant_episodes(steps=400),
    "wheel": turning_episodes,
    "unwrapped wheel": lambda: turning_episodes(wrap=False),
    "noise alone": lambda: random_episodes([300] * 6),
    "single precision": lambda: random_episodes([300] * 6, dtype=np.float32),
    "few": lambda: random_episodes([3, 2]),
    "one number again and again": lambda: ms.Episodes.of([(np.ones((50, 2)), np.ones((49, 1)))]),
    "numbers without squares": lambda: ms.Episodes.of([(np.full((50, 1), 1e200), np.ones((49, 1)))]),
}


@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_said_of_sound_data(name):
    assert remarks_on(CLEAN[name]()) == []


@pytest.mark.parametrize("rows", [-2, -1, 1, 2])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_the_true_shift_is_found(rows, noise):
    (found,) = find_shifts(in_other_rows(oscillator_episodes(9, 150, noise=noise), rows))
    assert (found.action, found.rows) == ("force", rows)
    assert f"move the column force {'up' if rows > 0 else 'down'}" in found.remark
    assert ("--lags" in found.remark) == (rows < 0)  # where a delay of the plant would look the same


@pytest.mark.parametrize("rows", [-1, 1])
def test_a_shifted_plant_whose_state_is_not_measured(rows):
    (found,) = find_shifts(in_other_rows(plant_episodes(steps=400), rows))
    assert found.rows == rows


def two_actions(num_steps=800, seed=0):
    rng = np.random.default_rng(seed)
    actions = rng.normal(size=(num_steps, 2))
    states = np.zeros((num_steps + 1, 2))
    for step, given in enumerate(actions):
        states[step + 1] = 0.9 * states[step] + [0.5, 0.4] * given + 0.05 * rng.normal(size=2)
    return ms.Episodes.of([(states, actions)], state_names=["x", "y"], action_names=["u", "v"])


def test_of_two_actions_the_one_that_is_shifted_is_named():
    assert find_shifts(two_actions()) == []
    (found,) = find_shifts(in_other_rows(two_actions(), 1, columns=[1]))
    assert (found.action, found.rows, found.state) == ("v", 1, "y")
    assert [shift.action for shift in find_shifts(in_other_rows(two_actions(), -1))] == ["u", "v"]


@pytest.mark.parametrize("gain", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("derivative", [0.0, 5.0])
@pytest.mark.parametrize("explored", [0.0, 0.3])
def test_feedback_on_noisy_measurements_is_no_shift(gain, derivative, explored):
    """The action of the next row tells of the noise in its state; it did not cause it."""
    rng = np.random.default_rng(0)
    transition, control = np.array([[0.99, 0.1], [-0.1, 0.97]]), np.array([0.0, 0.1])
    state, last, states, actions = np.zeros(2), np.zeros(2), [], []
    for _ in range(2000):
        seen = state + 0.1 * rng.normal(size=2)
        given = -gain * seen.sum() - derivative * (seen - last)[0] + explored * rng.normal()
        states.append(seen)
        actions.append([given])
        state, last = transition @ state + control * given + 0.02 * rng.normal(size=2), seen
    assert find_shifts(ms.Episodes.of([([*states, state], actions)])) == []


def test_errors_on_held_out_blocks_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(205, 4)) @ rng.normal(size=(4, 4)) + 3
    found = Products.of(table).errors([0, 2], [1, 3])
    scaled = (table - table.mean(axis=0)) / table.std(axis=0)
    blocks = np.array_split(scaled, BLOCKS)
    for number, block in enumerate(blocks):
        others = np.concatenate(blocks[1 - number % 2 :: 2])
        weights, *_ = np.linalg.lstsq(others[:, [0, 2]], others[:, [1, 3]], rcond=None)
        expected = ((block[:, [1, 3]] - block[:, [0, 2]] @ weights) ** 2).mean(axis=0)
        np.testing.assert_allclose(found[number], expected, rtol=1e-6)


def with_column(episodes, values, name):
    states = np.column_stack([episodes.states, values])
    return replace(episodes, states=states, state_names=(*episodes.state_names, name))


def test_columns_that_are_functions_of_others_are_named():
    plain = oscillator_episodes(4, 100, noise=0.01)
    position, velocity = plain.states.T
    inches = with_column(plain, np.round(position / 0.0254 + 7, 2), "inches")
    (found,) = find_functions(inches)
    assert (found.kind, found.name, list(found.others)) == ("state", "inches", ["position"])
    assert found.others["position"] == pytest.approx(1 / 0.0254, rel=1e-3)
    (found,) = find_functions(with_column(plain, 2 * position - 0.5 * velocity, "sum"))
    assert found.others == pytest.approx({"position": 2.0, "velocity": -0.5})
    assert "2 position and -0.5 velocity" in found.remark
    assert find_functions(with_column(plain, position + 0.02 * velocity**2, "other")) == []
    assert find_functions(with_column(plain, np.full(len(position), 2.0), "constant")) == []


def test_an_action_that_is_a_feedback_cannot_be_told_from_the_plant():
    plain = oscillator_episodes(4, 100, noise=0.1)
    before = np.delete(plain.states, plain.state_offsets + plain.lengths, axis=0)
    (found,) = find_functions(replace(plain, actions=before @ np.array([[-2.0], [-1.0]])))
    assert found.others == pytest.approx({"position": -2.0, "velocity": -1.0})
    assert "log runs with other actions too" in found.remark


def test_ends_of_ranges_where_many_samples_are():
    plain = oscillator_episodes(4, 300, noise=0.01)
    clipped = replace(
        plain, states=np.maximum(plain.states, [[-0.1, -9]]), actions=np.minimum(plain.actions, 0.5)
    )
    state, action = find_limits(clipped)
    assert (state.name, state.value) == ("position", -0.1)
    assert state.share == np.mean(clipped.states[:, 0] == -0.1)
    assert (action.name, action.value, action.kind) == ("force", 0.5, "action")
    assert 0.2 < action.share < 0.3
    switched = replace(plain, actions=np.sign(plain.actions))
    stairs = replace(plain, actions=np.repeat(np.arange(40.0), 30)[:, None])
    assert find_limits(plain) == find_limits(switched) == find_limits(stairs) == []


def test_a_frozen_sensor():
    plain = replace(oscillator_episodes(4, 300, noise=0.01), origins=tuple("abcd"))
    row = plain.state_offsets[2] + 100
    rows = slice(row, row + 12)
    (found,) = find_dropouts(with_values(plain, rows, 0, plain.states[row, 0] - 3))
    assert found == Frozen("position", 1, 12, "c", 100)
    whole = plain.states.copy()
    whole[rows] = whole[row] - 3
    assert [each.name for each in find_dropouts(plain.with_states(whole))] == ["position", "velocity"]


def test_a_plant_at_rest_is_not_frozen():
    """Quantised, it stands still, then is pushed hard."""
    still = np.zeros((200, 2))
    still[100:, 0] = np.round(np.arange(100) ** 2.0)
    still[:, 1] = np.concatenate([[0], np.diff(still[:, 0])])
    push = np.zeros((199, 1))
    push[99:] = 2.0
    assert find_dropouts(ms.Episodes.of([(still, push)])) == []


def test_samples_that_are_lost_and_written_as_zero():
    rng = np.random.default_rng(0)
    plain = oscillator_episodes(4, 300, noise=0.01)
    plain = plain.with_states(plain.states + 20)
    rows = np.sort(rng.choice(np.arange(1, 250), 6, replace=False) + 302)
    (found,) = find_dropouts(with_values(plain, rows, 1, 0.0))
    assert (found.name, found.value, found.episode) == ("velocity", 0.0, "episode 1")
    assert isinstance(found, Drops)
    assert found.step == rows[0] - plain.state_offsets[1]
    assert found.times == 1 + (np.diff(rows) > 1).sum()


def many_logs(change=None, num=8, per_file=1):
    """Logs of one oscillator; `change` is done to the third file."""
    parts = [oscillator_episodes(per_file, 80, noise=0.02, seed=seed) for seed in range(num)]
    if change is not None:
        parts[2] = change(parts[2])
    joined = parts[0]
    for part in parts[1:]:
        joined = ms.data.join(joined, part)
    names = [f"{number}.csv" for number in range(num)]
    origins = names if per_file == 1 else [f"{n}, episode {k}" for n in names for k in range(per_file)]
    return replace(joined, origins=tuple(origins))


CHANGES = {
    "other unit": (
        lambda log: log.with_states(log.states * [[57.3, 1]]),
        "position varies by|a linear model",
    ),
    "offset": (lambda log: log.with_states(log.states + np.array([[30.0, 0]])), "the mean of position"),
    "swapped columns": (lambda log: log.with_states(log.states * [[1, 0]]), "velocity varies by 0"),
    "noise": (
        lambda log: log.with_states(log.states + np.random.default_rng(0).normal(size=log.states.shape)),
        "a linear model of the others",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("per_file", [1, 3])
def test_the_log_that_is_unlike_the_others_is_named(name, per_file):
    change, words = CHANGES[name]
    (found,) = find_odd_logs(many_logs(change, per_file=per_file))
    assert found.log == "2.csv"
    assert re.match(words, found.what)
    assert find_odd_logs(many_logs(per_file=per_file)) == []


def test_an_angle_may_have_turned_in_one_log():
    turned = many_logs(lambda log: log.with_states(log.states + np.array([[200 * np.pi, 0]])))
    assert len(find_odd_logs(turned)) == 1
    assert find_odd_logs(replace(turned, turns=(2 * np.pi, 0.0))) == []
