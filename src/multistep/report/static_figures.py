"""Table and figures of the static study, from its rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from multistep.report.drawing import COLOURS, figure_file, read_rows
from multistep.runs.atomic import write_text
from multistep.selection.candidates import PAPER_BETAS

NOISE_COLOURS = ("#9ecae1", "#4292c6", "#08519c", "#fdae6b", "#e6550d", "#a63603")
GAIN_PANELS = 4  # in one row of the figure
LOWEST_R2 = -0.1  # a model worse than the mean of the data: how far below does not help the eye


def draw_static(out: Path) -> list[Path]:
    """Draw all figures of the study in `out`, write its table, and return their paths."""
    return [write_table(out), _draw_gains(out), _draw_betas(out), _draw_curves(out)]


def static_sentence(summary: dict[str, Any]) -> str:
    """How many fits there are, and how they compare with the paper, in a few sentences."""
    done = sum(summary["outcomes"].values())
    sentence = f"{done} rows, {summary['seconds_of_fits'] / 3600:.1f} hours of one core"
    for outcome, number in summary["outcomes"].items():
        sentence += "" if outcome == "finished" else f", {number} {outcome}"
    one_step = len(summary["one_step_as_in_paper"]), len(summary["one_step_unlike_paper"])
    if sum(one_step):
        sentence += (
            f"; {one_step[0]} of {sum(one_step)} one-step cells are within 3 deviations or 0.030 of the "
            "paper's"
        )
    gains = len(summary["gain_significant_in_both"]), len(summary["gain_significant_in_paper_only"])
    if sum(gains):
        sentence += (
            f"; of {sum(gains)} significant gains with noise in the paper {gains[0]} are significant here"
        )
    if summary["datasets_without_rows"]:
        sentence += f". No rows of {', '.join(summary['datasets_without_rows'])}"
    return sentence + "."


def static_table(out: Path) -> Table:
    """R2bar x 1000, a line for each dataset, noise and horizon, so that it fits into any terminal."""
    cells = read_rows(out / "rows.csv")
    models = Column("dataset, noise, model", no_wrap=True)
    table = Table(models, "R2bar x 1000", "the paper's", "difference", box=SIMPLE_HEAD)
    for dataset, noise in cells.select("dataset", "noise").unique(maintain_order=True).rows():
        row = cells.filter((pl.col("dataset") == dataset) & (pl.col("noise") == noise))
        table.add_row(f"{dataset}, {100 * noise:g} %")
        for preset, horizon, title in _columns(row):
            table.add_row(f"  {title}", *_entry(row, preset, horizon))
        table.add_row("  true simulator", _thousandths(row["ceiling"][0]), end_section=True)
    table.caption = (
        "mean +- deviation over the folds [best beta]; the difference is in the paper's deviations"
    )
    return table


def write_table(out: Path) -> Path:
    """The same table in Markdown, as `out/table.md`."""
    cells = read_rows(out / "rows.csv")
    columns = _columns(cells)
    lines = [
        "R2bar x 1000, mean ± standard deviation over the folds [best beta]; below it the paper's, and (the "
        "difference in the",
        "paper's standard deviations). In bold: the best of the row.",
        "",
        "| dataset | noise | " + " | ".join(title for *_, title in columns) + " | true simulator |",
        "|---" * (len(columns) + 3) + "|",
    ]
    for dataset, noise in cells.select("dataset", "noise").unique(maintain_order=True).rows():
        row = cells.filter((pl.col("dataset") == dataset) & (pl.col("noise") == noise))
        best = row.sort("mean", descending=True).row(0, named=True)
        entries = []
        for preset, horizon, _ in columns:
            ours, paper, difference = _entry(row, preset, horizon)
            bold = (preset, horizon) == (best["preset"], best["horizon"])
            lines_of_entry = [f"**{ours}**" if bold else ours, paper, difference and f"({difference})"]
            entries.append("<br>".join(filter(None, lines_of_entry)).replace("+-", "±"))
        lines.append(f"| {dataset} | {noise:g} | {' | '.join(entries)} | {_thousandths(row['ceiling'][0])} |")
    path = out / "table.md"
    write_text(path, "\n".join(lines) + "\n")
    return path


def _columns(cells: pl.DataFrame) -> list[tuple[str, int, str]]:
    """Preset, horizon and title of each column."""
    found = (
        cells.select("preset", "horizon").unique().sort("preset", "horizon", descending=[True, False]).rows()
    )
    titles = {1: "one-step"}
    return [
        (preset, h, titles.get(h, f"h={h}") if preset == "paper" else f"{preset} preset")
        for preset, h in found
    ]


def _entry(row: pl.DataFrame, preset: str, horizon: int) -> tuple[str, str, str]:
    """One cell of the table: ours, the paper's and the difference; empty where there is none."""
    own = row.filter((pl.col("preset") == preset) & (pl.col("horizon") == horizon))
    if own.is_empty():
        return "", "", ""
    cell = own.row(0, named=True)
    ours = _with_beta(cell["mean"], cell["deviation"], cell["beta"])
    if cell["betas"] < cell["betas_in_all"]:
        ours += f", {cell['betas']} of {cell['betas_in_all']} betas"
    if cell["paper"] is None:
        return ours, "", ""
    return (
        ours,
        _with_beta(cell["paper"], cell["paper_deviation"], cell["paper_beta"]),
        f"{cell['above_paper']:+.1f}",
    )


def _with_beta(mean: float, deviation: float, beta: float | None) -> str:
    return f"{_thousandths(mean)} +- {_thousandths(deviation)}" + ("" if beta is None else f" [{beta:g}]")


def _thousandths(value: float | None) -> str:
    return "" if value is None else f"{1000 * value:.0f}"


def _draw_gains(out: Path) -> Path:
    """Relative improvement of R2bar over half of the horizon over the one-step model, by horizon and
    noise."""
    numbers = pl.col("gain", "gain_low", "gain_high").cast(pl.Float64)  # empty ones would be read as text
    cells = read_rows(out / "rows.csv").with_columns(numbers).filter(pl.col("gain").is_finite())
    datasets, noises = (
        cells[name].unique(maintain_order=True).sort().to_list() for name in ("dataset", "noise")
    )
    across = min(GAIN_PANELS, max(1, len(datasets)))
    down = max(1, -(-len(datasets) // across))
    with figure_file(out / "gains.png", down, across, (1 + 3.6 * across, 3.2 * down)) as panels:
        for panel, dataset in zip(panels, datasets, strict=False):
            _draw_gains_of(panel, cells.filter(pl.col("dataset") == dataset), noises, _columns(cells))
            if (
                cells["gain"].abs().to_numpy().max() > 0.1
            ):  # from a per cent to a hundred: as in the paper, in powers of ten
                panel.set_yscale("symlog", linthresh=1)
                panel.set_yticks([-100, -10, -1, 0, 1, 10, 100], ["-100", "-10", "-1", "0", "1", "10", "100"])
            panel.set_title(dataset, fontsize=10)
        for panel in panels[len(datasets) :]:
            panel.set_axis_off()
        if datasets:
            panels[0].figure.supylabel("improvement over one-step, %", fontsize=10)
            panels[0].legend(frameon=False, fontsize=8)
    return out / "gains.png"


def _draw_gains_of(
    panel: Any, cells: pl.DataFrame, noises: Sequence[float], columns: Sequence[tuple[str, int, str]]
) -> None:
    """The bars of one dataset: a group for each model, a bar for each scale of noise, with its interval."""
    places = {(preset, horizon): place for place, (preset, horizon, _) in enumerate(columns)}
    width = 0.8 / len(noises)
    for number, noise in enumerate(noises):
        own = cells.filter(pl.col("noise") == noise)
        gain, low, high = (100 * own[name] for name in ("gain", "gain_low", "gain_high"))
        panel.bar(
            [
                places[key] + (number - (len(noises) - 1) / 2) * width
                for key in own.select("preset", "horizon").rows()
            ],
            gain,
            width,
            yerr=[gain - low, high - gain],
            capsize=2,
            color=NOISE_COLOURS[number % len(NOISE_COLOURS)],
            label=f"noise {100 * noise:g} %",
        )
    panel.set_xticks(range(len(columns)), [title for *_, title in columns], fontsize=8)
    panel.axhline(0, color="black", linewidth=0.6)


def _draw_betas(out: Path) -> Path:
    """Best beta and effective horizon against the noise, ours and the paper's."""
    rows = read_rows(out / "betas.csv")
    with figure_file(out / "betas.png", 1, 2, (9, 3.6)) as panels:
        for panel, name in zip(panels, ("beta", "effective_horizon"), strict=True):
            for number, horizon in enumerate(rows["horizon"].unique().sort()):
                colour = _colour(number)
                own = rows.filter(pl.col("horizon") == horizon).sort("noise")
                panel.plot(100 * own["noise"], own[name], "o-", color=colour, label=f"h={horizon}")
                panel.plot(100 * own["noise"], own[f"paper_{name}"], "x:", color=colour)
            panel.set(
                xlabel="noise, % of the range", title=f"best {name.replace('_', ' ')}, mean over datasets"
            )
            panel.set_xticks([100 * noise for noise in rows["noise"].unique().sort()])
        panels[0].set_yscale("log")  # betas are from 0.1 to 20
        panels[0].set_yticks(PAPER_BETAS, [f"{beta:g}" for beta in PAPER_BETAS])
        panels[0].minorticks_off()
        panels[0].plot([], [], "x:", color="black", label="paper (8 datasets)")
        panels[0].legend(frameon=False, fontsize=8)
    return out / "betas.png"


def _draw_curves(out: Path) -> Path:
    """R2(h) of the best beta of every horizon, and of the true simulator, for every dataset and noise."""
    rows = read_rows(out / "curves.csv")
    datasets, noises = (
        rows[name].unique(maintain_order=True).sort().to_list() for name in ("dataset", "noise")
    )
    colours = {
        (preset, horizon): _colour(n) for n, (preset, horizon, _) in enumerate(_columns(_models(rows)))
    }
    size = (3.6 * max(1, len(noises)), 2.7 * max(1, len(datasets)))
    with figure_file(out / "curves.png", max(1, len(datasets)), max(1, len(noises)), size) as panels:
        for panel, (dataset, noise) in zip(panels, ((d, n) for d in datasets for n in noises), strict=False):
            own = rows.filter((pl.col("dataset") == dataset) & (pl.col("noise") == noise))
            if own.is_empty():
                panel.set_axis_off()
                continue
            for preset, horizon, title in _columns(_models(own)):
                curve = own.filter((pl.col("preset") == preset) & (pl.col("horizon") == horizon)).sort("step")
                panel.plot(
                    curve["step"], curve["r2"].clip(LOWEST_R2), color=colours[preset, horizon], label=title
                )
            ceiling = own.filter(pl.col("preset") == "true simulator").sort("step")
            panel.plot(ceiling["step"], ceiling["r2"], "--", color="black", label="true simulator")
            panel.set_ylim(max(LOWEST_R2, min(0.5, 0.98 * own["r2"].to_numpy().min())), 1.01)
            panel.set_title(f"{dataset}, noise {100 * noise:g} %", fontsize=9)
            panel.legend(frameon=False, fontsize=6)
        panels[0].figure.supxlabel("steps ahead h")
        panels[0].figure.supylabel("R2(h)")
    return out / "curves.png"


def _models(curves: pl.DataFrame) -> pl.DataFrame:
    return curves.filter(pl.col("preset") != "true simulator")


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
