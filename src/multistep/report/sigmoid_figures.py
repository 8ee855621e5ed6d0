"""The figures of the study of the two-parameter network, from its rows."""

import json
from pathlib import Path

import polars as pl

from multistep.report.drawing import COLOURS, figure_file, read_rows

LABELS = {
    "training": "training loss",
    "one_step": "one-step validation error",
    "two_step": "two-step validation error",
    "distance": "squared distance to the truth",
}


def draw_sigmoid(out: Path) -> list[Path]:
    """Draw all figures of the study in `out` and return their paths."""
    return [_draw_landscape(out), _draw_alphas(out), _draw_convergence(out)]


def _draw_landscape(out: Path) -> Path:
    surfaces, minima = pl.read_parquet(out / "landscape.parquet", glob=False), read_rows(out / "minima.csv")
    truth = json.loads((out / "summary.json").read_text())["true_parameters"]
    noises, alphas = (surfaces[name].unique().sort().to_list() for name in ("noise", "alpha"))
    size = (3.6 * len(alphas), 2.9 * len(noises))
    with figure_file(out / "landscape.png", len(noises), len(alphas), size) as panels:
        for panel, (noise, alpha) in zip(panels, ((n, a) for n in noises for a in alphas), strict=True):
            chosen = (pl.col("noise") == noise) & (pl.col("alpha") == alpha)
            own = surfaces.filter(chosen).sort("theta_1", "theta_2")
            first, second = (own[name].unique().sort().to_numpy() for name in ("theta_1", "theta_2"))
            panel.contourf(
                first,
                second,
                (own["loss"] + 0.01).log().to_numpy().reshape(len(first), len(second)).T,
                20,
                cmap="Greys_r",
            )
            found = minima.filter(chosen)
            panel.plot(
                found["theta_1"],
                found["theta_2"],
                "o",
                color="#e6ab02",
                markersize=4,
                label="minima of 10 draws",
            )
            panel.plot(
                found["theta_1"].mean(),
                found["theta_2"].mean(),
                "*",
                color="#d95f02",
                markersize=12,
                label="their mean",
            )
            panel.plot(*truth, "o", color="red", markersize=6, markerfacecolor="none", label="truth")
            panel.set_title(f"noise {noise:.0%}, alpha {alpha:g}", fontsize=9)
        panels[0].legend(fontsize=6, loc="lower left")
        panels[0].figure.supxlabel("theta 1")
        panels[0].figure.supylabel("theta 2")
    return out / "landscape.png"


def _draw_alphas(out: Path) -> Path:
    rows = read_rows(out / "alphas.csv")
    with figure_file(out / "alphas.png", 1, 2, (10, 4)) as (left, right):
        for colour, measure in (("#e6ab02", "one_step"), ("#1b9e77", "two_step"), ("black", "mean")):
            own = rows.filter(pl.col("measure") == measure)
            for axes, name in ((left, "value"), (right, "above_one")):
                low, high = ("low", "high") if name == "value" else ("above_one_low", "above_one_high")
                spread = [own[name] - own[low], own[high] - own[name]]
                style = "--o" if measure == "mean" else "-o"
                axes.errorbar(
                    own["alpha"],
                    own[name],
                    spread,
                    fmt=style,
                    color=colour,
                    capsize=3,
                    label=measure.replace("_", "-"),
                )
        left.set(xlabel="alpha", ylabel="validation error", title="all trainings")
        lowest = rows.filter(pl.col("measure") != "distance")["above_one_low"].to_numpy().min()
        right.set(
            xlabel="alpha",
            ylabel="above alpha = 1",
            title="paired differences",
            ylim=(1.5 * lowest, -3 * lowest),
        )
        right.axhline(0, color="black", linewidth=0.6)
        left.legend(frameon=False)
    return out / "alphas.png"


def _draw_convergence(out: Path) -> Path:
    rows = read_rows(out / "convergence.csv")
    with figure_file(out / "convergence.png", 1, 4, (15, 3.6)) as panels:
        for axes, (measure, label) in zip(panels, LABELS.items(), strict=True):
            for colour, alpha in zip(COLOURS, rows["alpha"].unique(maintain_order=True), strict=False):
                own = rows.filter(pl.col("alpha") == alpha)
                axes.plot(own["epoch"], own[measure], color=colour, label=f"alpha {alpha:g}")
            axes.set(xlabel="epoch", title=label, yscale="log")
        panels[0].legend(frameon=False, fontsize=8)
    return out / "convergence.png"
