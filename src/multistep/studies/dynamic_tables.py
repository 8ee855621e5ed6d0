"""The bars of the dynamic study from the rows of its agents, and how they stand to the paper's statements."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multistep.evaluation.intervals import mean_interval
from multistep.losses import describe_weights
from multistep.runs.row_log import Row
from multistep.training import AbstractRecipe

ONE_STEP, BY_R2, UNIFORM, BY_RETURN = "one-step", "beta by R2", "uniform", "beta by return"
OURS_ONCE, OURS, OURS_FILTERED = "default, fitted once", "default", "default, filtered"
Learned = AbstractRecipe
"""How a model was learned."""
PAPER_ONE_STEP = 700.0
"""The paper's return of the one-step model without noise, "near 700"; it gives no other number."""


def group_row(noise: float, variant: str, model: Learned, agents: Sequence[Row]) -> Row:
    """Mean return of a model's agents, with its 95 % interval."""
    returns = "returns_filtered" if variant == OURS_FILTERED else "returns"
    return _row(noise, variant, model, agents, [agent.get(returns, []) for agent in agents])


def best_by_return(noise: float, variant: str, agents: Mapping[Learned, Sequence[Row]]) -> Row:
    """The model whose agents return most: chosen on the first half of their episodes, reported on the other
    half.

    A model one of whose agents was lost, to a fit that failed or diverged, is not chosen.
    """
    halves = {model: [_halves(agent.get("returns", [])) for agent in rows] for model, rows in agents.items()}
    best = max(halves, key=lambda model: float(np.mean([_mean(first) for first, _ in halves[model]])))
    return _row(noise, variant, best, agents[best], [second for _, second in halves[best]])


def verdicts(groups: Sequence[Row]) -> dict[str, Any]:
    """The paper's statement beside what was found, by noise."""

    def means(variant: str) -> dict[str, float]:
        return {f"{row['noise']:g}": row["return_mean"] for row in groups if row["variant"] == variant}

    return {
        "paper_one_step_without_noise": PAPER_ONE_STEP,
        "one_step": means(ONE_STEP),
        "default_fitted_once": means(OURS_ONCE),
        "default": means(OURS),
        "default_filtered": means(OURS_FILTERED),
    }


def _row(
    noise: float, variant: str, model: Learned, agents: Sequence[Row], by_agent: Sequence[Sequence[float]]
) -> Row:
    """The interval is over the means of agents; with one agent over its episodes, without the chance of its
    training."""
    returns = [value for own in by_agent for value in own]
    spread = returns if len(by_agent) == 1 else [_mean(own) for own in by_agent if own]
    low, high = mean_interval(np.asarray(spread))
    scores = [float(agent["r2bar"]) for agent in agents if "r2bar" in agent]
    chosen = {_chosen(agent) for agent in agents}
    training = model.part(chosen.pop() if len(chosen) == 1 else None).settings
    num_acting = sum(len(own) > 0 for own in by_agent)
    return {
        "noise": noise,
        "variant": variant,
        "horizon": training.horizon,
        "weights": describe_weights(training.weights),
        "r2bar_50": _mean(scores),
        "agents": num_acting,
        "lost": len(agents) - num_acting,
        "episodes": len(returns),
        "return_mean": _mean(returns),
        "return_low": low,
        "return_high": high,
        "returns": " ".join(f"{value:.1f}" for value in returns),
    }


def _chosen(agent: Row) -> str | None:
    """The part of the fit that the agent was trained in; older rows say only whether there was a second
    one."""
    return agent.get("chosen") or ("measured" if agent.get("fitted_again") is False else None)


def _halves(returns: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    middle = len(returns) // 2
    return returns[:middle], returns[middle:]


def _mean(values: Sequence[float]) -> float:
    """The mean; minus infinity for a model that has no agent, so that it is never the best."""
    return float(np.mean(values)) if len(values) else float("-inf")
