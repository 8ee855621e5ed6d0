"""The recipes of the catalogue, on short episodes."""

from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest

from multistep.agents import collecting, model_free
from multistep.commands.collect import CollectConfig, collect, run_collect
from multistep.errors import InputError
from multistep.runs.atomic import alone_with
from multistep.tasks import CARTPOLE, cache
from multistep.tasks.cache import cached
from multistep.tasks.catalogue import (
    CATALOGUE,
    AgentReplay,
    AgentRollouts,
    AgentTraining,
    Dataset,
    RandomPolicy,
)

STEPS = 25
SHORT = replace(
    CARTPOLE, episode_steps=STEPS, load=lambda: gymnasium.wrappers.TimeLimit(CARTPOLE.load(), STEPS)
)
TRAINING = AgentTraining(num_episodes=10, seed=0)
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning"
)  # of torch and flax


def test_random_is_what_the_task_collects(tmp_path):
    dataset = Dataset("cartpole/random", SHORT, (2, 1, 1), RandomPolicy(seed=3), "random")
    with np.load(collect(dataset, tmp_path)) as kept:
        np.testing.assert_array_equal(kept["states"], SHORT.collect_random(4, key=jax.random.key(3)).states)
    assert cached(dataset, tmp_path).num_episodes == 4


def test_anew_makes_it_again(tmp_path, monkeypatch):
    made = []

    def loop(task, recipe, *, num_episodes, folder, on_episode):
        made.append(folder)
        folder.mkdir(parents=True)
        return SHORT.collect_random(num_episodes, key=jax.random.key(len(made)))

    monkeypatch.setattr(collecting, "collect_online", loop)
    monkeypatch.setattr(cache, "SHIPPED", ())
    config = CollectConfig("swimmer/mixed_replay", cache=tmp_path)
    assert not run_collect(config)["was_present"]
    assert run_collect(config)["was_present"]
    assert not run_collect(replace(config, anew=True))["was_present"]
    assert len(made) == 2
    assert not made[0].exists()  # what a loop leaves on its way is gone once the dataset is there


@pytest.mark.slow
def test_replay_and_rollouts_share_one_training(tmp_path, monkeypatch):
    steps = []
    train = model_free.train
    monkeypatch.setattr(
        model_free, "train", lambda *args, **options: train(*args, **(options | {"on_steps": steps.append}))
    )
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        replay = Dataset("cartpole/replay", SHORT, (6, 1, 1), AgentReplay(TRAINING), "SAC")
        with np.load(collect(replay, tmp_path)) as kept:
            np.testing.assert_array_equal(kept["lengths"], [STEPS] * 8)
        trained = len(steps)
        rollouts = Dataset("cartpole/rollouts", SHORT, (1, 1, 1), AgentRollouts(TRAINING, seed=0), "SAC")
        with np.load(collect(rollouts, tmp_path)) as kept:
            np.testing.assert_array_equal(kept["lengths"], [STEPS] * 3)
            assert kept["rewards"].shape == (3 * STEPS,)
        assert (trained, len(steps)) == (1 + 10 * STEPS, trained + 1)  # the second found the training done
        monkeypatch.setitem(CATALOGUE, replay.name, replay)
        assert run_collect(CollectConfig(replay.name, cache=tmp_path))["was_present"]
        assert len(steps) == trained + 1
        run_collect(CollectConfig(replay.name, anew=True, cache=tmp_path))
        assert len(steps) == 2 * trained + 1  # trained again from its beginning


def test_two_processes_do_not_share_a_loop(tmp_path):
    with (
        alone_with(tmp_path / "swimmer" / "mixed_replay_loop"),
        pytest.raises(InputError, match="Another process is writing to"),
    ):
        collect(CATALOGUE["swimmer/mixed_replay"], tmp_path)
