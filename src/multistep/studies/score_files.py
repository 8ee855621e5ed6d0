"""`multistep score`: a saved model on the user's own files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from multistep.data import load
from multistep.dynamics import load_model
from multistep.evaluation import longest_horizon, score
from multistep.studies.run_folder import score_rows, score_summary, write_run


@dataclass(frozen=True)
class ScoreFilesConfig:
    """Score a saved model on episodes in files."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model.safetensors that a fit has left."""
    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILES")]
    """Files with episodes, .csv or .npz; patterns such as 'logs/*.csv' are expanded."""
    states: tuple[str, ...] = ()
    """Columns that make the state (default: those that the model was trained on)."""
    actions: tuple[str, ...] = ()
    """Columns that make the action (default: those that the model was trained on)."""
    episode: str | None = None
    """Column of a .csv file that tells its episodes apart (default: one episode per file)."""
    score_horizon: int = 100
    """Steps ahead to score (fewer if no episode is that long)."""
    out: Path = Path("runs/score")
    """Folder for the results."""


def run_score(config: ScoreFilesConfig) -> dict[str, Any]:
    """Score, leave the rows in `config.out` and return the summary."""
    model = load_model(config.model)
    states, actions = config.states or model.state_names, config.actions or model.action_names
    episodes = load(config.files, states=states, actions=actions, episode=config.episode)
    horizon = min(config.score_horizon, longest_horizon(episodes))
    scores = score(model, episodes, horizon=horizon)
    summary = {"model": score_summary(scores), "episodes": len(episodes), "score_horizon": horizon}
    write_run(config.out, "score", config, score_rows("model", scores), summary)
    return summary
