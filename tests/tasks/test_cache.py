import json
from dataclasses import replace

import numpy as np
import pytest

from multistep.errors import InputError
from multistep.tasks import cache
from multistep.tasks.cache import cached, dataset_path, datasets_folder, keep_dataset, load_dataset
from multistep.tasks.catalogue import CATALOGUE, find_dataset
from systems import random_episodes

# Number of episodes for training, validation and test in the paper's table of datasets.
PAPER = {
    "cartpole/random": (36, 4, 10),
    "cartpole/mixed_replay": (36, 4, 10),
    "cartpole/full_replay": (36, 4, 10),
    "swimmer/random": (36, 4, 10),
    "swimmer/mixed_replay": (36, 4, 10),
    "halfcheetah/random": (76, 4, 20),
    "halfcheetah/medium": (76, 4, 20),
    "halfcheetah/medium_replay": (156, 4, 40),
}


def test_the_catalogue_is_the_papers():
    assert {name: dataset.split for name, dataset in CATALOGUE.items()} == PAPER
    assert all(name.startswith(dataset.task.name) for name, dataset in CATALOGUE.items())
    with pytest.raises(InputError, match=r"no dataset hopper/random .*: choose one of cartpole/random, "):
        find_dataset("hopper/random")


def test_what_is_kept_is_what_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "SHIPPED", ())
    dataset, episodes = find_dataset("swimmer/random"), random_episodes([5, 3], state_size=8, rewards=True)
    episodes = replace(episodes, state_names=dataset.task.state_names)
    assert cached(dataset, tmp_path) is None
    with pytest.raises(
        InputError, match=r"swimmer/random is not in .*: make it with 'multistep collect swimmer/random'"
    ):
        load_dataset("swimmer/random", tmp_path)
    path = keep_dataset(dataset, episodes, {"multistep": "0"}, tmp_path)
    assert path == tmp_path / "swimmer" / "random.npz"
    np.testing.assert_array_equal(load_dataset("swimmer/random", tmp_path).states, episodes.states)
    assert load_dataset("swimmer/random", tmp_path).turns == (2 * np.pi, *[0.0] * 7)
    kept = cached(dataset, tmp_path)
    assert kept is not None
    assert (kept.num_episodes, kept.num_steps) == (2, 8)
    np.testing.assert_allclose(kept.return_mean, episodes.rewards.sum() / 2)
    assert kept.recipe == {"kind": "RandomPolicy", "seed": 0}


@pytest.mark.parametrize("name", list(PAPER))
def test_every_recipe_is_recognised_when_read_back(name, tmp_path):
    keep_dataset(find_dataset(name), random_episodes([5, 3], rewards=True), {}, tmp_path)
    assert cached(find_dataset(name), tmp_path).num_episodes == 2


def test_those_that_come_with_the_package_are_found_unless_made_anew(tmp_path, monkeypatch):
    dataset, (theirs, own) = find_dataset("cartpole/full_replay"), (tmp_path / "shipped", tmp_path / "own")
    monkeypatch.setattr(cache, "SHIPPED", (tmp_path / "nowhere", theirs))
    assert cached(dataset, own) is None
    assert dataset_path(dataset, own) == own / "cartpole" / "full_replay.npz"
    keep_dataset(dataset, random_episodes([5, 3], rewards=True), {}, theirs)
    assert dataset_path(dataset, own) == theirs / "cartpole" / "full_replay.npz"
    assert len(load_dataset(dataset.name, own)) == 2
    keep_dataset(dataset, random_episodes([4], rewards=True), {}, own)
    assert len(load_dataset(dataset.name, own)) == 1


def test_a_damaged_file_is_refused(tmp_path):
    dataset = find_dataset("swimmer/random")
    path = keep_dataset(dataset, random_episodes([5, 3], rewards=True), {}, tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"random.npz is damaged \(its checksum has changed\): delete it"):
        load_dataset("swimmer/random", tmp_path)
    path.with_suffix(".json").write_text(json.dumps({"num_episodes": 2}))
    with pytest.raises(InputError, match=r"random.json is damaged"):
        cached(dataset, tmp_path)


def test_the_folder_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "SHIPPED", ())
    monkeypatch.delenv("MULTISTEP_DATASETS", raising=False)
    assert datasets_folder().parts[-2:] == ("multistep", "datasets")
    monkeypatch.setenv("MULTISTEP_DATASETS", str(tmp_path / "mine"))
    assert datasets_folder() == tmp_path / "mine"
    assert dataset_path(find_dataset("cartpole/random"), tmp_path) == tmp_path / "cartpole" / "random.npz"


SHIPPED = sorted(cache.SHIPPED[1].glob("*/*.npz"))


def test_some_come_with_the_package():
    assert SHIPPED


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_those_that_come_with_the_package_are_whole(path, tmp_path):
    """As recorded, of the paper's size, small enough for a repository; those of replay have random
    episodes first, then better ones."""
    dataset = find_dataset(f"{path.parent.name}/{path.stem}")
    episodes = load_dataset(dataset.name, tmp_path)  # refused if its checksum or its recipe is another
    assert dataset_path(dataset, tmp_path) == path
    assert len(episodes) == dataset.num_episodes == 50
    assert set(episodes.lengths.tolist()) == {dataset.task.episode_steps}
    assert path.stat().st_size <= 3_000_000
    assert episodes.state_names == dataset.task.state_names
    kept = cached(dataset, tmp_path)
    assert kept.return_mean == pytest.approx(float(episodes.returns.mean()), rel=1e-5)
    if path.stem != "random":
        assert episodes.returns[-10:].mean() > 2 * abs(episodes.returns[:3]).mean()
