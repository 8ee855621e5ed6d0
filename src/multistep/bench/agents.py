"""`multistep bench agents`: SAC in the model, planning and the model as an environment, beside what they cannot beat."""

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
from multistep.agents.stages import sbx_sac
from multistep.bench.sac_floor import sac_floor_work
from multistep.bench.training import TRUSTED_CPU_SHARE, in_new_process
from multistep.bench.workload import ACTIONS, HIDDEN, MULTIPLICATIONS, STATES, Work, gemm_work, random_episodes, timed
from multistep.dynamics import Model, fit_normaliser, make_learner
from multistep.errors import InputError
from multistep.process import available_cores
from multistep.selection.row_log import Row
from multistep.studies.run_folder import write_run
from multistep.training import PRESETS
from multistep.types import Action, Scalar, State

SEQUENCES, PLAN_HORIZON, ENVIRONMENTS = 500, 20, 1000
POLICY_MULTIPLICATIONS = STATES * HIDDEN + HIDDEN**2 + HIDDEN * 2 * ACTIONS
CRITIC_MULTIPLICATIONS = (STATES + ACTIONS) * HIDDEN + HIDDEN**2 + HIDDEN


@dataclass(frozen=True)
class AgentsBenchConfig:
    """SAC in the model beside a bare update and Stable-Baselines3; planning and the model's steps beside a matrix product."""

    out: Path = Path("runs/bench-agents")
    """Folder for the results."""
    rounds: int = 7
    """Times that everything is measured, in turn; the summary takes medians."""
    sac_calls: int = 10
    """Calls of the environment in one measurement of SAC, each with 100 rollouts and 100 gradient steps."""
    decisions: int = 10
    """Decisions of one measurement."""
    env_steps: int = 50
    """Steps of 1000 model environments in one measurement."""


def run_agents_bench(config: AgentsBenchConfig) -> dict[str, Any]:
    """Measure on one core, leave rows and summary in `config.out`, and return the summary."""
    if min(config.rounds, config.sac_calls, config.decisions, config.env_steps) < 1:
        raise InputError("Every number of the benchmark must be 1 or more.")
    rows = in_new_process(_measure, available_cores()[0], config)
    summary = _summary(rows, config)
    write_run(config.out, "bench agents", config, rows, summary)
    return summary


def _measure(config: AgentsBenchConfig) -> list[Row]:
    """One row per round and item; every item has a bare product before and after it."""
    warnings.simplefilter("ignore")
    model, env = _model(), _env(100)
    gemm, gemm_operations = gemm_work(4000)
    items: dict[str, tuple[Work, float]] = {
        "floor": (sac_floor_work(100 * config.sac_calls), 0.0),
        "sac": (_sbx_work(env, config.sac_calls), 0.0),
        "sb3": (_sb3_work(_env(100), max(1, config.sac_calls // 4)), 0.0),
        "decision": _decision_work(env, config.decisions),
        "model_env": _env_work(model, config.env_steps),
    }
    for work, _ in items.values():
        work()
    gemm()
    return [
        {"round": n, "item": name, **_beside(gemm, gemm_operations, *item)}
        for n in range(config.rounds)
        for name, item in items.items()
    ]


def _beside(gemm: Work, gemm_operations: float, work: Work, operations: float) -> Row:
    before, during, after = (timed(each) for each in (gemm, work, gemm))
    return {
        "seconds": during["seconds"],
        "gemm_gflops": 2 * gemm_operations / (before["seconds"] + after["seconds"]) / 1e9,
        "gflops": operations / during["seconds"] / 1e9,
        "cpu_share": min(each["cpu_share"] for each in (before, during, after)),
    }


def _summary(rows: list[Row], config: AgentsBenchConfig) -> dict[str, Any]:
    """Medians over the undisturbed measurements, or over all if there is none."""
    trusted = [row for row in rows if row["cpu_share"] >= TRUSTED_CPU_SHARE]

    def median(item: str, value: Any) -> float:
        mine = [row for row in trusted if row["item"] == item] or [row for row in rows if row["item"] == item]
        return statistics.median(value(row) for row in mine)

    # Times in units of the bare product's, so that a drift of the machine's speed cancels.
    def cost(item: str) -> float:
        return median(item, lambda row: row["seconds"] * row["gemm_gflops"])

    def of_gemm(item: str) -> float:
        return median(item, lambda row: row["gflops"] / row["gemm_gflops"])

    steps, sb3_steps = config.sac_calls, max(1, config.sac_calls // 4)
    return {
        "sac_of_floor": cost("floor") / cost("sac"),
        "sac_over_sb3": (cost("sb3") / sb3_steps) / (cost("sac") / steps),
        "mpc_over_gemm_time": 1 / of_gemm("decision"),
        "model_env_of_gemm": of_gemm("model_env"),
        "sac_updates_per_second": 100 * steps / median("sac", lambda row: row["seconds"]),
        "floor_updates_per_second": 100 * steps / median("floor", lambda row: row["seconds"]),
        "sb3_updates_per_second": 100 * sb3_steps / median("sb3", lambda row: row["seconds"]),
        "decision_milliseconds": 1000 * median("decision", lambda row: row["seconds"]) / config.decisions,
        "gemm_gflops": statistics.median(row["gemm_gflops"] for row in trusted or rows),
        "measurements": {"all": len(rows), "undisturbed": len(trusted)},
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
        raise InputError("The benchmark compares with Stable-Baselines3: install multistep[agents].") from error
    torch.set_num_threads(1)
    agent = SAC("MlpPolicy", _vec(env), gradient_steps=env.num_envs, buffer_size=100_000, seed=0, device="cpu")
    agent.learn(2 * env.num_envs)
    return lambda: _discard(agent.learn(num_calls * env.num_envs, reset_num_timesteps=False))


def _decision_work(env: ModelEnv, num_decisions: int) -> tuple[Work, float]:
    agent = sbx_sac()("MlpPolicy", _vec(env), buffer_size=1000, seed=0)
    planner = PolicyGuided(env.imagination, policy_of(agent), SEQUENCES, PLAN_HORIZON)
    state, key = jnp.zeros(STATES), jax.random.key(0)

    def work() -> None:
        for _ in range(num_decisions):
            jax.block_until_ready(decide(planner, state, None, key))

    steps = PLAN_HORIZON * MULTIPLICATIONS + (PLAN_HORIZON + 1) * POLICY_MULTIPLICATIONS + 2 * CRITIC_MULTIPLICATIONS
    return work, 2.0 * SEQUENCES * steps * num_decisions


def _env_work(model: Model, num_steps: int) -> tuple[Work, float]:
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


def _env(num_envs: int, model: Model | None = None) -> ModelEnv:
    return ModelEnv(model or _model(), _reward, random_episodes(1000), num_envs=num_envs)


def _reward(state: State, action: Action, next_state: State) -> Scalar:
    """HalfCheetah's: the velocity, less the effort."""
    return next_state[8] - 0.1 * (action**2).sum()


def _model() -> Model:
    network = make_learner(PRESETS["default"].network, STATES, ACTIONS, key=jax.random.key(0)).network
    episodes = random_episodes(1000)
    normaliser = jax.tree.map(lambda values: jnp.asarray(values, float), fit_normaliser(episodes))
    return Model(network, normaliser, episodes.state_names, episodes.action_names)


def _discard(value: Any) -> None:
    jax.block_until_ready(getattr(getattr(value, "policy", None), "actor_state", None))
