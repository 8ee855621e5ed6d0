"""The figures of the linear study, from its rows."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from multistep.report.drawing import COLOURS, figure_file, read_rows

STYLES = {
    "alpha 0": "#7570b3",
    "alpha 0.5": "#1b6ca8",
    "alpha 1": "#d95f02",
    "augmented": "#1b9e77",
    "averaged": "#666666",
}


def draw_linear(out: Path) -> list[Path]:
    """Draw all figures of the study in `out` and return their paths."""
    return [
        _draw_loss(out),
        _draw_distance(out),
        _draw_bias_and_variance(out),
        _draw_by_theta(out),
        _draw_horizons(out),
    ]


def _draw_loss(out: Path) -> Path:
    curves, roots = read_rows(out / "curves.csv"), read_rows(out / "roots.csv")
    with figure_file(out / "loss.png", 1, 2, (10, 4)) as (left, right):
        for colour, alpha in zip(COLOURS, curves["alpha"].unique(maintain_order=True), strict=False):
            own, found = curves.filter(pl.col("alpha") == alpha), roots.filter(pl.col("alpha") == alpha)
            left.plot(own["theta"], own["loss"], color=colour, label=f"alpha {alpha:g}")
            left.plot(found["root"], found["loss"], "*", color=colour, markersize=9)
            right.plot(own["theta"], own["derivative"], color=colour)
            right.plot(found["root"], np.zeros(len(found)), "*", color=colour, markersize=9)
        left.set(xlabel="theta", ylabel="loss", ylim=(-0.05, 2), title="loss, true theta 0.78, no noise")
        right.set(
            xlabel="theta", ylabel="derivative", ylim=(-2, 2), title="derivative; its real roots are stars"
        )
        right.axhline(0, color="black", linewidth=0.6)
        left.legend(frameon=False, fontsize=8)
    return out / "loss.png"


def _draw_distance(out: Path) -> Path:
    rows = read_rows(out / "distance.csv")
    with figure_file(out / "distance.png", 1, 1, (6.4, 4)) as (axes,):
        for colour, noise in zip(COLOURS, rows["noise"].unique(maintain_order=True), strict=False):
            own = rows.filter(pl.col("noise") == noise)
            axes.plot(own["alpha"], own["distance"], color=colour, label=f"noise {noise:.2g}")
            axes.fill_between(own["alpha"], own["low"], own["high"], color=colour, alpha=0.15, linewidth=0)
        axes.set(xlabel="alpha", ylabel="mean distance to the true parameter")
        axes.legend(frameon=False, fontsize=8)
    return out / "distance.png"


def _draw_bias_and_variance(out: Path) -> Path:
    rows, density = read_rows(out / "rows.csv"), read_rows(out / "density.csv")
    with figure_file(out / "bias_variance.png", 1, 3, (13, 4)) as (left, middle, right):
        edges = np.linspace(-0.6, 0.6, 61)
        for name, colour in STYLES.items():
            own = rows.filter(pl.col("estimator") == name)
            errors = density.filter(pl.col("estimator") == name)["error"].to_numpy()
            left.hist(errors, edges, density=True, histtype="step", color=colour, label=name)
            _band(middle, own, "bias", colour)
            _band(right, own, "variance", colour)
            if own["first_order_variance"].null_count() == 0 and name != "alpha 0":
                right.plot(own["noise"], own["first_order_variance"], ":", color=colour)
        left.set(xlabel="error of theta", ylabel="density", title="noise 1")
        middle.set(xlabel="noise", ylabel="bias")
        highest = rows.filter(pl.col("estimator") == "alpha 1")["variance_high"].to_numpy().max()
        right.set(
            xlabel="noise",
            ylabel="variance",
            title="dotted: to first order (alpha 0: off the scale)",
            ylim=(0, 1.3 * highest),
        )
        left.legend(frameon=False, fontsize=8)
    return out / "bias_variance.png"


def _draw_by_theta(out: Path) -> Path:
    rows = read_rows(out / "by_theta.csv")
    noises = rows["noise"].unique(maintain_order=True).to_list()
    with figure_file(out / "by_theta.png", 1, len(noises), (11, 4)) as panels:
        for axes, noise in zip(panels, noises, strict=True):
            for name, colour in STYLES.items():
                own = rows.filter((pl.col("noise") == noise) & (pl.col("estimator") == name))
                spread = [own["variance"] - own["variance_low"], own["variance_high"] - own["variance"]]
                axes.errorbar(
                    own["theta"],
                    own["variance"],
                    spread,
                    fmt="o",
                    markersize=3,
                    color=colour,
                    label=name,
                    capsize=2,
                )
                if own["first_order_variance"].null_count() == 0:
                    axes.plot(own["theta"], own["first_order_variance"], ":", color=colour)
            axes.axvline(0.5, color="black", linewidth=0.6)
            axes.set(
                xlabel="true theta",
                ylabel="variance",
                yscale="log",
                title=f"noise {noise:g}; dotted: to first order",
            )
        panels[0].legend(frameon=False, fontsize=8)
    return out / "by_theta.png"


def _draw_horizons(out: Path) -> Path:
    rows = read_rows(out / "horizons.csv")
    thetas = rows["theta"].unique().sort().to_list()
    shown = [thetas[index] for index in sorted({len(thetas) // 4, len(thetas) // 2, len(thetas) - 1})]
    noises = rows["noise"].unique().sort().to_list()
    with figure_file(out / "horizons.png", len(noises), len(shown), (13, 3.8 * len(noises))) as panels:
        for axes, (noise, theta) in zip(panels, ((n, t) for n in noises for t in shown), strict=True):
            own = rows.filter((pl.col("theta") == theta) & (pl.col("noise") == noise))
            one = own.filter(pl.col("horizon") == 1)
            for colour, beta in zip(COLOURS, sorted(set(own["beta"].to_list())), strict=False):
                line = pl.concat([one, own.filter((pl.col("beta") == beta) & (pl.col("horizon") > 1))])
                spread = [line["variance"] - line["variance_low"], line["variance_high"] - line["variance"]]
                axes.errorbar(
                    line["horizon"], line["variance"], spread, fmt="o", markersize=3, color=colour, capsize=2
                )
                axes.plot(
                    line["horizon"], line["first_order_variance"], ":", color=colour, label=f"beta {beta:g}"
                )
            axes.set(
                xlabel="horizon h",
                ylabel="variance",
                yscale="log",
                title=f"noise {noise:g}, theta {theta:.2f}",
            )
        panels[0].figure.suptitle("variance; dotted: to first order")
        panels[2 if len(shown) > 2 else 0].legend(frameon=False, fontsize=8)
    return out / "horizons.png"


def _band(axes: Any, rows: pl.DataFrame, name: str, colour: str) -> None:
    axes.plot(rows["noise"], rows[name], color=colour)
    axes.fill_between(
        rows["noise"], rows[f"{name}_low"], rows[f"{name}_high"], color=colour, alpha=0.15, linewidth=0
    )
