"""Episodes as commands take them: files, Minari datasets, or names of the catalogue; cut, and with noise, if asked."""

from collections.abc import Sequence
from dataclasses import replace

import jax

from multistep.data import Columns, Episodes, add_noise, as_episodes, cut, read
from multistep.data.recording import Recording
from multistep.dynamics import Model
from multistep.tasks.cache import verified_path
from multistep.tasks.catalogue import CATALOGUE


def read_recordings(files: Sequence[str], columns: Columns) -> list[Recording]:
    """What is in the files, not yet checked for missing values."""
    return read([_resolved(name) for name in files], columns)


def read_episodes(
    files: Sequence[str],
    columns: Columns,
    *,
    steps: int | None = None,
    noise: Sequence[float] = (),
    noise_seed: int = 0,
) -> Episodes:
    """The episodes in the files, cut to `steps` steps, with Gaussian noise of these scales."""
    episodes = as_episodes(read_recordings(files, columns))
    if steps is not None:
        episodes = cut(episodes, steps)
    if noise:
        scale = noise[0] if len(noise) == 1 else tuple(noise)
        episodes = add_noise(episodes, scale, key=jax.random.key(noise_seed))
    return episodes


def columns_of(model: Model, columns: Columns) -> Columns:
    """The columns, with those that the model was trained on where no states or actions are named."""
    return replace(columns, states=columns.states or model.state_names, actions=columns.actions or model.action_names)


def _resolved(name: str) -> str:
    """The file behind a name of the catalogue, its checksum verified; any other name as it is."""
    return str(verified_path(CATALOGUE[name])) if name in CATALOGUE else name
