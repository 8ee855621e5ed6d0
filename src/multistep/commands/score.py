"""`multistep score`: a saved model on the user's own files."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from multistep.commands.baselines import beside, score_baselines
from multistep.commands.free_runs import write_free_runs
from multistep.commands.intervals import write_intervals
from multistep.commands.outside import count_outside
from multistep.commands.source import (
    Changes,
    Source,
    check_same_step,
    fitted_columns,
    load_saved,
    read_episodes,
)
from multistep.data import Episodes
from multistep.dynamics import AbstractModel, check_names, check_units
from multistep.errors import InputError
from multistep.evaluation import Scores, score, usual_horizon
from multistep.evaluation.rows import score_rows, score_summary
from multistep.runs.run_folder import check_run, write_run
from multistep.training import observed

COMMAND = "score"


@dataclass(frozen=True)
class ScoreFilesConfig:
    """Score a saved model on episodes in files."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model.safetensors that a fit has left."""
    source: Annotated[Source, tyro.conf.arg(name="")]
    """Where the episodes are."""
    changes: Annotated[Changes, tyro.conf.arg(name="")] = field(default_factory=Changes)
    """What is done to the episodes first."""
    kind: tuple[str, ...] = ()
    """Architectures of your own, as module:Name: a model file of such a kind is loaded only if it is named
    here."""
    filtered: bool = False
    """Also score from the state that the model's observer believes in after 20 measurements: noise on a
    single one does not count against the model then."""
    score_horizon: int = 100
    """Steps ahead to score (fewer if the episodes are too short or too few)."""
    out: Path = Path("runs/score")
    """Folder for the results."""


def run_score(config: ScoreFilesConfig) -> dict[str, Any]:
    """Score, leave the rows in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    model = load_saved(config.model, config.kind)
    columns = fitted_columns(model, config.model, config.source.columns)
    episodes = read_episodes(replace(config.source, columns=columns), config.changes, model.time_step)
    check_names(model, episodes.state_names, episodes.action_names)
    check_units(model, episodes.units)
    check_same_step(model.time_step, episodes.time_step, config.changes)
    num_outside = count_outside(model, episodes)
    horizon = usual_horizon(episodes, config.score_horizon, model.num_past)
    scores = score(model, episodes, horizon=horizon)
    linear = beside(config.model)
    rows, baselines = score_baselines(model, linear, episodes, horizon)
    if config.filtered:
        filtered = _filtered_scores(model, episodes, horizon)
        rows, baselines = (
            [*score_rows("filtered", filtered), *rows],
            {"filtered": score_summary(filtered), **baselines},
        )
    summary = {
        "model": score_summary(scores),
        **baselines,
        **write_free_runs(model, linear, episodes, config.out),
        **write_intervals(model, episodes, config.out),
        "episodes": len(episodes),
        "samples_outside_training_range": num_outside,
        "score_horizon": horizon,
        "time_step": episodes.time_step,
        "units": dict(episodes.units),
    }
    write_run(config.out, COMMAND, config, [*score_rows("model", scores), *rows], summary)
    return summary


def _filtered_scores(model: Any, episodes: Episodes, horizon: int) -> Scores:
    """Scores from the observer's belief; its noise is that which makes these episodes likeliest."""
    if not isinstance(model, AbstractModel):
        raise InputError("--filtered takes a model of one state: this one reads its past by itself.")
    view = observed(model, episodes, episodes)
    return score(view, episodes, horizon=min(horizon, usual_horizon(episodes, horizon, view.num_past)))
