"""The loop in small: short episodes of Cartpole, tiny models; killed in between it goes on as if nothing had
been."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from multistep.agents.online import collect_online
from multistep.dynamics import NetworkConfig
from multistep.errors import InputError
from multistep.tasks import CARTPOLE
from multistep.tasks.catalogue import OnlineLoop
from multistep.training import PRESETS, Once

# Of torch, flax and what they import.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]
FIT = Once(network=NetworkConfig(hidden_size=16), epochs=1, least_steps=20)
LOOP = OnlineLoop(
    seed=0,
    preset="default",
    horizon=2,
    sac_steps=(110, 150),
    num_random=2,
    num_envs=10,
    num_sequences=5,
    plan_horizon=2,
)
SHORT = replace(CARTPOLE, episode_steps=60)


@pytest.fixture(autouse=True)
def single_precision():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_killed_between_episodes_it_goes_on_as_if_nothing_had_been(tmp_path, monkeypatch):
    monkeypatch.setitem(PRESETS, "default", FIT)
    told = []

    def stop(number, total):
        told.append((number, total))
        if number == 3:
            raise KeyboardInterrupt

    whole = collect_online(SHORT, LOOP, num_episodes=4, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        collect_online(SHORT, LOOP, num_episodes=4, folder=tmp_path / "killed", on_episode=stop)
    resumed = collect_online(SHORT, LOOP, num_episodes=4, folder=tmp_path / "killed")
    np.testing.assert_array_equal(whole.states, resumed.states)
    np.testing.assert_array_equal(whole.actions, resumed.actions)
    assert whole.lengths.tolist() == [60] * 4
    assert [number for number, _ in told] == [0, 1, 2, 3]
    assert told[0][1] is None
    np.testing.assert_allclose([total for _, total in told[1:]], whole.returns[:3], rtol=1e-6)
    (tmp_path / "killed" / "episode_0001.npz").unlink()
    np.testing.assert_array_equal(
        collect_online(SHORT, LOOP, num_episodes=3, folder=tmp_path / "killed").states,
        whole.take(range(3)).states,
    )
    with pytest.raises(InputError, match="holds an agent trained on another model or with other settings"):
        collect_online(SHORT, replace(LOOP, seed=1), num_episodes=4, folder=tmp_path / "whole")
