"""Data frames of polars and pandas become episodes, and episodes become frames."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import multistep as ms
from multistep.dynamics import LineConfig
from multistep.training import LeastSquares
from systems import oscillator_episodes, random_episodes

NAMES = {"states": ["position", "velocity"], "actions": ["force"]}


def same(first, second):
    assert (first.state_names, first.action_names) == (second.state_names, second.action_names)
    for name in ("states", "actions", "lengths"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def columns_of(episodes):
    """Columns of a table, written down by hand."""
    rows = [episodes[number] for number in range(len(episodes))]
    return {
        "run": [f"r{n}" for n, part in enumerate(rows) for _ in part.states],
        "t": [0.5 * step for part in rows for step in range(len(part.states))],
        "position": np.concatenate([part.states[:, 0] for part in rows]),
        "velocity": np.concatenate([part.states[:, 1] for part in rows]),
        "force": np.concatenate([np.append(part.actions[:, 0], np.nan) for part in rows]),
    }


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.LazyFrame, pd.DataFrame])
def test_a_frame_is_read_like_a_file(kind, tmp_path):
    episodes = oscillator_episodes(3, 20)
    columns = columns_of(episodes)
    found = ms.load(kind(columns), **NAMES, episode="run", time="t")
    same(found, episodes)
    assert found.time_step == 0.5
    assert found.origins == tuple(f"The frame, episode r{n}" for n in range(3))
    pl.DataFrame(columns).fill_nan(None).write_csv(tmp_path / "log.csv")
    same(found, ms.load(tmp_path / "log.csv", **NAMES, episode="run", time="t"))


def test_several_frames_are_several_logs():
    episodes = oscillator_episodes(2, 20)
    frames = [pd.DataFrame(columns_of(episodes.take([number]))) for number in range(2)]
    found = ms.load(frames, **NAMES)
    same(found, episodes)
    assert found.origins == ("Frame 0", "Frame 1")
    with pytest.raises(ms.InputError, match="Frame 1 is a str"):
        ms.load([frames[0], "other.csv"], **NAMES)


def test_kinds_of_columns_that_pandas_has():
    """Nullable numbers, categories, an index of times with a zone, 32 bits, integers as names."""
    times = pd.date_range("2024-05-01", periods=6, freq="250ms", tz="Europe/Stockholm", name="clock")
    frame = pd.DataFrame(
        {
            "run": pd.Categorical(["a"] * 3 + ["b"] * 3),
            0: pd.array([1, 2, 3, 4, 5, None], dtype="Int64"),
            "x": np.arange(6, dtype=np.float32),
            "u": pd.array([0.5, 1.5, None, 2.5, 3.5, None], dtype="Float64"),
        },
        index=times,
    )
    found = ms.load(frame, states=["x"], actions=["u", "0"], episode="run", time="clock")
    np.testing.assert_array_equal(found.actions, [[0.5, 1], [1.5, 2], [2.5, 4], [3.5, 5]])
    assert found.states.dtype == np.float32
    assert (found.time_step, list(found.lengths)) == (0.25, [2, 2])
    frame.loc[times[4], "u"] = None
    with pytest.raises(ms.InputError, match=r"The frame, row 5 .*the action u is empty"):
        ms.load(frame, states=["x"], actions=["u"], episode="run")
    cut = ms.load(frame[["x", "u"]].iloc[:3], states=["x"], actions=["u"], missing="cut")
    assert list(cut.lengths) == [2]


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame])
def test_what_cannot_be_read_gets_a_sentence(kind):
    frame = kind({"x": [1.0, 2.0, 3.0], "u": ["a", "b", "c"]})
    with pytest.raises(ms.InputError, match="The frame has no column y; it has x, u"):
        ms.load(frame, states=["y"], actions=["u"])
    with pytest.raises(ms.InputError, match="The frame, column u is of type String, not numbers"):
        ms.load(frame, states=["x"], actions=["u"])
    with pytest.raises(ms.InputError, match="Say which columns of the frame are the actions"):
        ms.load(frame, states=["x"])
    with pytest.raises(ms.InputError, match="The frame has no rows"):
        ms.load(kind({"x": [], "u": []}), states=["x"], actions=["u"])


def test_columns_of_one_name():
    twice = pd.DataFrame(np.zeros((3, 2)), columns=["x", "x"])
    with pytest.raises(ms.InputError, match="The frame has more than one column x"):
        ms.load(twice, states=["x"], actions=["x"])


@pytest.mark.parametrize("rewards", [True, False])
@pytest.mark.parametrize("kind", ["to_polars", "to_pandas"])
def test_there_and_back_again(kind, rewards):
    episodes = replace(random_episodes([3, 5], rewards=rewards), time_step=0.1)
    frame = getattr(episodes, kind)()
    names = ["episode", "time", "state_0", "state_1", "state_2", "action_0", "action_1"]
    assert list(frame.columns) == names + ["reward"] * rewards
    np.testing.assert_allclose(frame["time"], 0.1 * np.array([0, 1, 2, 3, 0, 1, 2, 3, 4, 5]))
    back = ms.load(
        frame,
        states=episodes.state_names,
        actions=episodes.action_names,
        rewards="reward" if rewards else None,
        episode="episode",
        time="time",
    )
    same(back, episodes)
    assert back.time_step == 0.1
    if rewards:
        np.testing.assert_array_equal(back.rewards, episodes.rewards)
    assert "time" not in getattr(random_episodes([3]), kind)().columns


def test_a_rollout_with_names(getkey):
    episodes = replace(oscillator_episodes(3, 20), time_step=0.5)
    model = LeastSquares(LineConfig()).fit(episodes, episodes, key=getkey(), score=lambda *_: 0.0).model
    states = model.rollout(episodes[0].states[0], episodes[0].actions)
    for frame in (model.to_polars(states), model.to_pandas(states)):
        assert list(frame.columns) == ["step", "time", "position", "velocity"]
        np.testing.assert_array_equal(frame["velocity"], states[:, 1])
        np.testing.assert_array_equal(frame["time"], 0.5 * np.arange(1, 21))
    with pytest.raises(ms.InputError, match="in each row one number for each of position, velocity"):
        model.to_polars(states[0])


def test_without_pandas_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ms.InputError, match=r"pandas is not installed: install it, or take to_polars\(\)"):
        oscillator_episodes(1, 5).to_pandas()


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (3, "an int"),
        ([3], "an int"),
        (pl.Series([1.0, 2.0]), "a Series"),
        (pd.Series([1.0, 2.0]), "a Series"),
        (np.zeros((4, 2)), "a ndarray"),
    ],
)
def test_what_is_neither_a_file_nor_a_frame(given, what):
    with pytest.raises(ms.InputError, match=f"load was given {what}: give names of files"):
        ms.load(given, **NAMES)


def test_a_series_of_names_is_names(tmp_path):
    ms.save(oscillator_episodes(1, 5), tmp_path / "a.npz")
    assert len(ms.load(pd.Series([str(tmp_path / "a.npz")]))) == 1
