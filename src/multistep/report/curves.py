"""R2 and errors against the horizon, drawn from the rows of a run."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from multistep.report.drawing import figure_file, merged, plain_text, read_rows, read_summary
from multistep.report.sentences import with_unit

LABELS = {
    "one_step": "one-step loss",
    "multi_step": "multi-step loss",
    "ceiling": "true simulator (ceiling)",
    "model": "model",
    "linear": "linear model",
}
COLOURS = {
    "one_step": "#d95f02",
    "multi_step": "#1b6ca8",
    "ceiling": "#666666",
    "model": "#1b6ca8",
    "linear": "#1b9e77",
    "persistence": "#aaaaaa",
}
MOST_STATES = 4


def draw_r2_curves(out: Path) -> Path:
    """Draw R2(h) of every model in `out/rows.csv` to `out/r2.png` and return its path.

    Beside it is the error of each of the first states in its unit, against seconds if the step is known,
    where the run has left units and step in its summary.
    """
    rows, path = read_rows(out / "rows.csv"), out / "r2.png"
    summary = read_summary(out)
    names = [name for name in rows.columns if name.startswith("rmse_")] if "time_step" in summary else []
    names = names[:MOST_STATES]
    beside = -(-len(names) // 2)
    down = 2 if len(names) > 1 else 1
    with figure_file(path, down, 1 + beside, (6.4 + 4.2 * beside, 4.0 + 1.6 * (down - 1))) as panels:
        _draw_r2(merged(list(panels[:: 1 + beside])), rows)
        others = [panels[row * (1 + beside) + 1 + column] for column in range(beside) for row in range(down)]
        for number, panel in enumerate(others):
            if number < len(names):
                _draw_errors(panel, rows, names[number].removeprefix("rmse_"), summary)
            else:
                panel.remove()
    return path


def _draw_r2(axes: Any, rows: pl.DataFrame) -> None:
    for name in rows["model"].unique(maintain_order=True):
        curve = rows.filter(pl.col("model") == name)
        style = "--" if name == "ceiling" else "-"
        label = f"{LABELS.get(name, name)}, mean {curve['r2'].mean():.3f}"
        axes.plot(curve["horizon"], curve["r2"], style, color=COLOURS.get(name), label=label)
    # A model worse than the mean of the data has R2 below 0: how far below does not help the eye.
    axes.set_ylim(max(-0.25, min(0.0, _lowest(rows))), 1.02)
    axes.set_xlim(1, int(rows["horizon"].to_numpy().max()))
    axes.set(xlabel="steps ahead h", ylabel="R2(h) on test episodes")
    axes.grid(alpha=0.3)
    axes.legend(loc="best", framealpha=0.8, edgecolor="none")


def _draw_errors(axes: Any, rows: pl.DataFrame, state: str, summary: dict[str, Any]) -> None:
    """RMSE of one state in its unit; of a model that is far worse than persistence what there is room for."""
    step, highest = summary.get("time_step"), {}
    for name in rows["model"].unique(maintain_order=True):
        curve = rows.filter(pl.col("model") == name)
        errors = curve[f"rmse_{state}"].cast(pl.Float64).to_numpy()
        ahead = curve["horizon"].to_numpy() * (step or 1)
        axes.plot(ahead, errors, color=COLOURS.get(name), label=LABELS.get(name, name))
        highest[name] = float(np.max(errors, where=np.isfinite(errors), initial=0.0))
    most = min(max(highest.values()), 3 * (highest.get("persistence") or math.inf))
    if most > 0:
        axes.set_ylim(0, 1.05 * most)
    title = plain_text(with_unit(state, summary.get("units", {}).get(state)))
    axes.set(xlabel="seconds ahead" if step else "steps ahead h", ylabel=f"RMSE of {title}")
    axes.grid(alpha=0.3)


def _lowest(rows: pl.DataFrame) -> float:
    finite = rows.filter(pl.col("r2").is_finite())["r2"]
    return float(finite.to_numpy().min()) - 0.02 if len(finite) else 0.0
