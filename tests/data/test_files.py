import numpy as np
import pytest

from multistep.data import load, save
from multistep.data.atomic import replacing, write_text
from multistep.errors import InputError
from systems import random_episodes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rewards", [True, False])
def test_npz_gives_back_the_same_bits(tmp_path, dtype, rewards):
    episodes = random_episodes([4, 1, 7], rewards=rewards, dtype=dtype)
    save(episodes, tmp_path / "data.npz")
    back = load(tmp_path / "data.npz")
    for name in ("states", "actions", "lengths", "rewards"):
        np.testing.assert_array_equal(getattr(back, name), getattr(episodes, name))
    assert back.states.dtype == dtype
    assert (back.state_names, back.action_names) == (episodes.state_names, episodes.action_names)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_csv_gives_back_the_same_numbers(tmp_path, dtype):
    episodes = random_episodes([4, 1, 7], rewards=True, dtype=dtype)
    save(episodes, tmp_path / "data.csv")
    back = load(
        tmp_path / "data.csv", states=episodes.state_names, actions=episodes.action_names, rewards="reward", episode="episode"
    )
    for name in ("states", "actions", "lengths", "rewards"):
        np.testing.assert_array_equal(np.asarray(getattr(back, name)).astype(dtype), getattr(episodes, name))


def test_csv_by_hand_one_file_per_episode(tmp_path):
    (tmp_path / "a.csv").write_text("t, x ,theta,u\n0,1,10,0.1\n1,2,20,0.2\n2,3,30,0.3\n")
    (tmp_path / "b.csv").write_text("t,x,theta,u\n0,4,40,0.4\n1,5,50,\n")
    episodes = load(str(tmp_path / "*.csv"), states=["theta", "x"], actions=["u"])
    np.testing.assert_array_equal(episodes.lengths, [2, 1])
    np.testing.assert_array_equal(episodes[0].states, [[10, 1], [20, 2], [30, 3]])
    np.testing.assert_array_equal(episodes[0].actions, [[0.1], [0.2]])
    np.testing.assert_array_equal(episodes[1].states, [[40, 4], [50, 5]])


def test_columns_of_npz_can_be_picked(tmp_path):
    episodes = random_episodes([4, 2])
    save(episodes, tmp_path / "data.npz")
    back = load(tmp_path / "data.npz", states=["state_2", "state_0"])
    np.testing.assert_array_equal(back.states, episodes.states[:, [2, 0]])


def bad(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", "", ["is empty"]),
        ("header.csv", "x,u\n", ["no rows"]),
        ("text.csv", "x,u\n1,1\noops,1\n3,1\n", ["row 2", "column x", "'oops'"]),
        ("hole.csv", "x,u\n1,1\n2,\n3,1\n", ["row 2", "column u", "is empty"]),
        ("inf.csv", "x,u\n1,1\ninf,1\n3,1\n", ["row 2", "column x", "'inf'"]),
        ("short.csv", "x,u\n1,1\n", ["row 1", "at least two rows"]),
        ("columns.csv", "y,u\n1,1\n2,2\n", ["no column x", "it has y, u"]),
        ("wide.csv", "x,u\n1,1\n2,2,2\n3,3\n", ["cannot be read"]),
        ("garbage.npz", b"PK\x03\x04 garbage", ["cannot be read"]),
        ("thing.xyz", "x", ["'.xyz'", ".npz or .csv"]),
    ],
)
def test_bad_files_get_one_sentence_that_names_the_file(tmp_path, name, content, words):
    path = bad(tmp_path, name, content)
    with pytest.raises(InputError) as caught:
        load(path, states=["x"] if name.endswith("csv") else (), actions=["u"] if name.endswith("csv") else ())
    message = str(caught.value)
    assert "\n" not in message
    for word in [name, *words]:
        assert word in message


def test_missing_files_and_patterns(tmp_path):
    with pytest.raises(InputError, match=r"There is no file .*absent.csv"):
        load(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="No file matches the pattern"):
        load(str(tmp_path / "*.csv"))
    with pytest.raises(InputError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(InputError, match="No files were given"):
        load([])


def test_mixed_formats_unnamed_columns_and_options_without_use(tmp_path):
    save(random_episodes([3]), tmp_path / "a.npz")
    save(random_episodes([3]), tmp_path / "b.csv")
    with pytest.raises(InputError, match="different endings"):
        load([tmp_path / "a.npz", tmp_path / "b.csv"])
    with pytest.raises(InputError, match=r"which columns of .*b.csv are the states"):
        load(tmp_path / "b.csv")
    with pytest.raises(InputError, match="leave out episode"):
        load(tmp_path / "a.npz", episode="episode")
    with pytest.raises(InputError, match="named more than once"):
        load(tmp_path / "b.csv", states=["state_0"], actions=["state_0"])


def test_an_episode_id_that_comes_back_is_refused(tmp_path):
    path = bad(tmp_path, "ids.csv", "e,x,u\n0,1,1\n0,2,1\n1,3,1\n1,4,1\n0,5,1\n0,6,1\n")
    with pytest.raises(InputError, match="row 5: episode 0 starts a second time"):
        load(path, states=["x"], actions=["u"], episode="e")


def test_npz_without_the_right_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", states=np.zeros((3, 1)))
    with pytest.raises(InputError, match="no array actions, lengths"):
        load(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", states=np.zeros((3, 1)), actions=np.zeros((3, 1)), lengths=np.array([2]))
    with pytest.raises(InputError, match=r"actions of .*b.npz has 3 rows, its lengths ask for 2"):
        load(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", states=np.array([[None]]), actions=np.zeros((3, 1)), lengths=np.array([2]))
    with pytest.raises(InputError, match="without object arrays"):
        load(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", states=np.full((3, 1), np.nan), actions=np.zeros((2, 1)), lengths=np.array([2]))
    with pytest.raises(InputError, match=r"d.npz: The states of episode 0 .* step 0, column 0"):
        load(tmp_path / "d.npz")


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "before")

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]
    with pytest.raises(InputError, match="can be written end in"):
        save(random_episodes([3]), tmp_path / "x.mat")
    (tmp_path / "blocked").write_text("")
    with pytest.raises(InputError, match="Cannot write"):
        save(random_episodes([3]), tmp_path / "blocked" / "x.npz")
