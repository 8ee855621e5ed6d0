"""`multistep agent evaluate`: what an agent is worth in the real environment of a task."""

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from multistep.agents.acting import EpisodeJob
from multistep.agents.imagination import imagination_digest
from multistep.agents.observing import Filtered
from multistep.agents.planners import AbstractPlanner
from multistep.commands.agent_options import Planning, Scene, find_scene, make_planner
from multistep.data import add_noise
from multistep.dynamics import AbstractModel
from multistep.errors import InputError
from multistep.evaluation.intervals import mean_interval
from multistep.runs.provenance import digest
from multistep.runs.row_log import RowLog
from multistep.runs.run_folder import check_run, open_run, write_run
from multistep.runs.sweep import FAILED, sweep
from multistep.runs.workers import Workers
from multistep.tasks import TASKS
from multistep.training import fit_observer

COMMAND = "agent evaluate"


@dataclass(frozen=True)
class EvaluateConfig(Planning):
    """Act in the real environment of a task."""

    episodes: int = 10
    """Episodes to act."""
    steps: int | None = None
    """Steps of each (default: those of the task)."""
    noise: float = 0.0
    """Deviation of the noise on what the planner sees, as a share of each state's range in the data."""
    filter: bool = False
    """Plan from the state that an observer takes the noisy one for; it is fitted to the start states'
    episodes with that noise added (and to the first model of an ensemble)."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    out: Path = Path("runs/evaluate")
    """Folder for rows and pictures; the same command goes on with the episodes that are missing."""


def run_evaluate(config: EvaluateConfig) -> dict[str, Any]:
    """Act in the real environment, leave one row per episode in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    if config.task is None:
        raise InputError(
            "Evaluating needs an environment to act in: name a task with --task (and your own --reward, if "
            "any)."
        )
    longest = TASKS[config.task].episode_steps
    if config.episodes < 1 or (config.steps is not None and not 1 <= config.steps <= longest):
        raise InputError(f"Act at least 1 episode, of 1 to {longest} steps.")
    if not 0 <= config.noise < float("inf"):
        raise InputError(f"The noise is {config.noise}: it must be 0 or more, and finite.")
    scene = find_scene(config)
    imagination, planner = make_planner(config, scene)
    if config.filter:
        planner = _observing(config, scene, planner)
    deviation = config.noise * np.ptp(scene.starts.states, axis=0).astype(np.float64)
    sizes = imagination_digest(imagination, config.num_sequences, config.plan_horizon)
    filter_seed = config.seed if config.filter else None  # that of the noise which the observer is fitted to
    name = digest([sizes, str(config.planner), _agent_digest(config), config.noise, filter_seed])
    jobs = [
        EpisodeJob(name, config.task, config.seed + number, config.steps) for number in range(config.episodes)
    ]
    log = RowLog(config.out / "episodes.jsonl")
    with log.writing():
        open_run(config.out, COMMAND, config)
        with config.where.connect() as client:
            rows = sweep(jobs, {name: (planner, deviation)}, log, client, description="episodes")
        failed = [row["reason"] for row in rows if row["outcome"] == FAILED]
        if failed:
            log.forget(FAILED)
            raise InputError(f"{len(failed)} of {len(rows)} episodes failed: {failed[0]}.")
    returns = np.array([row["return"] for row in rows])
    low, high = mean_interval(returns)
    summary = {
        "task": config.task,
        "episodes": len(returns),
        "noise": config.noise,
        "return_mean": float(returns.mean()),
        "return_low": low,
        "return_high": high,
        "seconds_per_step": statistics.mean(row["seconds"] / row["steps"] for row in rows),
        "poses": rows[0]["poses"],
    }
    short = [{key: row[key] for key in ("task", "seed", "return", "steps", "seconds")} for row in rows]
    write_run(config.out, COMMAND, config, short, summary)
    return summary


def _observing(config: EvaluateConfig, scene: Scene, planner: AbstractPlanner[Any]) -> AbstractPlanner[Any]:
    """The planner behind an observer."""
    seen = (
        add_noise(scene.starts, config.noise, key=jax.random.key(config.seed))
        if config.noise
        else scene.starts
    )
    model = scene.models[0]
    if not isinstance(model, AbstractModel):
        raise InputError("A model with memory makes its own of the noise in its past: leave out --filter.")
    return Filtered(planner, fit_observer(model, seen), scene.starts.action_size)


def _agent_digest(config: Planning) -> str | None:
    return (
        None if config.agent is None or not config.agent.exists() else digest(config.agent.read_bytes().hex())
    )
