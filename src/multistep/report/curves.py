"""R2 against the horizon, drawn from the rows of a run."""

from pathlib import Path

import polars as pl

from multistep.report.drawing import figure_file, read_rows

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


def draw_r2_curves(out: Path) -> Path:
    """Draw R2(h) of every model in `out/rows.csv` to `out/r2.png` and return its path."""
    rows, path = read_rows(out / "rows.csv"), out / "r2.png"
    with figure_file(path, 1, 1, (6.4, 4.0)) as (axes,):
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
    return path


def _lowest(rows: pl.DataFrame) -> float:
    finite = rows.filter(pl.col("r2").is_finite())["r2"]
    return float(finite.to_numpy().min()) - 0.02 if len(finite) else 0.0
