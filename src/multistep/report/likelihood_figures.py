"""Table and figure of the likelihood study, from its rows."""

from pathlib import Path
from typing import Any

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from multistep.report.drawing import COLOURS, figure_file, read_rows

STEPS = (1, 2, 5, 10, 20, 50, 100)
WAYS = ("last_step", "propagated", "drawn")
TITLES = {
    "deterministic": "deterministic",
    "stochastic": "stochastic",
    "plain_deterministic": "deterministic, plain",
    "plain_stochastic": "stochastic, plain",
    "plain_beta_nll": "beta-NLL, plain",
    "plain_mean": "from the mean, plain",
    "plain_propagated": "propagated, plain",
    "paper": "the paper's best beta",
    "grid": "our grid's best beta",
}
LOWEST_R2 = -0.25  # how far a model is below the mean of the data does not help the eye


def likelihood_sentence(summary: dict[str, Any]) -> str:
    failed = f", {summary['failed']} failed" if summary["failed"] else ""
    minutes = summary["seconds_of_fits"] / 60
    return (
        f"{summary['fits']} fits two steps ahead{failed}, {minutes:.0f} minutes of one core. Plain networks "
        "have neither batch norm nor dropout."
    )


def likelihood_table(out: Path) -> Table:
    """What each model weighs, how well it predicts and how often its 90 % intervals hold in the end."""
    rows = read_rows(out / "rows.csv")
    known = [step for step in STEPS if rows[f"coverage_propagated_{step}"].is_not_null().any()]
    step = max(known, default=None)
    models = Column("noise, model", no_wrap=True)
    names = [Column(name, min_width=len(name)) for name in ("last", "propagated", "drawn")] if step else []
    table = Table(models, "alpha_1", "R2bar", "drawn", *names, box=SIMPLE_HEAD)
    for noise in rows["noise"].unique(maintain_order=True):
        table.add_row(f"{100 * noise:g} %")
        for row in rows.filter(pl.col("noise") == noise).iter_rows(named=True):
            entries = [row["alpha_1"], row["r2bar"], row["drawn_r2bar"]]
            shares = [row[f"coverage_{way}_{step}"] for way in WAYS] if step else []
            table.add_row(
                f"  {TITLES[row['method']]}",
                *("" if entry is None else f"{entry:.3f}" for entry in entries),
                *("" if share is None else f"{100 * share:.0f} %" for share in shares),
            )
    table.caption = (
        "alpha_1 of a deterministic model is that of one free variance for each step ahead; R2bar of the "
        "rollout of means, and of one that is drawn"
    )
    if step:
        table.caption += f"; shares within 90 % intervals {step} steps ahead, by what made them"
    return table


def draw_likelihood(out: Path) -> Path:
    """Learned weights beside those of the best betas, and R2(h), as `out/likelihood.png`."""
    rows, curves, betas = (read_rows(out / f"{name}.csv") for name in ("rows", "curves", "betas"))
    noises, path = rows["noise"].unique().sort().to_list(), out / "likelihood.png"
    with figure_file(path, 1, 1 + len(noises), (5 + 4.2 * len(noises), 4.2)) as panels:
        _draw_weights(panels[0], rows, betas, noises)
        for panel, noise in zip(panels[1:], noises, strict=True):
            _draw_curves(panel, curves.filter(pl.col("noise") == noise))
            panel.set(title=f"noise {100 * noise:g} %", xlabel="steps ahead h", ylabel="R2(h)")
        panels[1].legend(frameon=False, fontsize=7)
    return path


def _draw_weights(panel: Any, rows: pl.DataFrame, betas: pl.DataFrame, noises: list[float]) -> None:
    """Alpha of the first step for each model, a bar for each noise; the rest is that of the second."""
    shown = [("method", method) for method in rows["method"].unique(maintain_order=True)]
    shown += [("source", source) for source in betas["source"].unique(maintain_order=True)]
    height = 0.8 / len(noises)
    for number, noise in enumerate(noises):
        values = []
        for column, name in shown:
            table = rows if column == "method" else betas
            own = table.filter((pl.col("noise") == noise) & (pl.col(column) == name))["alpha_1"]
            values.append(own[0] if len(own) else 0.0)
        offset = (number - (len(noises) - 1) / 2) * height
        places = [place + offset for place in range(len(shown))]
        panel.barh(places, values, height, color=COLOURS[number], label=f"noise {100 * noise:g} %")
    panel.set_yticks(range(len(shown)), [TITLES[name] for _, name in shown], fontsize=8)
    panel.invert_yaxis()
    panel.axvline(0.5, color="black", linewidth=0.6)
    panel.set(xlim=(0, 1), xlabel="weight of the first of two steps")
    panel.legend(frameon=False, fontsize=7)


def _draw_curves(panel: Any, curves: pl.DataFrame) -> None:
    for number, method in enumerate(name for name in TITLES if name in curves["method"]):
        for rollouts, style in (("mean", "-"), ("drawn", ":")):
            own = curves.filter((pl.col("method") == method) & (pl.col("rollouts") == rollouts)).sort("step")
            label = TITLES[method] if rollouts == "mean" else None
            colour = COLOURS[number % len(COLOURS)]
            panel.plot(own["step"], own["r2"].clip(LOWEST_R2), style, color=colour, label=label)
    panel.plot([], [], ":", color="black", label="the same, drawn")
    panel.set_ylim(max(LOWEST_R2, float(curves["r2"].to_numpy().min()) - 0.02), 1.01)
    panel.grid(alpha=0.3)
