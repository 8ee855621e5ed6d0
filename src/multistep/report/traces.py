"""Predicted against measured outputs of free runs, drawn from the rows of a run."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from multistep.report.drawing import figure_file, read_rows

MOST_OUTPUTS = 4
MOST_DELAYS = 40


def draw_traces(out: Path) -> Path:
    """Draw the free runs in `out/traces.csv` to `out/traces.png` and return its path.

    A row of panels for each output: the worst, a median and the best record, measured and predicted, and the
    autocorrelation of what is left over in the median one, with the range of white noise.
    """
    rows, path = read_rows(out / "traces.csv"), out / "traces.png"
    outputs = rows["output"].unique(maintain_order=True).to_list()[:MOST_OUTPUTS]
    roles = rows["role"].unique(maintain_order=True).to_list()
    columns, height = len(roles) + 1, max(2.6, 2.2 * len(outputs))
    has_time = rows["time"].null_count() == 0
    with figure_file(path, len(outputs), columns, (3.4 * columns, height)) as panels:
        for row, output in enumerate(outputs):
            own = rows.filter(pl.col("output") == output)
            for column, role in enumerate(roles):
                axes, trace = panels[row * columns + column], own.filter(pl.col("role") == role)
                along = trace["time" if has_time else "sample"]
                axes.plot(along, trace["measured"], color="#444444", linewidth=1.0, label="measured")
                axes.plot(along, trace["predicted"], color="#1b6ca8", linewidth=1.0, label="predicted")
                difference = trace["measured"] - trace["predicted"]
                axes.plot(along, difference, color="#d95f02", linewidth=0.6, label="difference")
                _keep_in_sight(axes, trace)
                axes.set(xlabel="time" if has_time else "sample", ylabel=output if column == 0 else "")
                axes.set_title(f"{role}: {_short(trace['record'][0])}", fontsize=8)
                axes.grid(alpha=0.3)
            middle = own.filter(pl.col("role") == ("median" if "median" in roles else roles[0]))
            _draw_autocorrelation(panels[row * columns + columns - 1], middle)
        panels[0].legend(fontsize=7, framealpha=0.8, edgecolor="none")
    return path


def autocorrelation(values: np.ndarray, most: int = MOST_DELAYS) -> np.ndarray:
    """Correlation of the values with themselves 1, 2, ... samples later; none where they never change."""
    centred = values - values.mean()
    power = float(centred @ centred)
    delays = range(1, min(most, len(values) - 1) + 1)
    if not power > 0 or not np.isfinite(power):
        return np.zeros(0)
    return np.array([float(centred[:-delay] @ centred[delay:]) / power for delay in delays])


def _draw_autocorrelation(axes: Any, trace: pl.DataFrame) -> None:
    found = autocorrelation((trace["measured"] - trace["predicted"]).to_numpy().astype(float))
    axes.bar(np.arange(1, len(found) + 1), found, color="#d95f02", width=0.8)
    bound = 2 / np.sqrt(max(len(trace), 1))
    axes.axhspan(-bound, bound, color="#888888", alpha=0.25)
    axes.set_ylim(-1.05, 1.05)
    axes.set(xlabel="delay in samples")
    axes.set_title("autocorrelation of the difference", fontsize=8)
    axes.grid(alpha=0.3)


def _keep_in_sight(axes: Any, trace: pl.DataFrame) -> None:
    """A run that diverges does not squeeze what was measured into a line."""
    measured = trace["measured"].to_numpy()
    low, high = float(measured.min()), float(measured.max())
    span = max(high - low, 1e-12)
    bottom, top = axes.get_ylim()
    axes.set_ylim(max(bottom, low - 2 * span), min(top, high + 2 * span))


def _short(record: str, most: int = 32) -> str:
    return record if len(record) <= most else f"...{record[-most + 3 :]}"
