"""Loading an agent executes nothing, and gives back the agent that was saved."""

import base64
import json
import pickle
import zipfile
from collections import deque

import jax
import numpy as np
import pytest

from multistep.agents.agent_files import OWN, ZIP, load_agent, save_agent
from multistep.agents.sbx_agents import sbx_sac
from multistep.errors import InputError

# Of torch, flax and what they import.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
SIZES = {"state_size": 3, "action_size": 2}


@pytest.fixture(autouse=True)
def single_precision():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


class Trap:
    """Leaves a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def write_trap(path, sprung):
    serialized = base64.b64encode(pickle.dumps(Trap(sprung))).decode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", json.dumps({"gamma": {":type:": "x", ":serialized:": serialized}}))
        archive.writestr("_stable_baselines3_version", "2.9.2")


def test_the_agent_of_somebody_else_is_refused_without_a_look_at_its_objects(tmp_path):
    write_trap(tmp_path / ZIP, tmp_path / "sprung")
    with pytest.raises(InputError, match=r"would run the code in it: give .* or add --trust"):
        load_agent(tmp_path / ZIP, **SIZES)
    assert not (tmp_path / "sprung").exists()
    (tmp_path / "other.zip").write_bytes(b"PK no archive")
    with pytest.raises(InputError, match="is not an agent that sbx can load"):
        load_agent(tmp_path / "other.zip", **SIZES)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """An agent that nobody has trained, in its two files."""
    import gymnasium

    class Spaces(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        action_space = gymnasium.spaces.Box(np.float32([-1, -2]), np.float32([1, 0.5]))

    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        agent = sbx_sac()("MlpPolicy", Spaces(), buffer_size=1, seed=3)
        agent.num_timesteps, agent.ep_info_buffer = 77, deque([{"r": 1.5, "l": 3, "t": 0.1}])
        folder = tmp_path_factory.mktemp("agent")
        save_agent(agent, folder)
    return agent, folder


@pytest.mark.slow
def test_an_agent_comes_back_as_it_was_without_its_pickles(saved, tmp_path):
    agent, folder = saved
    for name in (ZIP, OWN):
        back = load_agent(folder / name, **SIZES)
        states = np.ones((4, 3), np.float32)
        assert back.num_timesteps == 77
        assert list(back.ep_info_buffer) == [{"r": 1.5, "l": 3.0, "t": 0.1}]
        for deterministic in (True, False):
            agent.policy.key = back.policy.key
            mine, theirs = (who.predict(states, deterministic=deterministic)[0] for who in (agent, back))
            np.testing.assert_array_equal(mine, theirs)
    # Ours alone is enough; the other one beside it is not even opened.
    (tmp_path / OWN).write_bytes((folder / OWN).read_bytes())
    assert load_agent(tmp_path / OWN, **SIZES).num_timesteps == 77
    with pytest.raises(InputError, match="acts on 3 states with 2 actions, the model has 3 and 1"):
        load_agent(tmp_path / OWN, state_size=3, action_size=1)


@pytest.mark.slow
def test_another_agent_put_in_its_place_is_not_loaded(saved, tmp_path):
    _, folder = saved
    (tmp_path / OWN).write_bytes((folder / OWN).read_bytes())
    write_trap(tmp_path / ZIP, tmp_path / "sprung")
    with pytest.raises(InputError, match="beside it that was saved with it"):
        load_agent(tmp_path / ZIP, **SIZES)
    assert not (tmp_path / "sprung").exists()
    with pytest.raises(InputError, match="is not an agent that sbx can load"):
        load_agent(tmp_path / ZIP, **SIZES, trust=True)
    assert (tmp_path / "sprung").exists()  # what the option is for, and why it has its name


@pytest.mark.slow
def test_a_damaged_agent_is_refused(saved, tmp_path):
    whole = (saved[1] / OWN).read_bytes()
    for place in np.random.default_rng(0).integers(0, 8 * len(whole), 10):
        content = bytearray(whole)
        content[place // 8] ^= 1 << place % 8
        (tmp_path / OWN).write_bytes(content)
        with pytest.raises(InputError, match="is damaged"):
            load_agent(tmp_path / OWN, **SIZES)
