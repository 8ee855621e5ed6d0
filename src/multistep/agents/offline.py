"""Offline model-based RL as one job: a model of logged episodes, an agent in it, its returns in the real
environment."""

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
from jaxtyping import Float
from numpy import ndarray

from multistep.agents.acting import act
from multistep.agents.model_based import train_on_model
from multistep.agents.model_env import ModelEnv
from multistep.agents.observing import Filtered
from multistep.agents.planners import AbstractPlanner, PolicyGuided
from multistep.agents.policy import policy_of
from multistep.data import Episodes
from multistep.dynamics import Observer
from multistep.evaluation import score
from multistep.runs.provenance import digest, plain
from multistep.runs.row_log import Row
from multistep.runs.sweep import AbstractJob
from multistep.selection.fit import VALIDATION_HORIZON, fit
from multistep.selection.folds import Fold
from multistep.tasks import TASKS
from multistep.training import AbstractRecipe, Fit, Outcome, fit_observer


@dataclass(frozen=True)
class Budget:
    """How long an agent is trained and how it is evaluated; the values are the paper's."""

    sac_steps: int = 500_000
    num_envs: int = 100
    num_sequences: int = 500
    plan_horizon: int = 20
    num_episodes: int = 10
    episode_steps: int | None = None
    """Steps of an episode (default: those of the task)."""


class Logged(NamedTuple):
    """What an agent is learned from, and the deviation of the noise on what it sees when it acts."""

    episodes: Episodes
    noise: Float[ndarray, " state"]


@dataclass(frozen=True)
class AgentJob(AbstractJob):
    """Fit a model to the training episodes of a fold, train SAC in it, act with both.

    A smoothed model has an observer; where there is noise, it acts again in the states that it takes the
    measured ones for.
    """

    data: str
    task: str
    config: AbstractRecipe
    fold: Fold
    seed: int
    budget: Budget
    names: Mapping[str, Any] = field(default_factory=dict)
    """What else the row should be called: a dataset, a noise scale."""

    @property
    def work(self) -> float:
        return 1.0

    def labels(self) -> Row:
        return {
            "kind": "agent",
            **self.names,
            "data": self.data,
            "task": self.task,
            "config": digest(self.config),
            "horizon": self.config.settings.horizon,
            "weights": plain(self.config.settings.weights),
            "fold": self.fold.number,
            "seed": self.seed,
            "settings": plain(self.config),
            "budget": plain(self.budget),
        }

    def run(self, data: Logged) -> Row:
        train, _, test = self.fold.deal(data.episodes)
        clock = [time.perf_counter()]
        fitted = self._fit(data.episodes)
        if fitted.outcome is Outcome.DIVERGED:
            return {
                "outcome": str(Outcome.DIVERGED),
                "reason": "the training of the model diverged",
                "returns": [],
            }
        model = fitted.model
        observer = self._observer(fitted, train)  # if it fails, before hours of SAC
        clock.append(time.perf_counter())
        env = ModelEnv(model, TASKS[self.task].reward, train, num_envs=self.budget.num_envs)
        agent = train_on_model(env, num_steps=self.budget.sac_steps, seed=self._seed)
        clock.append(time.perf_counter())
        planner = PolicyGuided(
            env.imagination, policy_of(agent), self.budget.num_sequences, self.budget.plan_horizon
        )
        found: Row = {"returns": self._act(planner, data.noise)}
        if fitted.chosen is not None:
            found |= {"chosen": fitted.chosen}
        if observer is not None and data.noise.any():
            found |= {
                "returns_filtered": self._act(Filtered(planner, observer, train.action_size), data.noise)
            }
        clock.append(time.perf_counter())
        horizon = min(VALIDATION_HORIZON, int(test.lengths.min()))
        seconds = dict(zip(("fit", "sac", "act"), (b - a for a, b in itertools.pairwise(clock)), strict=True))
        return {
            "outcome": "finished",
            "reason": None,
            **found,
            "r2bar": score(model, test, horizon=horizon).r2bar(),
            "left_share": env.num_left / max(1, env.num_ended),
            **{f"{name}_seconds": value for name, value in seconds.items()},
        }

    @property
    def _seed(self) -> int:
        return 1000 * self.seed + self.fold.number

    def _fit(self, episodes: Episodes) -> Fit:
        train, valid, _ = self.fold.deal(episodes)
        return fit(train, valid, self.config, key=jax.random.key(self._seed))

    def _observer(self, fitted: Fit, train: Episodes) -> Observer | None:
        """An observer around the model, if a recipe has looked for noise with one."""
        if fitted.observer is None or fitted.observer.model is fitted.model:
            return fitted.observer
        return fit_observer(fitted.model, train)

    def _act(self, planner: AbstractPlanner[Any], noise: Float[ndarray, " state"]) -> list[float]:
        """The returns of all episodes, the same ones for every agent: they differ by what is varied alone."""
        given = {"noise": noise, "num_steps": self.budget.episode_steps}
        return [
            act(planner, TASKS[self.task], seed=number, **given).total
            for number in range(self.budget.num_episodes)
        ]
