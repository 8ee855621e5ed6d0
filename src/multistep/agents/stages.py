"""What trainings of an agent share: they go in stages, each with a seed of its own and a checkpoint at its
end."""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multistep.agents.agent_files import OWN, restore, save_agent
from multistep.data.archives import read_archive
from multistep.errors import InputError
from multistep.runs.atomic import write_text

if TYPE_CHECKING:
    from sbx import SAC

BUFFER_ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def check_seed(seed: int) -> None:
    """Raise an `InputError` unless all generators of random numbers take this seed."""
    if not 0 <= seed < 2**32:
        raise InputError(f"The seed is {seed}: it must be from 0 to {2**32 - 1}.")


def stage_seed(seed: int, stage: int) -> int:
    return int(np.random.SeedSequence([seed, stage]).generate_state(1)[0] >> 1)


def _reporter(on_steps: Callable[[int], None]) -> Callable[[dict[str, Any], dict[str, Any]], bool]:
    """A callback for `learn` that tells how many steps have been taken."""

    def report(variables: dict[str, Any], _: dict[str, Any]) -> bool:
        on_steps(variables["self"].num_timesteps)
        return True

    return report


def claim(folder: Path, fingerprint: str) -> None:
    """Make the folder that of this training; one that belongs to another is refused."""
    path = folder / "fingerprint"
    if path.exists() and path.read_text() != fingerprint:
        raise InputError(
            f"{folder} holds an agent trained on another model or with other settings: delete it, or choose "
            "another place."
        )
    write_text(path, fingerprint)


def keep_checkpoint(folder: Path, agent: "SAC", stage: int) -> None:
    """Write the checkpoint of this stage whole, then remove the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".writing_*"):
        shutil.rmtree(leftover)
    temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".writing_"))
    buffer: Any = agent.replay_buffer
    try:
        save_agent(agent, temporary)
        filled = {name: getattr(buffer, name)[: buffer.size()] for name in BUFFER_ARRAYS}
        np.savez(temporary / "buffer.npz", allow_pickle=False, **filled)
    except OSError as error:
        shutil.rmtree(temporary)
        raise InputError(
            f"Cannot write to {folder}: {error.strerror or error}; free some space and start again."
        ) from error
    os.replace(temporary, folder / f"stage_{stage:04d}")
    for old in sorted(folder.glob("stage_*"))[:-1]:
        shutil.rmtree(old)


def last_stage(folder: Path) -> int:
    """Number of the last stage that left a checkpoint, or 0."""
    return max((int(path.name.removeprefix("stage_")) for path in folder.glob("stage_*")), default=0)


def last_checkpoint(folder: Path, agent: "SAC") -> tuple["SAC", int]:
    """The agent and its buffer as the last finished stage left them, and the number of that stage."""
    checkpoints = sorted(folder.glob("stage_*"))
    if not checkpoints:
        return agent, 0
    last = checkpoints[-1]
    if not (last / OWN).is_file():
        raise InputError(
            f"The checkpoint {last} is of an earlier multistep, and loading it would run the code in it: "
            "delete it to train anew."
        )
    restore(agent, last / OWN)
    buffer: Any = agent.replay_buffer
    filled, _ = read_archive(last / "buffer.npz", BUFFER_ARRAYS)
    length = len(filled["rewards"]) if "rewards" in filled else 0
    if length > buffer.buffer_size:
        raise InputError(
            f"{folder} holds a longer training than was asked for: delete it or ask for a longer one."
        )
    for name in BUFFER_ARRAYS:
        place = getattr(buffer, name)[:length]
        if name not in filled or filled[name].shape != place.shape or filled[name].dtype != place.dtype:
            raise InputError(f"The checkpoint {last} is damaged: delete it to train anew.")
        place[:] = filled[name]
    buffer.pos = length
    # A buffer filled to its end would start again at its beginning.
    buffer.full, buffer.pos = buffer.pos == buffer.buffer_size, buffer.pos % buffer.buffer_size
    return agent, int(last.name.removeprefix("stage_"))


def train_in_stages(
    agent: "SAC",
    stage_steps: Sequence[int],
    *,
    seed: int,
    folder: Path | None,
    on_steps: Callable[[int], None],
    on_stage: Callable[["SAC"], None] = lambda agent: None,
) -> "SAC":
    """The agent after stages of these numbers of steps, each from a seed of its own; a killed training goes
    on."""
    agent, stages_done = (agent, 0) if folder is None else last_checkpoint(folder, agent)
    on_steps(agent.num_timesteps)
    for stage, steps in list(enumerate(stage_steps))[stages_done:]:
        agent.set_random_seed(stage_seed(seed, stage))
        agent._last_obs = None  # so that the stage starts with an episode of its own seed
        agent.learn(steps, callback=_reporter(on_steps), reset_num_timesteps=False)
        on_stage(agent)
        if folder is not None:
            keep_checkpoint(folder, agent, stage + 1)
    return agent
