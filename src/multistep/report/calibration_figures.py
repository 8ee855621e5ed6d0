"""How honest intervals are, drawn from the rows of a run: coverage against the horizon, state by state, and
how wide they are."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from multistep.report.drawing import COLOURS, figure_file, plain_text, read_rows, read_summary

SHARES = (90, 50)
MOST_STATES = 8


def draw_calibration(out: Path) -> Path:
    """Draw `out/calibration.csv` to `out/calibration.png` and return its path: on the left the share of the
    measurements within each interval, on the right the width of the wider one, over that at the first
    step."""
    rows, path = read_rows(out / "calibration.csv"), out / "calibration.png"
    step = read_summary(out).get("time_step")
    with figure_file(path, 1, 2, (10.5, 4.2)) as (coverage, width):
        names = rows["state"].unique(maintain_order=True).to_list()[:MOST_STATES]
        for number, name in enumerate(names):
            own = rows.filter(pl.col("state") == name)
            ahead = own["horizon"].to_numpy() * (step or 1)
            colour = COLOURS[number % len(COLOURS)]
            for share in SHARES:
                shown = {"color": colour, "alpha": 0.9, "lw": 1.2, "label": None}
                if share == SHARES[0]:
                    shown["label"] = plain_text(name)
                coverage.plot(ahead, 100 * own[f"coverage_{share}"].to_numpy(), **shown)
            wide = own[f"width_{SHARES[0]}"].to_numpy()
            width.plot(ahead, wide / max(wide[0], np.finfo(float).tiny), color=colour, lw=1.2)
        for share in SHARES:
            coverage.axhline(share, color="#444444", ls="--", lw=1)
            coverage.annotate(
                f"{share} % asked for",
                (1, share),
                (-4, 3),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color="#444444",
            )
        _label(coverage, width, step)
    return path


def _label(coverage: Any, width: Any, step: float | None) -> None:
    ahead = "seconds ahead" if step else "steps ahead h"
    coverage.set(xlabel=ahead, ylabel="measurements within the interval, %", ylim=(0, 102))
    coverage.legend(loc="lower left", fontsize=8, ncols=2, framealpha=0.8, edgecolor="none")
    width.set(xlabel=ahead, ylabel="width of the 90 % interval, of that at the first step")
    width.set_ylim(bottom=0)
    for axes in (coverage, width):
        axes.grid(alpha=0.3)
