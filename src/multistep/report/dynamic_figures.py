"""Table and bars of the dynamic study, from its rows."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.table import Table

from multistep.report.drawing import COLOURS, figure_file, read_rows


def dynamic_sentence(summary: dict[str, Any]) -> str:
    def returns(name: str) -> str:
        return ", ".join(f"{value:.0f} at {_percent(noise)} noise" for noise, value in summary[name].items())

    filtered = (
        f"; with filtered observations: {returns('default_filtered')}" if summary["default_filtered"] else ""
    )
    return (
        f"Mean return of agents in the one-step model: {returns('one_step')} (the paper: near "
        f"{summary['paper_one_step_without_noise']:.0f} without noise, much less with it); in the default "
        f"model: {returns('default')}{filtered}; without the second fit to smoothed episodes: "
        f"{returns('default_fitted_once')}. SAC took {summary['sac_steps']} steps in every model (the "
        f"paper: 500000); the paper's models were trained for {summary['epochs_of_paper_models']} epochs; "
        f"{summary['agents_per_model']} agent(s) per model."
    )


def dynamic_table(out: Path) -> Table:
    """One line per bar, within 80 columns."""
    table = Table("noise", "model", "h", "R2bar(50)", "return (95 %)", "episodes")
    for row in _read(out).iter_rows(named=True):
        interval = f" ({row['return_low']:.0f} to {row['return_high']:.0f})" if row["episodes"] > 1 else ""
        table.add_row(
            _percent(row["noise"]),
            row["variant"] + (f", {_beta(row)}" if row["variant"].startswith("beta") else ""),
            str(row["horizon"]),
            f"{row['r2bar_50']:.3f}",
            f"{row['return_mean']:.0f}{interval}",
            str(row["episodes"]) + (f", {row['lost']} agent(s) lost" if row["lost"] else ""),
        )
    return table


def draw_dynamic(out: Path) -> Path:
    """Returns as bars with 95 % intervals, a panel for each scale of noise."""
    rows, path = _read(out), out / "returns.png"
    paper = json.loads((out / "summary.json").read_text())["paper_one_step_without_noise"]
    variants = rows["variant"].unique(maintain_order=True).to_list()
    noises = rows["noise"].unique().sort().to_list()
    with figure_file(path, len(noises), 1, (8, 3.2 * len(noises))) as every:
        for axes, noise in zip(every, noises, strict=True):
            bars = rows.filter(pl.col("noise") == noise)
            places = np.arange(len(bars))
            means, lows = bars["return_mean"].to_numpy(), bars["return_low"].to_numpy()
            ends = np.where(np.isfinite(lows), means - lows, 0)
            colours = [COLOURS[variants.index(variant)] for variant in bars["variant"]]
            axes.bar(
                places, np.where(np.isfinite(means), means, 0), yerr=ends, color=colours, capsize=3, width=0.7
            )
            names = [f"h = {row['horizon']}\n{_weights(row)}" for row in bars.iter_rows(named=True)]
            axes.set_xticks(places, names, fontsize=7)
            axes.set(ylabel="return", title=f"{_percent(noise)} noise", ylim=(0, 1000))
            axes.grid(axis="y", alpha=0.3)
            if math.isclose(noise, 0):
                axes.axhline(
                    paper,
                    color="0.3",
                    linewidth=0.8,
                    linestyle="--",
                    label="the paper's one-step model, about",
                )
                axes.legend(fontsize=7, loc="upper left")
    return path


def _percent(noise: float | str) -> str:
    return f"{100 * float(noise):g} %"


def _weights(row: dict[str, Any]) -> str:
    if row["variant"] == "one-step":
        return "one-step"
    named = {"beta by R2": f"R2:\nbeta {_beta(row)}", "beta by return": f"return:\nbeta {_beta(row)}"}
    return named.get(row["variant"], str(row["variant"]).replace(", ", ",\n"))


def _beta(row: dict[str, Any]) -> str:
    return row["weights"].removeprefix("exponential:")


def _read(out: Path) -> pl.DataFrame:
    numbers = ("r2bar_50", "return_mean", "return_low", "return_high")
    return read_rows(out / "rows.csv").with_columns(pl.col(*numbers).cast(pl.Float64))
