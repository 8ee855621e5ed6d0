"""What every table has beside the model: persistence and a linear model, scored as it is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from multistep.data import Episodes
from multistep.dynamics import (
    AbstractDynamics,
    CommitteeConfig,
    HiddenConfig,
    LaggedConfig,
    LineConfig,
    Persistence,
    load_model,
)
from multistep.errors import InputError
from multistep.evaluation import advantage, score
from multistep.evaluation.rows import score_rows, score_summary
from multistep.runs.row_log import Row
from multistep.training import LeastSquares
from multistep.types import Key

LINEAR = "linear.safetensors"
"""The file of the linear model, beside that of the model."""


def beside(path: Path) -> AbstractDynamics | None:
    """The linear model that a fit has left beside the model in this file, if it is still there."""
    try:
        return load_model(path.with_name(LINEAR))
    except InputError:
        return None


def linear_like(model: Any, train: Episodes, *, key: Key) -> Any:
    """The linear model with the memory of this one."""
    made = model.learned.architecture
    if isinstance(made, CommitteeConfig):  # whose members have the memory
        made = made.network
    with_memory = isinstance(made, LaggedConfig | HiddenConfig)
    network = replace(made, network=LineConfig()) if with_memory else LineConfig()
    return LeastSquares(network).fit(train, train, key=key, score=lambda *_: 0.0).model


def score_baselines(
    model: AbstractDynamics, linear: AbstractDynamics | None, episodes: Episodes, horizon: int
) -> tuple[list[Row], dict[str, Any]]:
    """Rows of the baselines, and what the summary says of them: their scores, and by how much the model
    beats the linear one."""
    rows: list[Row] = []
    summary: dict[str, Any] = {}
    baselines: dict[str, AbstractDynamics] = {"persistence": Persistence()}
    if linear is not None:
        baselines["linear"] = linear
        difference, low, high = advantage(model, linear, episodes, horizon=horizon)
        summary["over_linear"] = {"difference": difference, "low": low, "high": high}
    for name, baseline in baselines.items():
        scores = score(baseline, episodes, horizon=horizon)
        rows += score_rows(name, scores)
        summary[name] = score_summary(scores)
    return rows, summary
