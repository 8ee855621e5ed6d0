"""`multistep convert`: episodes from one format to another, with noise if asked."""

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from multistep.commands.source import Changes, Source, read_episodes
from multistep.data import Columns, save
from multistep.errors import InputError

KEEP = (".csv", ".parquet", ".npz")
"""Formats that hold the time step and the units."""


@dataclass(frozen=True)
class ConvertConfig:
    """Write the episodes of files to another file."""

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="IN")]
    """File with episodes (.csv, .parquet, .npz, .hdf5), or several by a pattern such as 'logs/*.csv', or a
    Minari dataset, or a dataset of the paper by its name."""
    out: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """File to write (.csv, .parquet, .npz, .hdf5), or the id of a new Minari dataset, such as
    lab/plant-v0."""
    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(default_factory=Columns)
    """Which columns of a table are what."""
    changes: Annotated[Changes, tyro.conf.arg(name="")] = field(default_factory=Changes)
    """What is done to the episodes first."""
    overwrite: bool = False
    """Replace a file that is there already."""


def run_convert(config: ConvertConfig) -> dict[str, Any]:
    """Read, write, and return how much it was."""
    if Path(config.out).exists() and not config.overwrite:
        raise InputError(
            f"{config.out} is there already: choose another name, or add --overwrite to replace it."
        )
    episodes = read_episodes(Source((config.source,), config.columns), config.changes)
    save(episodes, config.out)
    if Path(config.out).suffix not in KEEP and (episodes.time_step is not None or episodes.units):
        warnings.warn(
            f"{config.out} has no place for the time step and the units: {', '.join(KEEP)} keep them.",
            stacklevel=2,
        )
    return {"episodes": len(episodes), "steps": episodes.num_steps, "out": config.out}
