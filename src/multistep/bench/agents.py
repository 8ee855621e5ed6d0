"""`multistep bench agents`: SAC in the model, planning and the model as an environment, beside what they
cannot beat."""

import statistics
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from multistep.agents.model_env import ModelEnv
from multistep.agents.planners import PolicyGuided, decide
from multistep.agents.policy import policy_of
from multistep.agents.sbx_agents import sbx_sac
from multistep.bench.sac_floor import sac_floor_work
from multistep.bench.training import TRUSTED_CPU_SHARE, in_new_process
from multistep.bench.workload import (
    ACTIONS,
    HIDDEN,
    MULTIPLICATIONS,
    STATES,
    Work,
    gemm_work,
    random_episodes,
    timed,
)
from multistep.dynamics import fit_normaliser, in_units
from multistep.errors import InputError
from multistep.runs.process import available_cores
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_run, write_run
from multistep.training import PRESETS
from multistep.types import Action, Scalar, State

SEQUENCES, PLAN_HORIZON, ENVIRONMENTS = 500, 20, 1000
POLICY_MULTIPLICATIONS = STATES * HIDDEN + HIDDEN**2 + HIDDEN * 2 * ACTIONS
CRITIC_MULTIPLICATIONS = (STATES + ACTIONS) * HIDDEN + HIDDEN**2 + HIDDEN

COMMAND = "bench agents"


@dataclass(frozen=True)
class AgentsBenchConfig:
    """SAC in the model beside a bare update and Stable-Baselines3; planning and the model's steps beside a
    matrix product."""

    out: Path = Path("runs/bench-agents")
    """Folder for the results."""
    rounds: int = 5
    """Times that everything is measured, in turn; the summary takes medians."""
    sac_calls: int = 6
    """Calls of the environment in one measurement of SAC, each with 100 rollouts and 100 gradient steps."""
    decisions: int = 20
    """Decisions of one measurement."""
    env_steps: int = 200
    """Steps of 1000 model environments in one measurement."""


def run_agents_bench(config: AgentsBenchConfig) -> dict[str, Any]:
    """Measure on one core, leave rows and summary in `config.out`, and return the summary."""
    check_run(config.out, COMMAND)
    if min(config.rounds, config.sac_calls, config.decisions, config.env_steps) < 1:
        raise InputError("Every number of the benchmark must be 1 or more.")
    rows = in_new_process(_measure, available_cores()[0], config)
    summary = _summary(rows, config)
    write_run(config.out, COMMAND, config, rows, summary)
    return summary


def _measure(config: AgentsBenchConfig) -> list[Row]:
    """One row per round and comparison: a work, and its yardstick right before and after it, for the
    machine's speed drifts."""
    warnings.simplefilter("ignore")
    env = _env(100)
    sac, floor = _sbx_work(env, config.sac_calls), sac_floor_work(100 * config.sac_calls)
    sb3 = _sb3_work(_env(100), config.sac_calls)
    decision, decision_operations = _decision_work(env, config.decisions)
    steps, steps_operations = _env_work(_model(), config.env_steps)
    comparisons: dict[str, tuple[Work, float, Work, float]] = {
        # As many gradient steps on both sides of the first two.
        "sac_of_floor": (sac, 1.0, floor, 1.0),
        "sac_over_sb3": (sb3, 1.0, sac, 1.0),
        "mpc_over_gemm_time": (decision, decision_operations, *_gemm(SEQUENCES, decision_operations)),
        "model_env_of_gemm": (steps, steps_operations, *_gemm(ENVIRONMENTS, steps_operations)),
    }
    for work, _, yardstick, _ in comparisons.values():
        work()
        yardstick()
    return [
        {"round": n, "comparison": name, **_compare(*comparison)}
        for n in range(config.rounds)
        for name, comparison in comparisons.items()
    ]


def _gemm(num_rows: int, operations: float) -> tuple[Work, float]:
    """Bare products with so many rows, about half as much work as they are compared with."""
    return gemm_work(max(1, int(operations / (4.0 * num_rows * HIDDEN**2))), num_rows=num_rows)


def _compare(work: Work, operations: float, yardstick: Work, yardstick_operations: float) -> Row:
    before, during, after = (timed(each) for each in (yardstick, work, yardstick))
    yardstick_seconds = (before["seconds"] + after["seconds"]) / 2
    return {
        "seconds": during["seconds"],
        "yardstick_seconds": yardstick_seconds,
        "time_ratio": (during["seconds"] / operations) / (yardstick_seconds / yardstick_operations),
        "cpu_share": min(each["cpu_share"] for each in (before, during, after)),
    }


def _summary(rows: list[Row], config: AgentsBenchConfig) -> dict[str, Any]:
    """Medians, lowest and highest over the undisturbed measurements, or over all if there is none."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(row["comparison"] for row in rows):
        mine = [row for row in rows if row["comparison"] == name]
        trusted = [row for row in mine if row["cpu_share"] >= TRUSTED_CPU_SHARE] or mine
        ratios = [
            1 / row["time_ratio"] if name.endswith(("of_floor", "of_gemm")) else row["time_ratio"]
            for row in trusted
        ]
        found[name] = statistics.median(ratios)
        found[f"{name}_range"] = [min(ratios), max(ratios)]
        found[f"{name}_seconds"] = statistics.median(row["seconds"] for row in trusted)
    return found | {
        "sac_updates_per_second": 100 * config.sac_calls / found["sac_of_floor_seconds"],
        "sb3_updates_per_second": 100 * config.sac_calls / found["sac_over_sb3_seconds"],
        "decision_milliseconds": 1000 * found["mpc_over_gemm_time_seconds"] / config.decisions,
        "undisturbed": sum(row["cpu_share"] >= TRUSTED_CPU_SHARE for row in rows) / len(rows),
    }


def _sbx_work(env: ModelEnv, num_calls: int) -> Work:
    """Steps and gradient steps as `train_on_model` takes them."""
    agent = sbx_sac()("MlpPolicy", _vec(env), gradient_steps=env.num_envs, buffer_size=100_000, seed=0)
    agent.learn(2 * env.num_envs)  # past the first, random actions
    return lambda: _discard(agent.learn(num_calls * env.num_envs, reset_num_timesteps=False))


def _sb3_work(env: ModelEnv, num_calls: int) -> Work:
    try:
        import torch
        from stable_baselines3 import SAC
    except ImportError as error:
        raise InputError(
            "The benchmark compares with Stable-Baselines3: install multistep[agents]."
        ) from error
    torch.set_num_threads(1)
    agent = SAC(
        "MlpPolicy", _vec(env), gradient_steps=env.num_envs, buffer_size=100_000, seed=0, device="cpu"
    )
    agent.learn(2 * env.num_envs)
    return lambda: _discard(agent.learn(num_calls * env.num_envs, reset_num_timesteps=False))


def _decision_work(env: ModelEnv, num_decisions: int) -> tuple[Work, float]:
    agent = sbx_sac()("MlpPolicy", _vec(env), buffer_size=1000, seed=0)
    planner = PolicyGuided(env.imagination, policy_of(agent), SEQUENCES, PLAN_HORIZON)
    state, key = jnp.zeros(STATES), jax.random.key(0)

    def work() -> None:
        for _ in range(num_decisions):
            jax.block_until_ready(decide(planner, state, None, key))

    steps = (
        PLAN_HORIZON * MULTIPLICATIONS
        + (PLAN_HORIZON + 1) * POLICY_MULTIPLICATIONS
        + 2 * CRITIC_MULTIPLICATIONS
    )
    return work, 2.0 * SEQUENCES * steps * num_decisions


def _env_work(model: Any, num_steps: int) -> tuple[Work, float]:
    env = _env(ENVIRONMENTS, model)
    env.reset(seed=0)
    actions = np.zeros((ENVIRONMENTS, ACTIONS), np.float32)

    def work() -> None:
        for _ in range(num_steps):
            env.step(actions)

    return work, 2.0 * MULTIPLICATIONS * ENVIRONMENTS * num_steps


def _vec(env: ModelEnv) -> Any:
    from multistep.agents.model_vec_env import ModelVecEnv  # needs Stable-Baselines3, which is an extra

    return ModelVecEnv(env)


def _env(num_envs: int, model: Any | None = None) -> ModelEnv:
    return ModelEnv(model or _model(), _reward, random_episodes(1000), num_envs=num_envs)


def _reward(state: State, action: Action, next_state: State) -> Scalar:
    """HalfCheetah's: the velocity, less the effort."""
    return next_state[8] - 0.1 * (action**2).sum()


def _model() -> Any:
    network = PRESETS["default"].network.make(STATES, ACTIONS, key=jax.random.key(0)).freeze()
    episodes = random_episodes(1000)
    normaliser = jax.tree.map(lambda values: jnp.asarray(values, float), fit_normaliser(episodes))
    return in_units(network, normaliser, episodes.state_names, episodes.action_names)


def _discard(value: Any) -> None:
    jax.block_until_ready(getattr(getattr(value, "policy", None), "actor_state", None))
