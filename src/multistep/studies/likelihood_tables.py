"""The tables of the likelihood study, from the rows of its fits: cells, curves, best betas."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from multistep.errors import InputError
from multistep.runs.row_log import Row
from multistep.studies.likelihood_measures import STEPS, WAYS

PAPER_BETAS = {0.0: 0.1, 0.01: 2.0}
"""The best ones for Cartpole random two steps ahead, by noise (Appendix "Probabilistic interpretation")."""


def cell_rows(fits: Sequence[Row], methods: Sequence[str]) -> list[Row]:
    """One row per noise and method: means over the splits; what only a Gaussian has may be empty."""
    cells = sorted(_cells(fits), key=lambda cell: (cell[0], methods.index(cell[1])))
    return [
        {"noise": noise, "method": method, "splits": len(own), **_cell(own)} for noise, method, own in cells
    ]


def curve_rows(fits: Sequence[Row]) -> list[Row]:
    """R2 at every step ahead, of the rollout of means and of one that is drawn."""
    rows: list[Row] = []
    for noise, method, own in _cells(fits):
        for rollouts, name in (("mean", "r2"), ("drawn", "drawn_r2")):
            if name in own[0]:
                values = np.mean([np.array(row[name], float) for row in own], axis=0)
                label = {"noise": noise, "method": method, "rollouts": rollouts}
                rows += [{**label, "step": step, "r2": r2} for step, r2 in enumerate(values.tolist(), 1)]
    return rows


def best_betas(grid: Path | None, dataset: str, horizon: int) -> list[Row]:
    """The weights of the betas that the paper found best, and of those that a grid of ours did, by noise."""
    found = [(noise, "paper", beta) for noise, beta in PAPER_BETAS.items()]
    if grid is not None:
        path = grid / "rows.csv"
        if not path.exists():
            raise InputError(f"There is no {path}: give the folder that multistep reproduce static has left.")
        cells = pl.read_csv(path, infer_schema_length=None).filter(
            (pl.col("dataset") == dataset) & (pl.col("preset") == "paper") & (pl.col("horizon") == horizon)
        )
        found += [(noise, "grid", beta) for noise, beta in cells.select("noise", "beta").iter_rows()]
    return [
        {"noise": noise, "source": source, "beta": beta, "alpha_1": 1 / (1 + beta)}
        for noise, source, beta in found
    ]


def _cells(fits: Sequence[Row]) -> Iterator[tuple[float, str, list[Row]]]:
    """The fits of each noise and method."""
    for noise, method in dict.fromkeys((row["noise"], row["method"]) for row in fits):
        yield noise, method, [row for row in fits if (row["noise"], row["method"]) == (noise, method)]


def _cell(rows: Sequence[Row]) -> Row:
    shares = [row["coverage"] for row in rows if "coverage" in row]
    return {
        "r2bar": _mean([row["r2bar"] for row in rows]),
        "drawn_r2bar": _mean([row["drawn_r2bar"] for row in rows if "drawn_r2bar" in row]),
        "alpha_1": _mean([row["alphas"][0] for row in rows if "alphas" in row]),
        "fit_seconds": _mean([row["fit_seconds"] for row in rows]),
        **{
            f"coverage_{way}_{step}": _mean([own[way][str(step)] for own in shares if str(step) in own[way]])
            for way in WAYS
            for step in STEPS
        },
    }


def _mean(values: Sequence[Any]) -> float | None:
    return float(np.mean([float(value) for value in values])) if values else None
