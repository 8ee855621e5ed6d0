"""Sentences and tables, from the files that a run has left."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from rich.box import SIMPLE
from rich.table import Column, Table

from multistep.data.angles import remark_on
from multistep.errors import counted

WORSE = 1.1  # so many times the variance left unexplained is worth a remark
NO_MEMORY = "no memory"
NAMES = {
    "one_step": "one-step",
    "multi_step": "multi-step",
    "ceiling": "simulator",
    "filtered": "filtered start",
}


def demo_sentence(summary: dict[str, Any]) -> str:
    """What the demo found, in one sentence."""
    last = _last_horizon(summary["ceiling"])
    one, many, best = (
        _percent(summary[name][f"r2bar_{last}"]) for name in ("one_step", "multi_step", "ceiling")
    )
    return (
        f"With {summary['noise']:.0%} noise, the model trained through its own rollout explains {many} of "
        f"the variance over the next {last} steps, the one trained one step ahead {one}; the true simulator "
        f"itself would explain {best}."
    )


def model_sentence(summary: dict[str, Any]) -> str:
    """How right one model is, in one sentence."""
    model = summary["model"]
    last = _last_horizon(model)
    sentence = f"The model explains {_percent(model['r2bar_1'])} of the variance one step ahead"
    if last > 1:
        sentence = f"{sentence} and {_percent(model[f'r2bar_{last}'])} on average over the next {last} steps"
    if model.get("outcome", "finished") != "finished":
        sentence += f" (the fit {model['outcome']} after {model['epochs']} epochs)"
    if model["diverged"] > 0:
        sentence += f"; {model['diverged']:.1%} of its rollouts left the finite range"
    return " ".join([f"{sentence}.", *_about_linear(summary, last), *_about_smoothing(summary)])


def interval_sentences(summary: dict[str, Any]) -> Iterator[str]:
    """How many of the measurements were within the intervals, and which episodes are unlike the training."""
    found = summary.get("intervals")
    if found:
        of_90, of_50 = found["coverage_90"], found["coverage_50"]
        ahead = " / ".join(of_90)
        sentence = (
            f"Intervals for 90 % of what will be measured held {_percents(of_90)} of it, those for 50 % "
            f"{_percents(of_50)}, at {ahead} steps ahead"
        )
        if not found["calibrated_on_episodes"]:
            sentence += (
                "; they are NOT calibrated: that takes four validation episodes that were not trained on"
            )
            held_out = summary["episodes"]["valid"] if isinstance(summary.get("episodes"), dict) else 4
            sentence += f", there were {held_out}: see --split" if held_out < 4 else ""
        yield f"{sentence}."
    if strange := summary.get("unlike_training"):
        first, more = strange[0], len(strange) - 1
        also = f", and {counted(more, 'more episode')}," if more else ""
        yield (
            f"Test episode {first['episode']}{also} may be outside of what the model was trained on: its "
            f"members disagree {first['times']:.1f} times as much there as anywhere in the training."
        )


def _percents(shares: Mapping[str, float]) -> str:
    return " / ".join(f"{100 * share:.0f}" for share in shares.values()) + " %"


def _about_linear(summary: dict[str, Any], last: int) -> Iterator[str]:
    """Whether the model is any better than a line through the points."""
    if "over_linear" not in summary:
        return
    linear, over = _percent(summary["linear"][f"r2bar_{last}"]), summary["over_linear"]
    low, high = (float(over[end]) for end in ("low", "high"))
    between = f" (95 % interval of the difference {low:+.3f} to {high:+.3f})" if math.isfinite(low) else ""
    if high < 0 or (not math.isfinite(low) and float(over["difference"]) < 0):
        yield f"A linear model is BETTER: it explains {linear}{between}; take --recipe linear."
    elif low <= 0 and math.isfinite(low):
        yield f"A linear model explains {linear} and may be as good, by these test episodes{between}."
    else:
        yield f"A linear model explains {linear}{between}."


def _about_smoothing(summary: dict[str, Any]) -> Iterator[str]:
    """Sentences on the noise that was found and on the fit without it, if it was looked for."""
    found, most = (summary.get(name, {}) for name in ("measurement_noise", "noise_at_most"))
    if found:
        yield f"Deviation of the noise found on the measured states: {_named(found)}."
    if unsure := {name: most[name] for name in most if found[name] < most[name] / 2}:
        yield (
            f"The data alone allow for up to {_named(unsure)}: if your sensors have that much, train for "
            "longer."
        )
    if summary.get("chosen") == "measured":
        yield from (f"The first model is kept: {note[0].lower()}{note[1:]}" for note in summary["notes"])
    elif summary.get("notes"):
        yield from summary["notes"]
    if summary.get("chosen") == "smoothed":
        model, first = summary["model"], summary["parts"]["measured"]
        yield f"It was fitted again to the episodes without that noise, with a horizon of {model['horizon']}."
        if 1 - model["validation_score"] > WORSE * (1 - first["validation_score"]):
            scores = f"{first['validation_score']:.3f} against {model['validation_score']:.3f}"
            yield (
                f"The first model predicted the validation episodes better ({scores}): for the noise on "
                "them, or because it is too poor to smooth with; compare with --recipe once."
            )


def _named(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in values.items())


def score_table(out: Path) -> Table:
    """R2 at a few horizons and its mean over all, of every model in `out/rows.csv`, within 80 columns."""
    rows = pl.read_csv(out / "rows.csv", glob=False)
    last = int(rows["horizon"].to_numpy().max())
    horizons = [h for h in (1, 10, 50) if h < last] + [last]
    table = Table("model", *(f"R2({h})" for h in horizons), f"R2bar({last})", "diverged")
    names = rows["model"].unique(maintain_order=True)
    for name in names:
        curve = rows.filter(pl.col("model") == name).sort("horizon")
        # Of the user's model, each state for itself too: which one is hard to predict?
        states = [column for column in rows.columns if column.startswith("r2_")] if name == "model" else []
        for column in ("r2", *states):
            values = [_digits(curve[column][h - 1]) for h in horizons]
            title, diverged = NAMES.get(name, name), f"{curve['diverged'].max():.1%}"
            if column != "r2":
                title, diverged = f"  {column.removeprefix('r2_')}", ""
            table.add_row(title, *values, _digits(curve[column].mean()), diverged)
    return table


def free_run_table(summary: dict[str, Any]) -> Table:
    """Errors of free runs of each output, in its unit and relative to its deviation."""
    own, linear = summary["free_run"], summary.get("free_run_linear")
    records = "one record" if own["records"] == 1 else f"{own['records']} records"
    samples = "sample" if own["num_past"] == 1 else f"{own['num_past']} samples"
    title = f"free run over {records}, from the first {samples}"
    beside = ["RMSE, linear"] if linear else []
    table = Table("output", "RMSE", "of deviation", "fit", *beside, title=title, title_justify="left")
    for name, rmse in own["rmse"].items():
        share = float(own["nrmse"][name])
        relative = ["", ""] if math.isnan(share) else [f"{share:.3g}", f"{100 * (1 - share):.1f} %"]
        title = with_unit(name, own.get("units", {}).get(name))
        table.add_row(title, _error(rmse), *relative, *([_error(linear["rmse"][name])] if linear else []))
    return table


def records_table(out: Path, units: Mapping[str, str], most: int = 5) -> Table:
    """The records that the model simulates worst, from `out/free_runs.csv`."""
    rows = pl.read_csv(out / "free_runs.csv", glob=False)
    outputs = [name for name in rows.columns if name.startswith("rmse_")][:4]
    names = [name.removeprefix("rmse_") for name in outputs]
    titles = [f"RMSE {with_unit(name, units.get(name))}" for name in names]
    # Older rows do not tell seconds.
    is_timed = "seconds" in rows.columns and rows["seconds"].null_count() == 0
    steps = ["steps", "seconds"] if is_timed else ["steps"]
    table = Table(Column("worst records", overflow="fold"), *steps, "of deviation", *titles)
    short = _without_folders(rows["record"].to_list())
    for row in rows.head(most).iter_rows(named=True):
        relative = _error(row["error_of_deviation"])
        length = [f"{row[name]:.4g}" if name == "seconds" else str(row[name]) for name in steps]
        table.add_row(short[row["record"]], *length, relative, *(_error(row[name]) for name in outputs))
    if len(rows) > most:
        table.caption = f"all {len(rows)} are in {out / 'free_runs.csv'}"
    return table


def _without_folders(records: list[str]) -> dict[str, str]:
    """Names of records without the folders of their files, as long as that still tells them apart."""
    parts = {record: record.partition(", ") for record in records}
    short = {record: f"{Path(file).name}{comma}{rest}" for record, (file, comma, rest) in parts.items()}
    return short if len(set(short.values())) == len(short) else {record: record for record in records}


def with_unit(name: str, unit: str | None) -> str:
    """The name of a column, and its unit in brackets where it is known."""
    return f"{name} [{unit}]" if unit else name


def _error(value: Any) -> str:
    """Four digits, or a word."""
    return f"{float(value):.4g}" if math.isfinite(float(value)) else "diverges"


def _digits(value: Any) -> str:
    """Three decimals, or the size alone of what is far from one."""
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.1e}"


def select_sentence(summary: dict[str, Any]) -> str:
    """What was chosen, by what rule, in one or two sentences."""
    best, config = summary["best"], summary["best"]["config"]
    chosen = f"horizon {config['horizon']}"
    chosen += "" if config["horizon"] == 1 else f" with weights {config['weights']}"
    chosen += "".join(f", {name} {_option(config, name)}" for name in summary["varied"])
    chosen += "" if best["memory"] == NO_MEMORY else f", {best['memory']}"
    others = summary["within_spread_of_best"] - 1
    also = "no other is" if not others else "another one is" if others == 1 else f"{others} others are"
    full = summary["trained_in_full"]
    trained = "" if full == summary["candidates"] else f" ({full} trained in full)"
    return (
        f"Of {summary['candidates']} candidates{trained}, {chosen} has the {summary['rule']}: "
        f"{best['mean']:.3f} +- {best['deviation']:.3f}; {also} within this spread."
    )


def select_table(out: Path, most: int = 12) -> Table:
    """The best candidates, from `out/rows.csv`."""
    rows = pl.read_csv(out / "rows.csv", schema_overrides={"problem": pl.String}, glob=False)
    settings = [json.loads(text) for text in rows["settings"]]
    named = json.loads((out / "summary.json").read_text())["varied"]
    varied = [name for name in named if len({str(_option(config, name)) for config in settings}) > 1]
    problem = ["problem"] if rows["problem"].null_count() < len(rows) else []
    names = [name.rpartition(".")[2].replace("_", " ") for name in varied]
    memory = ["memory"] if set(rows["memory"]) != {NO_MEMORY} else []
    table = Table(
        "horizon",
        Column("weights", no_wrap=True),
        *names,
        *memory,
        "effective horizon",
        Column("R2bar", no_wrap=True),
        *problem,
    )
    for row, config in zip(rows.head(most).iter_rows(named=True), settings, strict=False):
        effective = "" if row["effective_horizon"] is None else f"{row['effective_horizon']:.2f}"
        options = [*(str(_option(config, name)) for name in varied), *(row[name] for name in memory)]
        score = f"{row['mean']:.3f} +- {row['deviation']:.3f}"
        problems = [row["problem"] or ""] if problem else []
        table.add_row(str(row["horizon"]), row["weights"], *options, effective, score, *problems)
    if len(rows) > most:
        table.caption = f"{len(rows) - most} more are in {out / 'rows.csv'}"
    return table


def _option(config: dict[str, Any], name: str) -> Any:
    """The value of an option of a fit, whose name may have a dot; a network may be within a memory."""
    value: Any = config
    for part in name.split("."):
        while part not in value and "network" in value:
            value = value["network"]
        value = value[part]
    return value


def inspect_sentence(summary: dict[str, Any]) -> str:
    """How much data there is, in one sentence."""
    shortest, longest = summary["shortest"], summary["longest"]
    lengths = counted(longest, "step")
    lengths = lengths if shortest == longest else f"{shortest} to {lengths}"
    files = "one file" if summary["files"] == 1 else f"{summary['files']} files"
    sentence = (
        f"{counted(summary['episodes'], 'episode')} of {lengths} in {files}, "
        f"{counted(summary['steps'], 'step')} in all"
    )
    if summary["return_mean"] is not None:
        sentence += f"; returns {summary['return_mean']:.4g} +- {summary['return_deviation']:.4g}"
    if summary["time"] is not None:
        sentence += f"; {_about_steps(summary['time'])}"
    missing = summary["missing"]
    are = "is" if missing == 1 else "are"
    sentence += f"; {counted(missing, 'value')} {are} missing" if missing else "; no value is missing"
    return " ".join([sentence + ".", *map(remark_on, summary["wrapped_angles"])])


def _about_steps(time: Mapping[str, Any]) -> str:
    """The time step, how far it varies, and in how many places a sample is missing."""
    usual, shortest, longest = (f"{time[f'{name}_step']:.4g}" for name in ("usual", "shortest", "longest"))
    varies = "" if shortest == longest else f" ({shortest} to {longest})"
    return f"time step {usual} s{varies}, {counted(time['gaps'], 'gap')}"


def inspect_table(out: Path) -> Table:
    """One line per column of the data, from `out/rows.csv`."""
    table = Table("", "column", "lowest", "highest", "mean", "noise up to", "remarks")
    for row in read_column_rows(out).iter_rows(named=True):
        remarks = [f"{row['missing']} missing"] if row["missing"] else []
        remarks += ["constant"] if row["constant"] else []
        remarks += [f"same as {row['same_as']}"] if row["same_as"] else []
        noise = row["noise_of_range"]
        noise = "" if noise is None or math.isnan(noise) else f"{noise:.2%}"
        numbers = [f"{row[name]:.4g}" for name in ("lowest", "highest", "mean")]
        table.add_row(
            row["kind"], with_unit(row["name"], row.get("unit")), *numbers, noise, ", ".join(remarks)
        )
    return table


def read_column_rows(out: Path) -> pl.DataFrame:
    """The rows that `multistep inspect` has left, one per column of the data."""
    kinds: dict[str, Any] = dict.fromkeys(("kind", "name", "same_as", "unit"), pl.String)
    kinds |= dict.fromkeys(("lowest", "highest", "mean", "deviation", "noise", "noise_of_range"), pl.Float64)
    return pl.read_csv(out / "rows.csv", schema_overrides=kinds, glob=False)


def datasets_table(rows: list[dict[str, Any]]) -> Table:
    """The catalogue, one line per dataset."""
    table = Table(Column("dataset", no_wrap=True), "split", "policy", "returns")
    for row in rows:
        returns = (
            f"{row['return_mean']:.1f} +- {row['return_deviation']:.1f}"
            if row["present"]
            else "not collected"
        )
        table.add_row(row["name"], row["split"], row["policy"], returns)
    return table


def linear_table(out: Path) -> Table:
    """Bias and variance of every estimator at a few noise levels, from `out/rows.csv`."""
    rows = pl.read_csv(out / "rows.csv", glob=False)
    noises = rows["noise"].unique().sort().to_list()
    table = Table("estimator", "noise", "bias", "variance", "to first order")
    for name in rows["estimator"].unique(maintain_order=True):
        for noise in (noises[len(noises) // 2], noises[-1]):
            row = rows.row(
                by_predicate=(pl.col("estimator") == name) & (pl.col("noise") == noise), named=True
            )
            theory = row["first_order_variance"]
            numbers = [
                f"{row['bias']:+.4f}",
                f"{row['variance']:.4f}",
                "" if theory is None else f"{theory:.4f}",
            ]
            table.add_row(name, f"{noise:g}", *numbers)
    return table


def sigmoid_sentence(summary: dict[str, Any]) -> str:
    """The finding beside the paper's, in one sentence."""
    best, paper, above = (
        summary["best_alpha"]["mean"],
        summary["paper_best_alpha_of_mean"],
        summary["mean_at_best_above_one"],
    )
    return (
        f"Over {summary['trainings']} trainings the mean of one- and two-step validation error is smallest "
        f"for alpha {best:g} (the paper: {paper:g}), {above['value']:+.2g} against alpha 1 (95 %: "
        f"{above['low']:+.2g} to {above['high']:+.2g})."
    )


def sigmoid_table(out: Path) -> Table:
    """Validation errors by alpha with their intervals, and the paired difference to alpha = 1, from
    `out/alphas.csv`."""
    rows = pl.read_csv(out / "alphas.csv", glob=False)
    table = Table("alpha", "one-step", "two-step", "mean", "mean above that of alpha 1 (95 %)", "distance")
    for alpha in rows["alpha"].unique(maintain_order=True):
        own = {row["measure"]: row for row in rows.filter(pl.col("alpha") == alpha).iter_rows(named=True)}
        mean = own["mean"]
        above = f"{mean['above_one']:+.4f} ({mean['above_one_low']:+.4f} to {mean['above_one_high']:+.4f})"
        values = [f"{own[measure]['value']:.4f}" for measure in ("one_step", "two_step", "mean")]
        table.add_row(f"{alpha:g}", *values, above, f"{own['distance']['value']:.3f}")
    return table


def automatic_sentence(summary: dict[str, Any]) -> str:
    """Whether the automatic recipe keeps what it promises."""
    name = "cells_below_the_best_of_its_parts_by_more_than_0.005"
    but = f": not in {'; '.join(summary['where'])}" if summary["where"] else ""
    return (
        f"In {summary['cells'] - summary[name]} of {summary['cells']} cells the automatic recipe is no more "
        f"than 0.005 below the best of one-step, once, smoothed and linear{but}."
    )


def automatic_table(out: Path) -> Table:
    """R2bar of every method by dataset and noise, from `out/rows.csv`."""
    rows = pl.read_csv(out / "rows.csv", glob=False)
    names = ["linear", "one_step", "once", "smoothed", "automatic", "paper_best", "ceiling"]
    titles = ["line", "1-step", "once", "again", "auto", "paper", "true"]
    columns = [Column(title, no_wrap=True) for title in ("dataset", "", *titles)]
    table = Table(*columns, box=SIMPLE, padding=(0, 1), pad_edge=False)
    for row in rows.iter_rows(named=True):
        values = ["" if row[name] is None else _digits(row[name]) for name in names]
        table.add_row(row["dataset"], f"{row['noise']:.0%}", *values)
    return table


def benchmarks_sentence(summary: dict[str, Any]) -> str:
    """What the automatic recipe reaches on each test record."""
    found = [f"{error:.3g} on {test}" for test, error in summary["automatic"].items()]
    return f"RMSE of free runs, by the automatic recipe: {'; '.join(found) or 'not yet run'}."


def benchmarks_table(out: Path) -> Table:
    """RMSE of every method on every test record, from `out/rows.csv`, the best first."""
    table = Table("record", "model", "RMSE", "lowest", "highest", "seconds")
    rows = pl.read_csv(out / "rows.csv", glob=False, infer_schema_length=None)
    for (name, test), own in rows.group_by("benchmark", "test", maintain_order=True):
        for row in own.sort("rmse").iter_rows(named=True):
            numbers = (row["rmse"], row["lowest"], row["highest"], row["cpu_seconds"])
            shown = ["" if number is None else f"{number:.3g}" for number in numbers]
            table.add_row(f"{name} {test}, {row['unit']}", row["model"], *shown)
    return table


def bench_table(out: Path) -> Table:
    """The summary of a benchmark, one line per number."""
    table = Table("measured", "value")
    for name, value in _flat(json.loads((out / "summary.json").read_text())):
        table.add_row(name, f"{value:.3f}" if isinstance(value, float) else str(value))
    return table


def _last_horizon(scores: dict[str, Any]) -> int:
    return max(int(name.removeprefix("r2bar_")) for name in scores if name.startswith("r2bar_"))


def _percent(r2: float) -> str:
    """A share of variance in per cent; a model worse than the mean explains none."""
    return "an unknown share" if math.isnan(r2) else f"{r2:.1%}" if r2 >= 0 else "none"


def _flat(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        return [(prefix, value)]
    return [
        pair for name, item in value.items() for pair in _flat(item, f"{prefix}.{name}" if prefix else name)
    ]
