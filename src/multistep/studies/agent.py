"""`multistep agent train | plan | evaluate`: an agent in a learned model, what it would do, what it is worth."""

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import jax
import numpy as np
import tyro

from multistep.agents.acting import EpisodeJob
from multistep.agents.imagination import Imagination, Reward, fingerprint_of, imagine
from multistep.agents.model_based import PAPER_STEPS, train_on_model
from multistep.agents.model_env import ModelEnv
from multistep.agents.observing import Observing
from multistep.agents.own_reward import find_reward
from multistep.agents.planners import AbstractPlanner, CrossEntropy, PolicyGuided, RandomShooting
from multistep.agents.planning import plan
from multistep.agents.policy import load_agent, policy_of
from multistep.data import Columns, Episodes, add_noise
from multistep.dynamics import Model, load_model
from multistep.errors import InputError
from multistep.selection.provenance import digest
from multistep.selection.row_log import RowLog
from multistep.selection.sweep import FAILED, sweep
from multistep.selection.workers import connect
from multistep.studies.collect_dataset import counting_progress
from multistep.studies.episode_files import columns_of, read_episodes
from multistep.studies.intervals import mean_interval
from multistep.studies.run_folder import check_run, open_run, write_json, write_run
from multistep.tasks import TASKS
from multistep.training import fit_observer

PlannerName = Literal["guided", "cem", "random"]
AGENT = "agent.zip"
ABOUT_AGENT = "agent.json"
CHECKPOINTS = "checkpoints"
COMMAND_TRAIN, COMMAND_PLAN, COMMAND_EVALUATE = "agent train", "agent plan", "agent evaluate"


@dataclass(frozen=True)
class InModel:
    """The model, and what an agent is to do in it."""

    model: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """The model.safetensors that a fit has left; several of them are an ensemble."""
    starts: tuple[str, ...]
    """Files with the episodes that rollouts start in, or a dataset of the paper by its name."""
    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(default_factory=Columns)
    """Which columns of a table are what; states and actions are those that the model was trained on unless named."""
    task: Literal["cartpole", "swimmer", "halfcheetah"] | None = None
    """Task whose reward is earned."""
    reward: str | None = None
    """Your own reward of one (state, action, next state), in JAX, as module:function."""
    margin: float = 0.5
    """States are kept within their range in the data, widened on both sides by this share of it."""


@dataclass(frozen=True)
class TrainConfig(InModel):
    """Train SAC in a learned model."""

    steps: int = PAPER_STEPS
    """Steps in the model."""
    num_envs: int = 100
    """Rollouts in the model side by side."""
    rollout_steps: int = 100
    """Steps after which a rollout starts anew."""
    seed: int = 0
    """Seed of the training."""
    out: Path = Path("runs/agent")
    """Folder for the agent; the same command goes on from its last checkpoint."""


@dataclass(frozen=True)
class Planning(InModel):
    """How actions are chosen."""

    agent: Path | None = None
    """The agent.zip of a training: its policy guides the planner."""
    planner: PlannerName | None = None
    """guided: sequences of the agent's policy, completed with its value; cem: the cross-entropy method; random: random
    shooting (default: guided with an agent, cem without)."""
    num_sequences: int = 500
    """Sequences that a decision tries."""
    plan_horizon: int = 20
    """Steps that a decision looks ahead."""
    seed: int = 0
    """Seed of the planner, and of the first episode."""


@dataclass(frozen=True)
class PlanConfig(Planning):
    """Plan in a learned model, step by step, from a state."""

    state: tuple[float, ...] = ()
    """State to start in (default: the first one of the data)."""
    steps: int = 100
    """Decisions to take."""
    out: Path = Path("runs/plan")
    """Folder for rows and figure."""


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
    """Plan from the state that an observer takes the noisy one for; it is fitted to the start states' episodes with that
    noise added (and to the first model of an ensemble)."""
    workers: int | None = None
    """Worker processes (default: one per core)."""
    out: Path = Path("runs/evaluate")
    """Folder for rows and pictures; the same command goes on with the episodes that are missing."""


class Given(NamedTuple):
    """What the options stand for."""

    models: list[Model]
    reward: Reward
    starts: Episodes


def run_train(config: TrainConfig) -> dict[str, Any]:
    """Train, leave the agent and the learning curve in `config.out` and return the summary."""
    given = _given(config)
    env = ModelEnv(
        given.models,
        given.reward,
        given.starts,
        num_envs=config.num_envs,
        rollout_steps=config.rollout_steps,
        margin=config.margin,
    )
    open_run(config.out, COMMAND_TRAIN, config)
    log = RowLog(config.out / CHECKPOINTS / "stages.jsonl")
    with log.writing(), counting_progress() as progress:
        bar = progress.add_task("SAC in the model, steps", total=config.steps)

        def keep(agent: Any) -> None:
            log.append({"steps": agent.num_timesteps, **_about_rollouts(env, agent)})
            env.num_left = env.num_ended = 0

        agent = train_on_model(
            env,
            num_steps=config.steps,
            seed=config.seed,
            folder=config.out / CHECKPOINTS,
            on_steps=lambda steps: progress.update(bar, completed=steps),
            on_stage=keep,
        )
    agent.save(config.out / AGENT)
    write_json(config.out / ABOUT_AGENT, {"model": _digest(given.models), "steps": agent.num_timesteps})
    # A stage that was killed before its checkpoint is trained again, and has two rows.
    curve = list({row["steps"]: row for row in log.read()}.values())
    summary = {
        "agent": config.out / AGENT,
        "steps": agent.num_timesteps,
        "rollout_return": curve[-1]["rollout_return"],
        "left_share": sum(row["left"] for row in curve) / max(1, sum(row["ended"] for row in curve)),
    }
    write_run(config.out, COMMAND_TRAIN, config, curve, summary)
    return summary


def run_plan(config: PlanConfig) -> dict[str, Any]:
    """Plan, leave the episode in `config.out` and return the summary."""
    check_run(config.out, COMMAND_PLAN)
    given = _given(config)
    imagination, planner = _planner(config, given)
    state = np.asarray(config.state) if config.state else given.starts.states[0].astype(np.float64)
    names = given.starts.state_names
    if len(state) != len(names):
        raise InputError(f"The state has {len(state)} numbers, the model {len(names)} ({', '.join(names)}): give one for each.")
    if config.steps < 1:
        raise InputError(f"{config.steps} steps were asked for: plan at least 1.")
    planned = plan(planner, imagination, state, num_steps=config.steps, seed=config.seed)
    rows = [
        {
            "step": step,
            **{name: float(value) for name, value in zip(names, planned.states[step], strict=True)},
            **{name: float(value) for name, value in zip(given.starts.action_names, planned.actions[step], strict=True)},
            "reward": float(planned.rewards[step]),
        }
        for step in range(len(planned.actions))
    ]
    first = {name: rows[0][name] for name in given.starts.action_names}
    summary = {"first_action": first, "return": float(planned.rewards.sum()), "steps": len(rows), "left": planned.left}
    write_run(config.out, COMMAND_PLAN, config, rows, summary | {"states": names, "actions": given.starts.action_names})
    return summary


def run_evaluate(config: EvaluateConfig) -> dict[str, Any]:
    """Act in the real environment, leave one row per episode in `config.out` and return the summary."""
    check_run(config.out, COMMAND_EVALUATE)
    if config.task is None:
        raise InputError("Evaluating needs an environment to act in: name a task with --task (and your own --reward, if any).")
    longest = TASKS[config.task].episode_steps
    if config.episodes < 1 or (config.steps is not None and not 1 <= config.steps <= longest):
        raise InputError(f"Act at least 1 episode, of 1 to {longest} steps.")
    if not 0 <= config.noise < float("inf"):
        raise InputError(f"The noise is {config.noise}: it must be 0 or more, and finite.")
    given = _given(config)
    imagination, planner = _planner(config, given)
    if config.filter:
        planner = _observing(config, given, planner)
    deviation = config.noise * np.ptp(given.starts.states, axis=0).astype(np.float64)
    sizes = fingerprint_of(imagination, config.num_sequences, config.plan_horizon)
    filter_seed = config.seed if config.filter else None  # that of the noise which the observer is fitted to
    name = digest([sizes, str(config.planner), _agent_digest(config), config.noise, filter_seed])
    jobs = [EpisodeJob(name, config.task, config.seed + number, config.steps) for number in range(config.episodes)]
    log = RowLog(config.out / "episodes.jsonl")
    with log.writing():
        open_run(config.out, COMMAND_EVALUATE, config)
        with connect(num_workers=config.workers) as client:
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
    write_run(config.out, COMMAND_EVALUATE, config, short, summary)
    return summary


def _given(config: InModel) -> Given:
    """Models, reward and start states, all of the same sizes."""
    if config.task is None and config.reward is None:
        raise InputError("There is nothing to earn: name a task with --task, or your own reward with --reward module:function.")
    models = [load_model(path) for path in config.model]
    if not models:
        raise InputError("There is no model: name the model.safetensors that a fit has left.")
    if config.task is not None:
        _check_task(models[0], config.task, config.model[0])
    reward = find_reward(config.reward) if config.reward is not None else TASKS[str(config.task)].reward
    return Given(models, reward, read_episodes(config.starts, columns_of(models[0], config.columns)))


def _check_task(model: Model, task: str, path: Path) -> None:
    own = TASKS[task]
    expected, found = ((len(of.state_names), len(of.action_names)) for of in (own, model))
    if sorted(own.state_names) == sorted(model.state_names) and own.state_names != tuple(model.state_names):
        raise InputError(
            f"The states of {path} are {', '.join(model.state_names)}, those of {task} {', '.join(own.state_names)}: fit a "
            "model with them in this order."
        )
    if expected != found:
        raise InputError(
            f"The model {path} has {found[0]} states and {found[1]} actions, the task {task} {expected[0]} and {expected[1]}: "
            "give a model of this task."
        )


def _planner(config: Planning, given: Given) -> tuple[Imagination, AbstractPlanner[Any]]:
    """The planner that is asked for, in its model."""
    imagination = imagine(given.models, given.reward, given.starts, margin=config.margin)
    sizes = {"num_sequences": config.num_sequences, "horizon": config.plan_horizon}
    if min(sizes.values()) < 1 or config.seed < 0:
        raise InputError(
            f"{config.num_sequences} sequences of {config.plan_horizon} steps, seed {config.seed}: give at least 1 of each, "
            "and a seed of 0 or more."
        )
    kind = config.planner or ("guided" if config.agent else "cem")
    actions = given.starts.action_size
    match kind:
        case "random":
            return imagination, RandomShooting(imagination, actions, **sizes)
        case "cem":
            return imagination, CrossEntropy(imagination, actions, num_elites=_elites(config), **sizes)
        case "guided":
            return imagination, PolicyGuided(imagination, policy_of(_load_agent(config, given, imagination)), **sizes)


def _observing(config: EvaluateConfig, given: Given, planner: AbstractPlanner[Any]) -> AbstractPlanner[Any]:
    """The planner behind an observer."""
    seen = add_noise(given.starts, config.noise, key=jax.random.key(config.seed)) if config.noise else given.starts
    return Observing(planner, fit_observer(given.models[0], seen), given.starts.action_size)


def _elites(config: Planning) -> int:
    """A tenth of the sequences, but two at least: one alone has no spread to search in."""
    return max(min(2, config.num_sequences), config.num_sequences // 10)


def _load_agent(config: Planning, given: Given, imagination: Imagination) -> Any:
    """The agent, unless what is beside it says that it belongs to another model, or its actions have another range."""
    if config.agent is None:
        raise InputError(
            "The guided planner needs an agent: name the agent.zip of a training with --agent, or use --planner cem."
        )
    if not config.agent.exists():
        raise InputError(f"There is no file {config.agent}: name the agent.zip that 'multistep agent train' has left.")
    about = config.agent.with_name(ABOUT_AGENT)
    if about.exists() and _model_of(about) != _digest(given.models):
        raise InputError(f"The agent {config.agent} was trained in another model: name the model that it was trained in.")
    agent = load_agent(config.agent, state_size=given.starts.state_size, action_size=given.starts.action_size)
    space: Any = agent.action_space
    if not (np.allclose(space.low, imagination.action_low) and np.allclose(space.high, imagination.action_high)):
        raise InputError(f"The actions of the agent {config.agent} have another range than the data's: name its own --starts.")
    return agent


def _model_of(about: Path) -> str:
    """The digest of the model that an agent was trained in."""
    try:
        return json.loads(about.read_text())["model"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{about} is damaged: delete it, the agent is then used with any model of its sizes.") from error


def _agent_digest(config: Planning) -> str | None:
    return None if config.agent is None or not config.agent.exists() else digest(config.agent.read_bytes().hex())


def _digest(models: list[Model]) -> str:
    return digest([np.asarray(leaf).tobytes().hex() for leaf in jax.tree.leaves(models) if hasattr(leaf, "dtype")])


def _about_rollouts(env: ModelEnv, agent: Any) -> dict[str, Any]:
    """The mean return of the last rollouts in the model, how many ended in this stage, and how many by leaving the range."""
    returns = [info["r"] for info in agent.ep_info_buffer or ()]
    return {"rollout_return": statistics.mean(returns) if returns else None, "ended": env.num_ended, "left": env.num_left}
