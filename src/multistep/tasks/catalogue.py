"""The eight datasets of the paper: task, size, split, and how each one is made.

Where the paper took HalfCheetah's from D4RL, they are collected anew with the same kind of policy.
"""

from dataclasses import dataclass

from multistep.errors import InputError
from multistep.tasks.cartpole import CARTPOLE
from multistep.tasks.halfcheetah import HALFCHEETAH
from multistep.tasks.swimmer import SWIMMER
from multistep.tasks.task import Task
from multistep.training import Preset


@dataclass(frozen=True)
class RandomPolicy:
    """Actions uniform in their range."""

    seed: int


@dataclass(frozen=True)
class AgentTraining:
    """Model-free SAC trained on the environment, up to half of its convergence."""

    num_episodes: int
    seed: int


@dataclass(frozen=True)
class AgentReplay:
    """All episodes of an agent's training."""

    training: AgentTraining


@dataclass(frozen=True)
class AgentRollouts:
    """Episodes of an agent after its training."""

    training: AgentTraining
    seed: int


@dataclass(frozen=True)
class OnlineLoop:
    """All episodes of a model-based agent that learns while it acts: fit a model, train SAC in it, act with
    both, repeat."""

    seed: int
    preset: Preset
    """How the model is trained, anew after every episode."""
    horizon: int
    """Steps ahead that the model's loss looks at."""
    sac_steps: tuple[int, int]
    """Least and most steps of SAC in each new model. The number is drawn for each: a wide range is an
    unstable agent."""
    num_random: int = 3
    """Episodes of random actions at the beginning."""
    num_envs: int = 100
    """Rollouts in the model side by side."""
    num_sequences: int = 500
    """Sequences that a decision tries."""
    plan_horizon: int = 20
    """Steps that a decision looks ahead."""


@dataclass(frozen=True)
class Dataset:
    """One dataset of the catalogue."""

    name: str
    task: Task
    split: tuple[int, int, int]
    """Episodes for training, validation and test."""
    recipe: RandomPolicy | AgentReplay | AgentRollouts | OnlineLoop
    policy: str
    """The policy that acted, in a word or two."""

    @property
    def num_episodes(self) -> int:
        return sum(self.split)


# The episodes of demo and benchmark, chosen after a look at the true simulator's score on several: see
# bench/README.md.
CARTPOLE_RANDOM_SEED = 6
# D4RL's medium agent has a return of about 4800, half of what SAC converges to; this one has 5200 after 200
# episodes. With seed 0 it stays in a poor gait at 1600, which happens to some seeds.
HALFCHEETAH_TRAINING = AgentTraining(num_episodes=200, seed=1)
STABLE_LOOP = OnlineLoop(seed=0, preset="default", horizon=4, sac_steps=(10_000, 10_000))
# A one-step model, and a policy that has hardly begun to learn in some episodes and is good in others.
UNSTABLE_LOOP = OnlineLoop(seed=0, preset="default", horizon=1, sac_steps=(1_000, 10_000))

CATALOGUE = {
    dataset.name: dataset
    for dataset in (
        Dataset("cartpole/random", CARTPOLE, (36, 4, 10), RandomPolicy(CARTPOLE_RANDOM_SEED), "random"),
        Dataset("cartpole/mixed_replay", CARTPOLE, (36, 4, 10), UNSTABLE_LOOP, "model-based SAC, unstable"),
        Dataset("cartpole/full_replay", CARTPOLE, (36, 4, 10), STABLE_LOOP, "model-based SAC"),
        Dataset("swimmer/random", SWIMMER, (36, 4, 10), RandomPolicy(0), "random"),
        Dataset("swimmer/mixed_replay", SWIMMER, (36, 4, 10), UNSTABLE_LOOP, "model-based SAC, unstable"),
        Dataset("halfcheetah/random", HALFCHEETAH, (76, 4, 20), RandomPolicy(0), "random"),
        Dataset(
            "halfcheetah/medium",
            HALFCHEETAH,
            (76, 4, 20),
            AgentRollouts(HALFCHEETAH_TRAINING, 0),
            "SAC half trained",
        ),
        Dataset(
            "halfcheetah/medium_replay",
            HALFCHEETAH,
            (156, 4, 40),
            AgentReplay(HALFCHEETAH_TRAINING),
            "SAC's training",
        ),
    )
}


def find_dataset(name: str) -> Dataset:
    """The dataset of this name."""
    if name not in CATALOGUE:
        raise InputError(
            f"There is no dataset {name} in the catalogue: choose one of {', '.join(CATALOGUE)}."
        )
    return CATALOGUE[name]
