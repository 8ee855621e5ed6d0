"""`multistep score`: a saved model on the user's own files."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from multistep.commands.source import columns_of, load_saved, read_episodes
from multistep.data import Columns
from multistep.evaluation import score, usual_horizon
from multistep.evaluation.rows import score_rows, score_summary
from multistep.runs.run_folder import check_run, write_run

COMMAND = "score"


@dataclass(frozen=True)
class ScoreFilesConfig:
    """Score a saved model on episodes in files."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model.safetensors that a fit has left."""
    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILES")]
    """Files with episodes (.csv, .parquet, .npz, .hdf5; patterns such as 'logs/*.csv' are expanded), a Minari
    dataset, or a dataset of the paper by its name."""
    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(default_factory=Columns)
    """Which columns of a table are what; states and actions are those that the model was trained on unless
    named."""
    noise: tuple[float, ...] = ()
    """Deviation of Gaussian noise to add, as a share of each state's range: one number, or one per state."""
    noise_seed: int = 0
    """Seed of that noise."""
    kind: tuple[str, ...] = ()
    """Architectures of your own, as module:Name: a model file of such a kind is loaded only if it is named
    here."""
    score_horizon: int = 100
    """Steps ahead to score (fewer if the episodes are too short or too few)."""
    out: Path = Path("runs/score")
    """Folder for the results."""


def run_score(config: ScoreFilesConfig) -> dict[str, Any]:
    """Score, leave the rows in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    model = load_saved(config.model, config.kind)
    columns = columns_of(model, config.model, config.columns)
    episodes = read_episodes(config.files, columns, noise=config.noise, noise_seed=config.noise_seed)
    horizon = usual_horizon(episodes, config.score_horizon, model.num_past)
    scores = score(model, episodes, horizon=horizon)
    summary = {"model": score_summary(scores), "episodes": len(episodes), "score_horizon": horizon}
    write_run(config.out, COMMAND, config, score_rows("model", scores), summary)
    return summary
