"""What is in a set of episodes, drawn from the rows that `multistep inspect` has left."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl

from multistep.errors import counted
from multistep.report.sentences import read_column_rows
from multistep.runs.atomic import replacing

MOST_PANELS = 10
COLOURS = ("#1b6ca8", "#d95f02", "#666666")


def draw_overview(out: Path) -> Path:
    """Draw returns (or lengths), ranges and a few trajectories to `out/overview.png` and return its path."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = read_column_rows(out).filter(pl.col("kind") != "reward")
    episodes = pl.read_csv(out / "episodes.csv", infer_schema_length=None, glob=False)
    trajectories = pl.read_csv(out / "trajectories.csv", infer_schema_length=None, glob=False)
    if "unit" in columns.columns:
        unit = pl.format(" [{}]", "unit").fill_null("")
        columns = columns.with_columns(pl.col("name") + unit)
    # A dollar sign would start a formula.
    columns = columns.with_columns(pl.col("name").str.replace_all("$", r"\$", literal=True))
    shown = columns["name"].to_list()[:MOST_PANELS]
    figure = plt.figure(figsize=(11, 1.2 + 0.75 * max(len(shown), 4)), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1, 1.4))[0]
    above, below = left.subplots(2, 1)
    _draw_returns(above, episodes)
    _draw_ranges(below, columns.head(MOST_PANELS))
    panels = right.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for number, (axes, name) in enumerate(zip(panels, shown, strict=True)):
        _draw_trajectories(axes, trajectories, f"column_{number}", name)
    panels[-1].set_xlabel("step")
    right.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncol=3, frameon=False, fontsize=8
    )
    path = out / "overview.png"
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)
    plt.close(figure)
    return path


def _draw_returns(axes: Any, episodes: pl.DataFrame) -> None:
    returns = episodes["return"].cast(pl.Float64).to_numpy()
    what = "return" if np.isfinite(returns).any() else "length"
    values = returns[np.isfinite(returns)] if what == "return" else episodes["length"].to_numpy()
    axes.hist(values, bins=min(30, max(5, len(values) // 3)), color=COLOURS[0], alpha=0.8)
    below = axes.get_xaxis_transform()
    axes.plot(
        values, np.full(len(values), -0.03), "|", color="black", alpha=0.4, transform=below, clip_on=False
    )
    axes.set(xlabel=f"{what} of an episode", ylabel="episodes")
    axes.set_title(f"{counted(len(values), 'episode')}, mean {what} {values.mean():.4g}", fontsize=10)


def _draw_ranges(axes: Any, columns: pl.DataFrame) -> None:
    for place, row in enumerate(columns.iter_rows(named=True)):
        axes.plot([row["lowest"], row["highest"]], [place, place], color=COLOURS[2], linewidth=1)
        axes.plot(
            [row["mean"] - row["deviation"], row["mean"] + row["deviation"]],
            [place, place],
            color=COLOURS[0],
            linewidth=4,
        )
        axes.plot(row["mean"], place, "o", color="white", markeredgecolor=COLOURS[0], markersize=4)
    axes.set_yticks(range(len(columns)), columns["name"].to_list(), fontsize=8)
    axes.invert_yaxis()
    ranges = np.abs(columns.select("lowest", "highest").to_numpy().astype(float))
    if np.isfinite(ranges).any() and np.nanmax(ranges) > 50:
        axes.set_xscale("symlog")
    axes.grid(axis="x", alpha=0.3)
    axes.set_title("range, mean and deviation", fontsize=10)


def _draw_trajectories(axes: Any, trajectories: pl.DataFrame, column: str, name: str) -> None:
    for colour, (number, rows) in zip(
        COLOURS, trajectories.group_by("episode", maintain_order=True), strict=False
    ):
        axes.plot(rows["step"], rows[column], color=colour, linewidth=0.8, label=f"episode {number[0]}")
    axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    axes.tick_params(labelsize=7)
