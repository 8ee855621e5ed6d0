"""Predicted against measured outputs of free runs, drawn from the rows of a run."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from multistep.report.drawing import figure_file, merged, plain_text, read_rows
from multistep.report.sentences import with_unit

MOST_OUTPUTS = 4
MOST_DELAYS = 40


def draw_traces(out: Path) -> Path:
    """Draw the free runs in `out/traces.csv` to `out/traces.png` and return its path.

    A row of panels for each output: the worst, a median and the best record, measured and predicted, with
    their difference below on an axis of its own, and the autocorrelation of the difference in the median one,
    with the range of white noise.
    """
    rows, path = read_rows(out / "traces.csv"), out / "traces.png"
    outputs = rows["output"].unique(maintain_order=True).to_list()[:MOST_OUTPUTS]
    roles = rows["role"].unique(maintain_order=True).to_list()
    columns, size = len(roles) + 1, (3.4 * (len(roles) + 1), 3.2 * len(outputs))
    with figure_file(path, 2 * len(outputs), columns, size, [3, 1] * len(outputs)) as panels:
        for row, output in enumerate(outputs):
            own = rows.filter(pl.col("output") == output)
            above, below = (panels[columns * (2 * row + part) :][:columns] for part in (0, 1))
            for column, role in enumerate(roles):
                _draw_trace(above[column], below[column], own.filter(pl.col("role") == role))
            above[0].set_ylabel(plain_text(_with_unit(own)))
            below[0].set_ylabel("difference", fontsize=8)
            middle = own.filter(pl.col("role") == ("median" if "median" in roles else roles[0]))
            _draw_autocorrelation(merged([above[-1], below[-1]]), middle)
        panels[0].legend(fontsize=7, framealpha=0.8, edgecolor="none")
    return path


def _draw_trace(above: Any, below: Any, trace: pl.DataFrame) -> None:
    """Measured and predicted, and below them their difference, which is small where the model is good."""
    has_time = trace["time"].null_count() == 0
    along = trace["time" if has_time else "sample"]
    above.plot(along, trace["measured"], color="#444444", linewidth=1.0, label="measured")
    above.plot(along, trace["predicted"], color="#1b6ca8", linewidth=1.0, label="predicted")
    _keep_in_sight(above, trace, 0.0)
    above.set_title(plain_text(f"{trace['role'][0]}: {_short(trace['record'][0])}"), fontsize=8)
    above.tick_params(labelbottom=False)
    below.plot(along, trace["measured"] - trace["predicted"], color="#d95f02", linewidth=0.8)
    _keep_in_sight(below, trace, float(np.mean(trace["measured"].to_numpy())))
    below.tick_params(axis="y", labelsize=7)
    below.set_xlabel("time [s]" if has_time else "sample")
    below.sharex(above)
    for axes in (above, below):
        axes.grid(alpha=0.3)


def _with_unit(trace: pl.DataFrame) -> str:
    """The name of the output, and its unit if these rows have one."""
    return with_unit(trace["output"][0], trace["unit"][0] if "unit" in trace.columns else None)


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


def _keep_in_sight(axes: Any, trace: pl.DataFrame, level: float) -> None:
    """A run that diverges does not squeeze what was measured, above this level, into a line."""
    measured = trace["measured"].to_numpy() - level
    low, high = float(measured.min()), float(measured.max())
    span = max(high - low, 1e-12)
    bottom, top = axes.get_ylim()
    axes.set_ylim(max(bottom, low - 2 * span), min(top, high + 2 * span))


def _short(record: str, most: int = 40) -> str:
    return record if len(record) <= most else f"...{record[-most + 3 :]}"
