"""The tables of the static study, from the rows of its fits: cells beside the paper's, best betas, curves."""

import math
from collections.abc import Sequence
from importlib.resources import files

import jax.numpy as jnp
import numpy as np
import polars as pl

from multistep.evaluation.intervals import mean_interval
from multistep.losses import effective_horizon, parse_weights
from multistep.runs.row_log import Row
from multistep.runs.sweep import FAILED
from multistep.training import Outcome

SMALLEST_PRINTED_DEVIATION = 0.0005  # the paper prints three digits: a deviation of 0 is anything below this
PAPER_SCORE_HORIZON = 100
FITS = {
    "kind": pl.String,
    "dataset": pl.String,
    "noise": pl.Float64,
    "preset": pl.String,
    "horizon": pl.Int64,
    "weights": pl.String,
    "fold": pl.Int64,
    "r2": pl.List(pl.Float64),
}
CANDIDATE = ["dataset", "noise", "preset", "horizon", "weights"]
CELL = ["dataset", "noise", "preset", "horizon"]
HAS_ALL_BETAS = pl.col("betas") >= pl.col("betas_in_all")


def paper_cells() -> pl.DataFrame:
    """The paper's table of R2bar(100): best beta, mean and deviation over its folds, whether it is
    highlighted."""
    return _numbers("r2bar_100.csv").rename(
        {"r2bar_100": "paper", "beta": "paper_beta", "deviation": "paper_deviation"}
    )


def paper_betas() -> pl.DataFrame:
    """The paper's best beta and effective horizon by noise and horizon, averaged over its eight datasets."""
    return _numbers("best_betas.csv").rename(
        {"beta": "paper_beta", "effective_horizon": "paper_effective_horizon"}
    )


def fit_table(rows: Sequence[Row]) -> pl.DataFrame:
    """One row per fit or ceiling that did not fail: what it is, fold, R2bar over half of the horizon and over
    all of it.

    A training that diverged counts as one that predicts nothing: its R2 is minus infinity, as in a selection.
    """
    return pl.DataFrame(
        [
            {
                "kind": row["kind"],
                "dataset": row["dataset"],
                "noise": float(row["noise"]),
                "preset": row.get("preset", "paper"),
                "horizon": row["horizon"],
                "weights": row["weights"],
                "fold": row["fold"],
                "r2": [
                    -math.inf if row["outcome"] == Outcome.DIVERGED else float(value) for value in row["r2"]
                ],
            }
            for row in rows
            if row["outcome"] != FAILED
        ],
        schema=FITS,
    ).with_columns(
        pl.col("r2").list.mean().alias("r2bar"),
        pl.col("r2").list.head(pl.col("r2").list.len() // 2).list.mean().alias("r2bar_half"),
    )


def candidate_table(fits: pl.DataFrame) -> pl.DataFrame:
    """One row per candidate: mean and deviation of R2bar over its folds, beta and effective horizon of its
    weights."""
    found = (
        fits.filter(pl.col("kind") == "fit")
        .group_by(CANDIDATE, maintain_order=True)
        .agg(
            pl.col("r2bar").mean().alias("mean"),
            pl.col("r2bar").std().alias("deviation"),
            pl.len().alias("folds"),
        )
    )
    shapes = {pair: _shape(*pair) for pair in found.select("horizon", "weights").unique().iter_rows()}
    pairs = list(found.select("horizon", "weights").iter_rows())
    return found.with_columns(
        pl.Series("beta", [shapes[pair][0] for pair in pairs], dtype=pl.Float64),
        pl.Series("effective_horizon", [shapes[pair][1] for pair in pairs], dtype=pl.Float64),
    )


def cell_table(fits: pl.DataFrame, num_folds: int, num_betas: int) -> pl.DataFrame:
    """The paper's table: the best beta of each dataset, noise and horizon, beside the paper's figure and the
    ceiling.

    Candidates that lack a fold have no say; `betas` counts those that have all, out of `betas_in_all`.
    `above_paper` is the difference in standard deviations of the paper's folds; `gain` is the relative
    improvement of R2bar over half of the horizon over the one-step model, fold by fold.
    """
    candidates = candidate_table(fits)
    whole = candidates.filter(pl.col("folds") == num_folds)
    best = (
        whole.sort("mean", descending=True, maintain_order=True).group_by(CELL, maintain_order=True).first()
    )
    several = (pl.col("preset") == "paper") & (pl.col("horizon") > 1)
    betas = whole.group_by(CELL).agg(pl.len().alias("betas"))
    betas = betas.with_columns(betas_in_all=pl.when(several).then(num_betas).otherwise(1))
    ceilings = (
        fits.filter(pl.col("kind") == "ceiling")
        .group_by("dataset", "noise")
        .agg(pl.col("r2bar").mean().alias("ceiling"))
    )
    deviation = pl.max_horizontal("paper_deviation", pl.lit(SMALLEST_PRINTED_DEVIATION))
    return (
        best.join(betas, on=CELL)
        .join(_gains(fits, best), on=CELL, how="left")
        .join(ceilings, on=["dataset", "noise"], how="left")
        .join(_comparable_cells(fits), on=CELL, how="left")
        .with_columns(above_paper=(pl.col("mean") - pl.col("paper")) / deviation)
        .sort("dataset", "noise", "preset", "horizon", descending=[False, False, True, False])
    )


def beta_table(cells: pl.DataFrame) -> pl.DataFrame:
    """Best beta and effective horizon by noise and horizon, averaged over the datasets, beside the paper's.

    Only of cells in which every beta was tried, here and in the verdicts.
    """
    multi = cells.filter((pl.col("preset") == "paper") & (pl.col("horizon") > 1) & HAS_ALL_BETAS)
    means = multi.group_by("noise", "horizon").agg(
        pl.col("beta").mean(), pl.col("effective_horizon").mean(), pl.len().alias("datasets")
    )
    return means.join(paper_betas(), on=["noise", "horizon"], how="left").sort("noise", "horizon")


def verdicts(cells: pl.DataFrame) -> dict[str, list[str]]:
    """The paper's statements that can be checked cell by cell: which cells agree and which do not.

    One-step cells agree within 3 of the paper's standard deviations or 0.030. A gain is significant in the
    paper where a multi-step cell is highlighted and the one-step cell is not; ours is where the interval of
    the difference is above 0.
    """
    paper = cells.filter((pl.col("preset") == "paper") & pl.col("paper").is_not_null() & HAS_ALL_BETAS)
    one_step = paper.filter(pl.col("horizon") == 1)
    agrees = (pl.col("above_paper").abs() <= 3) | ((pl.col("mean") - pl.col("paper")).abs() <= 0.030)
    plain = one_step.filter(pl.col("highlighted").not_()).select("dataset", "noise")
    gains = paper.filter((pl.col("horizon") > 1) & (pl.col("noise") > 0) & pl.col("highlighted"))
    gains = gains.join(plain, on=["dataset", "noise"], how="semi")
    ours = (pl.col("gain_all_low") > 0).fill_null(value=False)
    return {
        "one_step_as_in_paper": _cell_names(one_step.filter(agrees)),
        "one_step_unlike_paper": _cell_names(one_step.filter(~agrees)),
        "gain_significant_in_both": _cell_names(gains.filter(ours)),
        "gain_significant_in_paper_only": _cell_names(gains.filter(~ours)),
    }


def curve_table(fits: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
    """R2(h) of the best candidate of every cell and of the true simulator: mean over the folds, lowest and
    highest."""
    chosen = fits.filter(pl.col("kind") == "fit").join(cells.select(CANDIDATE), on=CANDIDATE, how="semi")
    ceilings = fits.filter(pl.col("kind") == "ceiling").with_columns(preset=pl.lit("true simulator"))
    return (
        pl.concat([chosen, ceilings])
        .with_columns(pl.int_ranges(1, pl.col("r2").list.len() + 1).alias("step"))
        .explode("r2", "step")
        .group_by([*CELL, "step"], maintain_order=True)
        .agg(pl.col("r2").mean(), pl.col("r2").min().alias("low"), pl.col("r2").max().alias("high"))
    )


def _comparable_cells(fits: pl.DataFrame) -> pl.DataFrame:
    """The paper's cells, none of them if ours are not scored over as many steps."""
    cells = paper_cells().with_columns(preset=pl.lit("paper"))
    return cells if fits["r2"].list.len().min() == PAPER_SCORE_HORIZON else cells.clear()


def _gains(fits: pl.DataFrame, best: pl.DataFrame) -> pl.DataFrame:
    """Relative improvement of R2bar over half of the horizon, and of all of it, with their 95 % intervals."""
    chosen = fits.filter(pl.col("kind") == "fit").join(best.select(CANDIDATE), on=CANDIDATE, how="semi")
    one_step = chosen.filter((pl.col("horizon") == 1) & (pl.col("preset") == "paper"))
    paired = chosen.filter((pl.col("horizon") > 1) | (pl.col("preset") != "paper")).join(
        one_step.select("dataset", "noise", "fold", one_half="r2bar_half", one_all="r2bar"),
        on=["dataset", "noise", "fold"],
    )
    half = (pl.col("r2bar_half") - pl.col("one_half")) / pl.col("one_half").abs()
    whole = pl.col("r2bar") - pl.col("one_all")
    found = paired.group_by(CELL, maintain_order=True).agg(half.alias("gain"), whole.alias("gain_all"))
    return found.select(*CELL, *_with_interval(found["gain"]), *_with_interval(found["gain_all"]))


def _with_interval(samples: pl.Series) -> list[pl.Series]:
    """Mean and interval of each list of samples; no interval of fewer than two, or where a training has
    diverged."""
    values = [np.array(own) for own in samples.to_list()]
    intervals = [
        mean_interval(own) if len(own) > 1 and np.isfinite(own).all() else (None, None) for own in values
    ]
    ends = {end: [interval[number] for interval in intervals] for number, end in enumerate(("low", "high"))}
    return [
        samples.list.mean(),
        *(pl.Series(f"{samples.name}_{end}", ends[end], dtype=pl.Float64) for end in ends),
    ]


def _cell_names(cells: pl.DataFrame) -> list[str]:
    return [
        f"{name}, noise {noise:g}, h={horizon}"
        for name, noise, horizon in cells.select("dataset", "noise", "horizon").rows()
    ]


def _shape(horizon: int, weights: str) -> tuple[float | None, float | None]:
    """Beta and effective horizon of exponential weights; none for others."""
    name, _, beta = weights.partition(":")
    if name != "exponential":
        return None, 1.0 if horizon == 1 else None
    return float(beta), float(effective_horizon(parse_weights(weights)(jnp.ones(horizon))))


def _numbers(name: str) -> pl.DataFrame:
    with files("multistep.studies").joinpath("paper_numbers", name).open("rb") as file:
        return pl.read_csv(file.read())
