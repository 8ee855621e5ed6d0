import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import polars as pl
import pytest

from multistep.data import load, save
from multistep.errors import InputError
from multistep.runs.atomic import replacing, write_text
from systems import random_episodes

FORMATS = ["data.npz", "data.csv", "data.parquet", "data.hdf5", "./data-v0", "lab/data-v0"]


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """Relative names are in a folder of the test's own, and so are Minari's datasets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def names_for(path, episodes):
    """A .csv file does not know its columns."""
    if not path.endswith(".csv"):
        return {}
    rewards = None if episodes.rewards is None else "reward"
    return {
        "states": episodes.state_names,
        "actions": episodes.action_names,
        "rewards": rewards,
        "episode": "episode",
    }


def assert_same(back, episodes):
    for name in ("states", "actions", "lengths", "rewards"):
        mine, theirs = getattr(back, name), getattr(episodes, name)
        np.testing.assert_array_equal(mine, theirs)
        assert mine is None or mine.dtype == theirs.dtype, name
    assert (back.state_names, back.action_names) == (episodes.state_names, episodes.action_names)


@pytest.mark.parametrize("path", FORMATS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rewards", [True, False])
def test_every_format_gives_back_the_same_bits(path, dtype, rewards):
    episodes = random_episodes([4, 1, 7], rewards=rewards, dtype=dtype)
    save(episodes, path)
    back = load(path, **names_for(path, episodes))
    assert_same(back, episodes)


def test_single_precision_survives_text_at_all_scales():
    bits = np.random.default_rng(0).integers(0, 2**32, 60_000, dtype=np.uint32).view(np.float32)
    values = bits[np.isfinite(bits)][:50_000].reshape(-1, 1)
    episodes = random_episodes([len(values) - 1], state_size=1, dtype=np.float32).with_states(values)
    save(episodes, "data.csv")
    assert_same(load("data.csv", **names_for("data.csv", episodes)), episodes)


def test_csv_by_hand_one_file_per_episode(tmp_path):
    (tmp_path / "a.csv").write_text("t, x ,theta,u\n0,1,10,0.1\n1,2,20,0.2\n2,3,30,0.3\n")
    (tmp_path / "b.csv").write_text("t;x;theta;u\n0;4;40;0.4\n1;5;50;\n\n\n")
    episodes = load("*.csv", states=["theta", "x"], actions=["u"])
    np.testing.assert_array_equal(episodes.lengths, [2, 1])
    np.testing.assert_array_equal(episodes[0].states, [[10, 1], [20, 2], [30, 3]])
    np.testing.assert_array_equal(episodes[0].actions, [[0.1], [0.2]])
    np.testing.assert_array_equal(episodes[1].states, [[40, 4], [50, 5]])


def test_experiments_side_by_side_become_episodes_of_their_own(tmp_path):
    """The second experiment is shorter, a line is blank, a column is empty and has no name; `mode` belongs to
    both."""
    (tmp_path / "a.csv").write_text(
        '"u1","u2","y1","y2","mode","Ts",\n1,5,10,50,0,4,\n2,6,20,60,0,,\n3,,30,,0,,\n\n'
    )
    episodes = load("a.csv", states=["y=y1,y2", "mode"], actions=["u=u1,u2"])
    np.testing.assert_array_equal(episodes[0].states, [[10, 0], [20, 0], [30, 0]])
    np.testing.assert_array_equal(episodes[0].actions, [[1], [2]])
    np.testing.assert_array_equal(episodes[1].states, [[50, 0], [60, 0]])
    np.testing.assert_array_equal(episodes[1].actions, [[5]])
    assert (episodes.state_names, episodes.action_names) == (("y", "mode"), ("u",))
    with pytest.raises(InputError, match="2 and 3 experiments side by side"):
        load("a.csv", states=["y=y1,y2"], actions=["u=u1,u2,Ts"])
    np.testing.assert_array_equal(
        load("a.csv", states=["level=y1"], actions=["u1"])[0].states, [[10], [20], [30]]
    )


@pytest.mark.parametrize("path", ["data.npz", "data.parquet", "data.hdf5", "./data-v0"])
def test_columns_can_be_picked(path):
    episodes = random_episodes([4, 2])
    save(episodes, path)
    back = load(path, states=["state_2", "state_0"])
    np.testing.assert_array_equal(back.states, episodes.states[:, [2, 0]])
    np.testing.assert_array_equal(back.actions, episodes.actions)
    with pytest.raises(InputError, match=r"no column speed; it has .*state_0, state_1, state_2"):
        load(path, states=["speed"])


def test_several_files_of_different_formats_are_one_after_the_other():
    save(random_episodes([3], seed=1), "a.npz")
    save(random_episodes([5], seed=2), "b.hdf5")
    episodes = load(["a.npz", "b.hdf5"])
    np.testing.assert_array_equal(episodes.lengths, [3, 5])
    np.testing.assert_array_equal(episodes[1].states, random_episodes([5], seed=2).states)


def test_a_parquet_file_of_others_needs_its_columns_named():
    pl.DataFrame({"x": [1, 2, 3], "u": [0.5, 0.25, None], "id": ["a", "a", "a"]}).write_parquet("log.parquet")
    with pytest.raises(InputError, match=r"which columns of log.parquet are the states .*x, u, id"):
        load("log.parquet")
    np.testing.assert_array_equal(load("log.parquet", states=["x"], actions=["u"]).states, [[1], [2], [3]])
    with pytest.raises(InputError, match=r"column id is of type String, not numbers"):
        load("log.parquet", states=["x", "id"], actions=["u"])


# Time


def test_time_with_a_gap_starts_a_new_episode(tmp_path):
    times = [0, 1, 2, 3, 4, 8, 9, 10, 20, 30]
    (tmp_path / "a.csv").write_text("t,x,u\n" + "".join(f"{t},{10 * t},1\n" for t in times))
    with pytest.warns(
        UserWarning, match=r"a.csv has 3 gaps in time, the first before row 6 \(4 instead of 1\)"
    ):
        episodes = load("a.csv", states=["x"], actions=["u"], time="t")
    np.testing.assert_array_equal(episodes.lengths, [4, 2])
    np.testing.assert_array_equal(episodes[1].states, [[80], [90], [100]])


def test_time_must_increase_within_an_episode(tmp_path):
    (tmp_path / "a.csv").write_text("e,t,x,u\n0,0,1,1\n0,1,1,1\n0,2,1,1\n1,0,2,2\n1,1,2,2\n1,0.5,2,2\n")
    with pytest.raises(
        InputError, match=r"a.csv, row 6: the time t is 0.5 after 1; it must increase .*: sort the rows"
    ):
        load("a.csv", states=["x"], actions=["u"], time="t", episode="e")
    with pytest.raises(InputError, match=r"row 4: the time t is 0 after 2"):
        load("a.csv", states=["x"], actions=["u"], time="t")


def test_files_with_other_time_steps_get_a_note(tmp_path):
    for name, step in (("a", 0.1), ("b", 0.3)):
        (tmp_path / f"{name}.csv").write_text("t,x,u\n" + "".join(f"{k * step},{k},1\n" for k in range(9)))
    with pytest.warns(UserWarning, match=r"time step is 0.1 in a.csv but 0.3 in b.csv"):
        load("*.csv", states=["x"], actions=["u"], time="t")


def test_times_of_day_are_read_as_seconds():
    times = pl.datetime_range(pl.datetime(2020, 1, 1), pl.datetime(2020, 1, 1, 0, 0, 9), "1s", eager=True)
    pl.DataFrame({"t": times, "x": range(10), "u": range(10)}).with_row_index().filter(
        pl.col("index") != 5
    ).write_parquet("t.parquet")
    with pytest.warns(UserWarning, match=r"1 gap in time, the first before row 6 \(2 instead of 1\)"):
        assert len(load("t.parquet", states=["x"], actions=["u"], time="t")) == 2


# D4RL


def d4rl_arrays(lengths, *, seed=0):
    """Rows as D4RL has them, and the episodes that they came from; the second one ended by itself."""
    episodes = random_episodes(lengths, rewards=True, seed=seed, dtype=np.float32)
    ends = np.cumsum(lengths) - 1
    parts = [episodes[number] for number in range(len(episodes))]
    arrays = {
        "observations": np.concatenate([part.states[:-1] for part in parts]),
        "next_observations": np.concatenate([part.states[1:] for part in parts]),
        "actions": episodes.actions,
        "rewards": episodes.rewards,
        "terminals": np.isin(np.arange(sum(lengths)), ends[1:2]),
        "timeouts": np.isin(np.arange(sum(lengths)), [*ends[:1], *ends[2:]]),
        "infos/qpos": np.zeros((sum(lengths), 2)),
    }
    return arrays, episodes


def write_hdf5(path, arrays):
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


@pytest.mark.parametrize("without", [(), ("timeouts",), ("timeouts", "terminals"), ("infos/qpos",)])
def test_d4rl_with_next_observations_is_whole(without):
    arrays, episodes = d4rl_arrays([5, 3, 7, 1])
    write_hdf5("data.hdf5", {name: values for name, values in arrays.items() if name not in without})
    assert_same(load("data.hdf5"), episodes)


def test_d4rl_without_next_observations_leaves_out_the_last_action():
    arrays, episodes = d4rl_arrays([5, 3, 7, 1])
    del arrays["next_observations"]
    write_hdf5("data.hdf5", arrays)
    with pytest.warns(UserWarning, match="1 episode of one row whose outcome was not written: left out"):
        back = load("data.hdf5")
    np.testing.assert_array_equal(back.lengths, [4, 2, 6])  # the episode of one row has no step left
    for number in range(3):
        np.testing.assert_array_equal(back[number].states, episodes[number].states[:-1])
        np.testing.assert_array_equal(back[number].actions, episodes[number].actions[:-1])
        np.testing.assert_array_equal(back[number].rewards, episodes[number].rewards[:-1])


def test_d4rl_that_stops_in_the_middle_of_an_episode():
    arrays, episodes = d4rl_arrays([5, 3, 7])
    write_hdf5("data.hdf5", {name: values[:12] for name, values in arrays.items()})
    back = load("data.hdf5")
    np.testing.assert_array_equal(back.lengths, [5, 3, 4])
    np.testing.assert_array_equal(back[2].states, episodes[2].states[:5])


def test_d4rl_in_pieces(monkeypatch):
    """Large files are read in pieces: their edges may fall anywhere."""
    arrays, episodes = d4rl_arrays([5, 3, 7, 2])
    write_hdf5("with.hdf5", arrays)
    del arrays["next_observations"]
    write_hdf5("without.hdf5", arrays)
    whole = load("without.hdf5")
    for chunk in range(1, 9):
        monkeypatch.setattr("multistep.data.hdf5_files.CHUNK", chunk)
        assert_same(load("with.hdf5"), episodes)
        assert_same(load("without.hdf5"), whole)


def test_d4rl_ends_that_are_not_marked():
    arrays, episodes = d4rl_arrays([5, 3, 7])
    arrays["timeouts"][:] = False
    write_hdf5("data.hdf5", arrays)
    with pytest.warns(
        UserWarning,
        match="1 rows that do not lead to the row after and are not marked as an end, the first is 4",
    ):
        assert_same(load("data.hdf5"), episodes)
    del arrays["timeouts"], arrays["next_observations"]
    write_hdf5("data.hdf5", arrays)
    with pytest.warns(UserWarning, match="neither timeouts nor next_observations"):
        np.testing.assert_array_equal(load("data.hdf5").lengths, [7, 6])


def test_d4rl_shuffled_transitions_are_refused():
    arrays, _ = d4rl_arrays([50])
    order = np.random.default_rng(0).permutation(50)
    write_hdf5("data.hdf5", {name: values[order] for name, values in arrays.items()})
    with pytest.raises(InputError, match="single transitions out of order"):
        load("data.hdf5")


# Minari


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # its recorder's own
def test_minari_reads_what_minari_wrote():
    """A dataset of Minari's own recorder, from a real environment."""
    import gymnasium
    import minari

    environment = minari.DataCollector(gymnasium.make("Pendulum-v1", max_episode_steps=20))
    observed = []
    for seed in range(3):
        observed.append([environment.reset(seed=seed)[0]])
        for _ in range(20):
            observed[-1].append(environment.step(environment.action_space.sample())[0])
    environment.create_dataset(
        "pendulum/test-v0",
        algorithm_name="random",
        author="a",
        author_email="a@b.c",
        code_permalink="-",
        description="-",
        eval_env="Pendulum-v1",
    )
    environment.close()
    episodes = load("pendulum/test-v0")
    np.testing.assert_array_equal(episodes.lengths, [20, 20, 20])
    np.testing.assert_array_equal(episodes.states, np.concatenate(observed))
    assert episodes.rewards is not None
    with pytest.raises(
        InputError,
        match=r"no Minari dataset pendulum/test-v1 in .* \(there: pendulum/test-v0\): check the id",
    ):
        load("pendulum/test-v1")
    with pytest.raises(InputError, match="There is a dataset or folder pendulum/test-v0 already"):
        save(episodes, "pendulum/test-v0")


def test_minari_reads_what_we_wrote():
    import minari

    episodes = random_episodes([4, 2], rewards=True, dtype=np.float32)
    save(episodes, "lab/plant-v3")
    dataset = minari.load_dataset("lab/plant-v3")
    assert (dataset.total_episodes, dataset.total_steps) == (2, 6)
    for number, episode in enumerate(dataset.iterate_episodes()):
        np.testing.assert_array_equal(episode.observations, episodes[number].states)
        np.testing.assert_array_equal(episode.rewards, episodes[number].rewards)
        assert episode.truncations[-1]


# Bad input


def write(path, content):
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


ROWS = "".join(f"{row},1\n" for row in range(1, 731))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", "", ["is empty"]),
        ("header.csv", "x,u\n", ["no rows"]),
        ("text.csv", "x,u\n1,1\noops,1\n3,1\n", ["row 2", "column x", "'oops'", "remove these rows"]),
        ("hole.csv", "x,u\n1,1\n2,\n3,1\n", ["row 2", "action u is empty", "repair"]),
        ("inf.csv", "x,u\n1,1\ninf,1\n3,1\n", ["row 2", "state x is empty, NaN or infinite", "repair"]),
        ("short.csv", "x,u\n1,1\n", ["row 1", "at least two rows"]),
        ("columns.csv", "y,u\n1,1\n2,2\n", ["no column x", "it has y, u"]),
        (
            "wider.csv",
            f"x,u\n{ROWS}731,1,1\n732,1\n",
            ["row 731 has 3 cells, the header has 2", "repair this row"],
        ),
        ("narrower.csv", f"x,u\n{ROWS}731\n732,1\n", ["row 731 has 1 cell,", "repair this row"]),
        ("quoted.csv", 'x,u\n"1,5",1\n2,1\n', ["row 1", "'1,5'"]),
        ("twice.csv", "x,u,x\n1,1,1\n2,2,2\n", ["more than one column named x", "its own name"]),
        ("blank.csv", "x,u\n,\n,\n", ["are empty", "no episode"]),
        ("binary.csv", b"\xff\xfex,u\n\xff\xfe\x00\x01\n", ["is not text in UTF-8"]),
        ("garbage.npz", b"PK\x03\x04 garbage", ["cannot be read", "write it again"]),
        ("garbage.parquet", b"PAR1 garbage", ["cannot be read", "write it again"]),
        ("garbage.hdf5", b"\x89HDF\r\n\x1a\n garbage", ["cannot be read", "write it again"]),
        ("thing.xyz", "x", ["'.xyz'", ".npz, .csv, .parquet, .hdf5"]),
    ],
)
def test_bad_files_get_one_sentence_that_names_the_file(name, content, words):
    write(name, content)
    with pytest.raises(InputError) as caught:
        load(
            name, states=["x"] if name.endswith("csv") else (), actions=["u"] if name.endswith("csv") else ()
        )
    message = str(caught.value)
    assert "\n" not in message
    for word in [name, *words]:
        assert word in message


@pytest.mark.parametrize("name", ["data.npz", "data.hdf5", "data.parquet"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated_files_are_refused(name, share):
    save(random_episodes([3000, 2000], rewards=True), name)
    with open(name, "rb") as file:
        content = file.read()
    write(name, content[: int(share * len(content))])
    with pytest.raises(InputError, match=rf"{name} cannot be read as .*write it again") as caught:
        load(name)
    assert "\n" not in str(caught.value)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


def test_pickles_are_refused_and_never_executed():
    np.savez("a.npz", states=np.array([[Bomb()]], object), actions=np.zeros((3, 1)), lengths=np.array([2]))
    with pytest.raises(InputError, match=r"a.npz cannot be read .*without object arrays"):
        load("a.npz")
    write("b.npz", np.array([Bomb()], object).dumps())
    with pytest.raises(InputError, match=r"b.npz cannot be read .*without object arrays"):
        load("b.npz")


def test_npz_without_the_right_arrays():
    np.savez("a.npz", states=np.zeros((3, 1)))
    with pytest.raises(InputError, match="no array actions, lengths"):
        load("a.npz")
    np.savez("b.npz", states=np.zeros((3, 1)), actions=np.zeros((3, 1)), lengths=np.array([2]))
    with pytest.raises(InputError, match=r"actions of b.npz has 3 rows, its lengths ask for 2"):
        load("b.npz")
    np.savez("d.npz", states=np.full((3, 1), np.nan), actions=np.zeros((2, 1)), lengths=np.array([2]))
    with pytest.raises(InputError, match=r"d.npz, row 0 \(episode 0\): the state state_0 is empty, NaN"):
        load("d.npz")
    np.savez("e.npz", states=np.array([["1"], ["2"]]), actions=np.zeros((1, 1)), lengths=np.array([1]))
    with pytest.raises(InputError, match=r"states of e.npz are of type <U1: write them as numbers"):
        load("e.npz")


def test_hdf5_without_the_right_arrays():
    write_hdf5("a.hdf5", {"states": np.zeros((3, 1))})
    with pytest.raises(InputError, match=r"a.hdf5 has no array observations, actions \(it has states\)"):
        load("a.hdf5")
    write_hdf5("b.hdf5", {"observations": np.zeros((3, 1)), "actions": np.zeros((2, 1))})
    with pytest.raises(InputError, match=r"actions of b.hdf5 has 2 rows, observations has 3"):
        load("b.hdf5")


@pytest.mark.parametrize("path", ["data.npz", "data.hdf5", "./data-v0"])
def test_the_place_of_a_missing_value(path):
    episodes = random_episodes([4, 3])
    states = episodes.states.copy()
    states[7, 1] = np.nan  # the third state of the second episode
    save(episodes.with_states(states), path)
    row = {"data.npz": 7, "data.hdf5": 6, "./data-v0": 2}[path]
    with pytest.raises(
        InputError, match=rf"data.*, row {row} \(episode 1\): the state state_1 is empty, NaN or infinite"
    ):
        load(path)


@pytest.mark.parametrize("path", ["data.npz", "data.csv", "data.hdf5"])
def test_episodes_are_cut_where_values_are_missing(path):
    """Beside a plain loop over the steps."""
    episodes = random_episodes([9, 6, 4], rewards=True)
    rng = np.random.default_rng(1)
    for values in (episodes.states, episodes.actions, episodes.rewards):
        values[rng.integers(0, len(values), 2), ...] = np.nan
    episodes.states[0] = np.inf
    expected = []
    for episode in (episodes[number] for number in range(len(episodes))):
        piece = []
        for step in range(len(episode.actions) + 1):
            known = step < len(episode.actions) and all(
                np.isfinite(part).all()
                for part in (episode.states[step : step + 2], episode.actions[step], episode.rewards[step])
            )
            if known:
                piece.append(step)
            elif piece:
                expected.append(
                    (episode.states[piece[0] : piece[-1] + 2], episode.actions[piece], episode.rewards[piece])
                )
                piece = []
    assert len(expected) > 3
    save(episodes, path)
    with pytest.warns(UserWarning, match=rf"its 3 episodes are cut there into {len(expected)}"):
        found = load(path, **names_for(path, episodes), missing="cut")
    assert len(found) == len(expected)
    for number, parts in enumerate(expected):
        for mine, theirs in zip(found[number], parts, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(InputError, match="is empty, NaN or infinite"):
        load(path, **names_for(path, episodes))


def test_a_file_without_a_whole_step_is_refused():
    episodes = random_episodes([3])
    episodes.actions[...] = np.nan
    save(episodes, "data.npz")
    with pytest.raises(InputError, match=r"Every step of data\.npz lacks a value"):
        load("data.npz", missing="cut")


def test_the_ending_may_be_in_capitals():
    episodes = random_episodes([4, 5])
    save(episodes, "data.npz")
    Path("data.npz").rename("DATA.NPZ")
    assert_same(load("DATA.NPZ"), episodes)


def test_parquet_with_nulls_and_mixed_types():
    pl.DataFrame({"x": [1.0, None, 3.0, 4.0], "u": [1, 2, 3, 4]}).write_parquet("a.parquet")
    with pytest.raises(InputError, match=r"a.parquet, row 2 \(episode 0\): the state x is empty"):
        load("a.parquet", states=["x"], actions=["u"])
    pl.DataFrame({"x": [1.0, 2.0], "y": np.array([1, 2], np.float32), "u": [True, False]}).write_parquet(
        "b.parquet"
    )
    episodes = load("b.parquet", states=["x", "y"], actions=["u"])  # numbers of different kinds are numbers
    assert episodes.states.dtype == np.float64
    np.testing.assert_array_equal(episodes.actions, [[1]])


def test_a_name_with_brackets_is_a_name():
    """Polars would take it for a pattern and read another file."""
    for name, rows in (("run[1]", 3), ("run1", 5)):
        write(f"{name}.csv", "x,u\n" + "1,1\n" * rows)
        pl.DataFrame({"x": [1.0] * rows, "u": [1.0] * rows}).write_parquet(f"{name}.parquet")
    for ending in ("csv", "parquet"):
        assert load(f"run[1].{ending}", states=["x"], actions=["u"]).num_steps == 2


def test_a_quote_in_the_header_swallows_no_rows():
    rows = "".join(f"{row},1,3\n" for row in range(20))
    write("a.csv", f'x,u,w (")\n{rows}')
    np.testing.assert_array_equal(load("a.csv", states=["x"], actions=["u"]).states[:, 0], range(20))
    write("b.csv", 'x,u,w (")\n' + rows.replace("9,1,3\n", '9,1,"3\n', 1))
    with pytest.raises(InputError, match=r"b.csv"):
        load("b.csv", states=["x"], actions=["u"])


def test_the_same_file_twice_is_refused():
    save(random_episodes([3]), "a.npz")
    with pytest.raises(InputError, match=r"a.npz is named more than once"):
        load(["a.npz", "./a*.npz"])


def test_rows_without_an_id_are_refused():
    write("a.csv", "e,x,u\n0,1,1\n0,2,1\n,3,1\n,4,1\n")
    with pytest.raises(InputError, match=r"a.csv, row 3: the episode e is empty"):
        load("a.csv", states=["x"], actions=["u"], episode="e")


def test_two_parquet_files_of_our_own_go_together():
    for name, seed in (("a", 0), ("b", 1)):
        save(random_episodes([3, 4], seed=seed), f"{name}.parquet")
    np.testing.assert_array_equal(load("*.parquet").lengths, [3, 4, 3, 4])


def test_a_path_is_not_taken_for_an_id_of_minari():
    save(random_episodes([3]), "lab/plant-v0")
    with pytest.raises(InputError, match=r"There is no Minari dataset at ./lab/plant-v0"):
        load("./lab/plant-v0")


@pytest.mark.parametrize("name", ["x.y-v0", "a.csv/x-v0", "t/disc-v0", "./blocked/x-v0"])
def test_names_that_minari_does_not_take(name):
    write("blocked", "")
    with pytest.raises(InputError, match=r"is no id that Minari takes|Cannot write"):
        save(random_episodes([3]), name)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("rewards", (8, 2)), ("terminals", (8, 2)), ("next_observations", (8, 1)), ("next_observations", (8,))],
)
def test_d4rl_arrays_of_the_wrong_shape(name, shape):
    arrays, _ = d4rl_arrays([5, 3])
    write_hdf5("a.hdf5", arrays | {name: np.zeros(shape)})
    with pytest.raises(InputError, match=rf"The array {name} of a.hdf5 has shape \({shape[0]}"):
        load("a.hdf5")


def test_the_row_of_a_missing_action_is_its_own():
    episodes = random_episodes([4, 3])
    episodes.actions[5, 1] = np.nan
    save(episodes, "a.npz")
    with pytest.raises(InputError, match=r"a.npz, row 5 \(episode 1\): the action action_1"):
        load("a.npz")


def test_missing_files_and_patterns(tmp_path):
    with pytest.raises(InputError, match=r"There is no file absent.csv"):
        load("absent.csv")
    with pytest.raises(InputError, match=r"No file matches the pattern \*.csv: check the name"):
        load("*.csv")
    with pytest.raises(InputError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(InputError, match="No files were given"):
        load([])


def test_options_without_use_and_names_given_twice():
    save(random_episodes([3]), "a.npz")
    save(random_episodes([3]), "b.csv")
    with pytest.raises(InputError, match=r"which columns of b.csv are the states"):
        load("b.csv")
    with pytest.raises(InputError, match="leave out episode"):
        load("a.npz", episode="episode")
    with pytest.raises(InputError, match="named more than once"):
        load("b.csv", states=["state_0"], actions=["state_0"])
    with pytest.raises(InputError, match="has no column when"):
        load("b.csv", states=["state_0"], actions=["action_0"], time="when")


def test_overlapping_episode_ids_are_refused():
    write("ids.csv", "e,x,u\n0,1,1\n0,2,1\n1,3,1\n1,4,1\n0,5,1\n0,6,1\n")
    with pytest.raises(InputError, match="row 5: episode 0 starts a second time"):
        load("ids.csv", states=["x"], actions=["u"], episode="e")
    write("a.csv", "e,x,u\n0,1,1\n0,2,1\n1,3,1\n1,4,1\n")
    write("b.csv", "e,x,u\n1,1,1\n1,2,1\n2,3,1\n2,4,1\n")
    with pytest.raises(InputError, match=r"Episode 1 is in a.csv and in b.csv: give each an id of its own"):
        load(["a.csv", "b.csv"], states=["x"], actions=["u"], episode="e")


def test_files_with_other_columns_do_not_go_together():
    save(random_episodes([3]), "a.npz")
    save(random_episodes([3], state_size=2), "b.npz")
    save(random_episodes([3], rewards=True), "c.npz")
    with pytest.raises(InputError, match=r"b.npz and a.npz have different columns"):
        load(["a.npz", "b.npz"])
    with pytest.raises(InputError, match=r"Only one of a.npz and c.npz has rewards"):
        load(["a.npz", "c.npz"])


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    write_text(tmp_path / "file.txt", "before")

    def fail():
        with replacing(tmp_path / "file.txt") as temporary:
            temporary.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert (tmp_path / "file.txt").read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]
    with pytest.raises(InputError, match="can be written ends in"):
        save(random_episodes([3]), tmp_path / "x.mat")
    (tmp_path / "blocked").write_text("")
    with pytest.raises(InputError, match="Cannot write"):
        save(random_episodes([3]), tmp_path / "blocked" / "x.npz")


FULL_DISK = """
import resource, sys
import numpy as np
import multistep as ms

rng = np.random.default_rng(0)
episodes = ms.Episodes.of([(rng.standard_normal((20_001, 3)), rng.standard_normal((20_000, 2)))])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    ms.save(episodes, sys.argv[1])
except ms.InputError as error:
    print(error)
"""


@pytest.mark.parametrize("path", FORMATS)
def test_on_a_full_disk_nothing_half_written_stays(tmp_path, path):
    """No file may grow past 100 kB in that process: its writes fail in the middle, as on a full disk."""
    (tmp_path / "minari").mkdir()
    answer = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, cwd=tmp_path
    )
    assert answer.stdout.startswith(
        f"Cannot write {path.removeprefix('./') if path.startswith('data') else path}"
    ), answer.stderr
    assert "free some space" in answer.stdout
    left = [entry for entry in tmp_path.rglob("*") if entry.is_file()]
    assert left == []


READ_WITHIN = """
import re, sys
import multistep as ms

def peak():  # in kB; getrusage would count what the parent process had before
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1))

before = peak()
ms.load(sys.argv[1])
print((peak() - before) * 1024)
"""


# Polars decodes up to about 450 MB ahead, however large the file: with 1 GB that is below 2.5 times
# (`multistep bench files`).
@pytest.mark.parametrize(("path", "ahead"), [("data.hdf5", 0), ("data.npz", 0), ("data.parquet", 550e6)])
def test_reading_stays_within_two_and_a_half_times_the_size(tmp_path, path, ahead):
    rng = np.random.default_rng(0)
    episodes = random_episodes([2], state_size=17, action_size=6)
    lengths = np.full(2000, 1000)
    episodes = type(episodes)(
        states=rng.standard_normal((lengths.sum() + len(lengths), 17), np.float32),
        actions=rng.standard_normal((lengths.sum(), 6), np.float32),
        lengths=lengths,
        state_names=episodes.state_names,
        action_names=episodes.action_names,
    )
    save(episodes, path)
    answer = subprocess.run(
        [sys.executable, "-c", READ_WITHIN, path], capture_output=True, text=True, check=True
    )
    size = (tmp_path / path).stat().st_size
    assert 0.5 * size < int(answer.stdout) < (2.5 if not ahead else 1.0) * size + ahead


@pytest.mark.parametrize("time", ["2024-05-01T12:00:{:05.2f}", "2024-05-01 12:00:{:05.2f}+02:00", "{:.2f}"])
def test_a_table_as_a_logger_writes_it(tmp_path, time):
    """Semicolons, decimal commas, dates, units in the header."""
    rows = [(time.format(n / 4), f"{n / 8:.3f}".replace(".", ","), f"{-n}") for n in range(9)]
    text = "\n".join(";".join(row) for row in [("t [s]", "level [V]", "u (%)"), *rows])
    (tmp_path / "log.csv").write_text(text + "\n")
    episodes = load(tmp_path / "log.csv", states=["level"], actions=["u"], time="t")
    np.testing.assert_array_equal(episodes.states[:, 0], np.arange(9) / 8)
    np.testing.assert_array_equal(episodes.actions[:, 0], -np.arange(8.0))
    assert episodes.state_names == ("level",)
    assert episodes.units == {"level": "V", "u": "%"}
    assert episodes.time_step == 0.25
    renamed = load(tmp_path / "log.csv", states=["h=level"], actions=["u (%)"])
    assert renamed.state_names == ("h",)
    assert renamed.action_names == ("u (%)",)
    assert renamed.units == {"h": "V", "u (%)": "%"}


def test_a_name_with_two_units_must_be_typed_whole(tmp_path):
    (tmp_path / "log.csv").write_text("a [rad],a [deg],u\n1,2,3\n1,2,3\n")
    with pytest.raises(InputError, match="no column a"):
        load(tmp_path / "log.csv", states=["a"], actions=["u"])
    assert load(tmp_path / "log.csv", states=["a [deg]"], actions=["u"]).states[0, 0] == 2


def test_a_date_in_a_state_is_no_number(tmp_path):
    (tmp_path / "log.csv").write_text("a,u\n2024-05-01,3\n2024-05-02,3\n")
    with pytest.raises(InputError, match="row 1, column a holds '2024-05-01'"):
        load(tmp_path / "log.csv", states=["a"], actions=["u"])


# Which episode it is


def test_pieces_after_a_gap_are_named_by_their_episode_and_row(tmp_path):
    times = {"one": [0, 1, 2, 9, 10, 11], "two": [0, 1, 2], "three": [0, 1, 7, 8, 9]}
    rows = [f"{name},{t},{t},1\n" for name, own in times.items() for t in own]
    (tmp_path / "a.csv").write_text("run,t,x,u\n" + "".join(rows))
    with pytest.warns(UserWarning, match="a.csv has 2 gaps in time"):
        found = load("a.csv", states=["x"], actions=["u"], episode="run", time="t")
    assert found.origins == (
        "a.csv, episode one",
        "a.csv, episode one, from row 4",
        "a.csv, episode two",
        "a.csv, episode three",
        "a.csv, episode three, from row 12",
    )
    assert [states[0, 0] for states in (found[n].states for n in range(5))] == [0, 9, 0, 0, 7]


def test_pieces_between_missing_values_keep_the_name_of_their_episode(tmp_path):
    cells = {"one": ["1", "2", "3"], "two": ["4", "5", "", "6", "7"], "three": ["8", "9"]}
    rows = [f"{name},{x},1\n" for name, own in cells.items() for x in own]
    (tmp_path / "a.csv").write_text("run,x,u\n" + "".join(rows))
    with pytest.warns(UserWarning, match="its 3 episodes are cut there into 4"):
        found = load("a.csv", states=["x"], actions=["u"], episode="run", missing="cut")
    assert found.origins == (
        "a.csv, episode one",
        "a.csv, episode two",
        "a.csv, episode two, from row 7",
        "a.csv, episode three",
    )
    with pytest.raises(InputError, match=r"row 6 \(episode two\): the state x is empty"):
        load("a.csv", states=["x"], actions=["u"], episode="run")


def test_a_single_record_with_gaps_is_named_by_rows(tmp_path):
    (tmp_path / "a.csv").write_text("t,x,u\n" + "".join(f"{t},{t},1\n" for t in (0, 1, 2, 8, 9)))
    with pytest.warns(UserWarning, match="a.csv has 1 gap in time"):
        assert load("a.csv", states=["x"], actions=["u"], time="t").origins == ("a.csv", "a.csv, from row 4")


def test_files_in_other_units_do_not_go_together(tmp_path):
    for name, header in (("a", "x [mm],u"), ("b", "x [m],u [V]"), ("c", "x,u")):
        (tmp_path / f"{name}.csv").write_text(f"{header}\n1,1\n2,1\n")
    with pytest.raises(InputError, match=r"x is in mm in a.csv but in m in b.csv: convert one of them"):
        load("*.csv", states=["x"], actions=["u"])
    assert load(["b.csv", "c.csv"], states=["x"], actions=["u"]).units == {"x": "m", "u": "V"}
    assert load(["c.csv", "b.csv"], states=["x"], actions=["u"]).units == {"x": "m", "u": "V"}


# Times as they are written


@pytest.mark.parametrize(
    ("header", "factor"), [("t [ms]", 1e-3), ("t (us)", 1e-6), ("t[min]", 60), ("t [h]", 3600), ("t [s]", 1)]
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_unit_of_the_time_column_makes_seconds_of_it(header, factor, ending):
    table = pl.DataFrame({header: [0, 50, 100, 150], "x": [1, 2, 3, 4], "u": [1, 1, 1, 1]})
    getattr(table, f"write_{ending}")(f"a.{ending}")
    for name in ("t", header):
        found = load(f"a.{ending}", states=["x"], actions=["u"], time=name)
        assert found.time_step == pytest.approx(50 * factor, rel=1e-5)


@pytest.mark.parametrize("time", ["2024-05-01T12:00:{:05.2f}", "2024-05-01 12:00:{:05.2f}+02:00"])
def test_times_as_text_are_read_from_every_table(time):
    table = pl.DataFrame({"t": [time.format(n / 4) for n in range(9)], "x": range(9), "u": range(9)})
    table.write_parquet("a.parquet")
    for source in ("a.parquet", table):
        assert load(source, states=["x"], actions=["u"], time="t").time_step == 0.25
    bad = table.with_columns(t=pl.lit("noon"))
    with pytest.raises(InputError, match="The frame, column t is of type String"):
        load(bad, states=["x"], actions=["u"], time="t")


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ("0,0.1,0.1", r"row 3: the time t is twice the same \(0\.1\); it must increase"),
        ("14.9,14.949999999999999,14.8", r"row 3: the time t is 14\.8 after 14\.95; it must"),
        ("0,0.1,", "row 3: the time t is empty; give"),
        (",0.1,0.2", "row 1: the time t is empty; give"),
        ("1700000000.2,1700000000.3,1700000000.1", r"row 3: the time t is 0\.2 before that of the row above"),
    ],
)
def test_what_is_wrong_with_a_time(tmp_path, times, words):
    (tmp_path / "a.csv").write_text("t,x,u\n" + "".join(f"{t},1,1\n" for t in times.split(",")))
    with pytest.raises(InputError, match=words):
        load("a.csv", states=["x"], actions=["u"], time="t")


# What is known besides the numbers


@pytest.mark.parametrize("name", ["b.csv", "b.parquet", "b.npz"])
def test_step_units_and_origins_are_kept(tmp_path, name):
    for log, runs in (("one", "aab"), ("two", "ccd")):
        rows = [f"{run},{50 * t},{t},1\n" for run in sorted(set(runs)) for t in range(4)]
        (tmp_path / f"{log}.csv").write_text("run,t [ms],x [mm],u [V]\n" + "".join(rows))
    found = load("*.csv", states=["x"], actions=["u"], episode="run", time="t")
    save(found, name)
    columns = {"states": ["x"], "actions": ["u"], "episode": "file", "time": "time"}
    back = load(name, **(columns if name == "b.csv" else {}))
    assert_same(back, found)
    assert (back.time_step, back.units) == (0.05, {"x": "mm", "u": "V"})
    origins = ["one.csv, episode a", "one.csv, episode b", "two.csv, episode c", "two.csv, episode d"]
    assert back.origins == tuple(f"b.csv, episode {o}" if name == "b.csv" else o for o in origins)


def test_files_are_taken_by_name_unless_the_user_says_otherwise():
    """The same files give the same episodes in the same order, however a shell or a user names them."""
    for name, length in (("b.npz", 3), ("a.csv", 4), ("c.npz", 5)):
        save(random_episodes([length]), name)
    names = {"states": random_episodes([3]).state_names, "actions": random_episodes([3]).action_names}
    np.testing.assert_array_equal(load(["c.npz", "a.csv", "b.npz"], **names).lengths, [4, 3, 5])
    np.testing.assert_array_equal(
        load(["c.npz", "*.csv", "b.npz"], **names, order="given").lengths, [5, 4, 3]
    )
