"""What the commands of `multistep agent` share: the model, what is earned in it, and how actions are
planned."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import jax
import numpy as np
import tyro

from multistep.agents.agent_files import load_agent
from multistep.agents.imagination import ActionRange, Imagination, Reward, imagine
from multistep.agents.planners import AbstractPlanner, CrossEntropy, PolicyGuided, RandomShooting
from multistep.agents.policy import policy_of
from multistep.agents.stages import check_seed
from multistep.commands.source import Source, fitted_columns, load_saved, read_episodes
from multistep.data import Columns, Episodes
from multistep.dynamics import MemoryModel, Model, check_names, particles_of
from multistep.errors import InputError
from multistep.registry import Registry, import_named
from multistep.runs.json_texts import parse_json
from multistep.runs.provenance import digest
from multistep.tasks import TASKS

ABOUT_AGENT = "agent.json"


@dataclass(frozen=True)
class InModel:
    """The model, and what an agent is to do in it."""

    model: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """The model.safetensors that a fit has left; several of them are an ensemble."""
    starts: tuple[str, ...]
    """Files with the episodes that rollouts start in, or a dataset of the paper by its name."""
    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(default_factory=Columns)
    """Which columns of a table are what; states and actions are those that the model was trained on unless
    named."""
    kind: tuple[str, ...] = ()
    """Architectures of your own, as module:Name: a model file of such a kind is loaded only if it is named
    here."""
    task: Literal["cartpole", "swimmer", "halfcheetah"] | None = None
    """Task whose reward is earned."""
    reward: str | None = None
    """Your own reward of one (state, action, next state), in JAX, as module:function."""
    margin: float = 0.5
    """States are kept within their range in the data, widened on both sides by this share of it."""
    particles: int | None = None
    """Roll out so many particles of the model, whose steps are off by chance as the model's own were
    (default: the model, or the members of an ensemble, as they are)."""
    penalty: float = 0.0
    """What the disagreement of an ensemble's members on where a step leads costs of its reward."""
    action_low: tuple[float, ...] = ()
    """Lowest actions, one number for all or one for each (default: -1, or the lowest of the data if some are
    beyond)."""
    action_high: tuple[float, ...] = ()
    """Highest actions, likewise."""


@dataclass(frozen=True)
class Planning(InModel):
    """How actions are chosen."""

    agent: Path | None = None
    """The agent.zip of a training: its policy guides the planner. What is loaded is the agent.safetensors
    beside it."""
    trust: bool = False
    """Load an agent.zip that multistep has not written: that runs whatever code is in it."""
    planner: str | None = None
    """guided: sequences of the agent's policy, completed with its value; cem: the cross-entropy method;
    random: random shooting; module:Name for your own (default: guided with an agent, cem without)."""
    num_sequences: int = 500
    """Sequences that a decision tries."""
    plan_horizon: int = 20
    """Steps that a decision looks ahead."""
    seed: int = 0
    """Seed of the planner, and of the first episode."""


class Scene(NamedTuple):
    """What the options stand for."""

    models: list[Model | MemoryModel]
    reward: Reward
    starts: Episodes


def find_scene(config: InModel) -> Scene:
    """Models, reward and start states, all of the same sizes."""
    if config.task is None and config.reward is None:
        raise InputError(
            "There is nothing to earn: name a task with --task, or your own reward with --reward "
            "module:function."
        )
    models = [load_saved(path, config.kind) for path in config.model]
    if not models:
        raise InputError("There is no model: name the model.safetensors that a fit has left.")
    if config.particles is not None and len(models) > 1:
        raise InputError("Particles are those of one model: name one file, that of an ensemble if you like.")
    if config.task is not None:
        task = TASKS[config.task]
        check_names(models[0], task.state_names, task.action_names, whose=f"the task {config.task}")
    reward = (
        import_named(config.reward, "reward") if config.reward is not None else TASKS[str(config.task)].reward
    )
    columns = fitted_columns(models[0], config.model[0], config.columns)
    return Scene(models, reward, read_episodes(Source(config.starts, columns)))


def rolled_out(config: InModel, scene: Scene, seed: int) -> list[Any]:
    """What rollouts go through: the models, or particles of one."""
    if config.particles is None:
        return list(scene.models)
    (model,) = scene.models
    return list(particles_of(model, config.particles, key=jax.random.key(seed)))  # pyright: ignore


def action_range(config: InModel) -> ActionRange | None:
    """The range of actions that is asked for, if one is."""
    if not config.action_low and not config.action_high:
        return None
    if not config.action_low or not config.action_high:
        raise InputError("Actions have two ends: give both --action-low and --action-high.")
    return config.action_low, config.action_high


def make_planner(config: Planning, scene: Scene) -> tuple[Imagination, AbstractPlanner[Any]]:
    """The planner that is asked for, in its model."""
    check_seed(config.seed)
    imagination = imagine(
        rolled_out(config, scene, config.seed),
        scene.reward,
        scene.starts,
        margin=config.margin,
        action_range=action_range(config),
        penalty=config.penalty,
    )
    if config.num_sequences < 1 or config.plan_horizon < 1:
        raise InputError(
            f"{config.num_sequences} sequences of {config.plan_horizon} steps: give at least 1 of each."
        )
    kind = config.planner or ("guided" if config.agent else "cem")
    return imagination, PLANNERS.find(kind, config, scene, imagination)


def _random(config: Planning, scene: Scene, imagination: Imagination) -> AbstractPlanner[Any]:
    return RandomShooting(imagination, config.num_sequences, config.plan_horizon)


def _cem(config: Planning, scene: Scene, imagination: Imagination) -> AbstractPlanner[Any]:
    # A tenth of the sequences, but two at least: one alone has no spread to search in.
    elites = max(min(2, config.num_sequences), config.num_sequences // 10)
    return CrossEntropy(imagination, config.num_sequences, config.plan_horizon, num_elites=elites)


def _guided(config: Planning, scene: Scene, imagination: Imagination) -> AbstractPlanner[Any]:
    policy = policy_of(_load_agent(config, scene, imagination))
    return PolicyGuided(imagination, policy, config.num_sequences, config.plan_horizon)


PLANNERS = Registry("planner", AbstractPlanner, {"guided": _guided, "cem": _cem, "random": _random})
"""Each is made of the options, the scene and the imagination."""


def models_digest(models: list[Model | MemoryModel]) -> str:
    """What tells these models from others."""
    return digest(
        [np.asarray(leaf).tobytes().hex() for leaf in jax.tree.leaves(models) if hasattr(leaf, "dtype")]
    )


def _load_agent(config: Planning, scene: Scene, imagination: Imagination) -> Any:
    """The agent, unless what is beside it says that it belongs to another model, or its actions have another
    range."""
    if config.agent is None:
        raise InputError(
            "The guided planner needs an agent: name the agent.zip of a training with --agent, or use "
            "--planner cem."
        )
    if not config.agent.exists():
        raise InputError(
            f"There is no file {config.agent}: name the agent.zip that 'multistep agent train' has left."
        )
    about = config.agent.with_name(ABOUT_AGENT)
    if about.exists() and _model_of(about) != models_digest(scene.models):
        raise InputError(
            f"The agent {config.agent} was trained in another model: name the model that it was trained in."
        )
    sizes = {"state_size": scene.starts.state_size, "action_size": scene.starts.action_size}
    agent = load_agent(config.agent, **sizes, trust=config.trust)
    space: Any = agent.action_space
    if not (
        np.allclose(space.low, imagination.action_low) and np.allclose(space.high, imagination.action_high)
    ):
        raise InputError(
            f"The actions of the agent {config.agent} have another range than the data's: name its own "
            "--starts."
        )
    return agent


def _model_of(about: Path) -> str:
    """The digest of the model that an agent was trained in."""
    try:
        return parse_json(about.read_bytes())["model"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{about} is damaged: delete it, the agent is then used with any model of its sizes."
        ) from error
