"""Table and figure of the study of rivals, from its rows."""

from pathlib import Path
from typing import Any

import polars as pl
from rich.box import SIMPLE
from rich.table import Column, Table

from multistep.report.drawing import figure_file, read_rows
from multistep.runs.atomic import write_text

LABELS = {
    "one_step": "one-step",
    "validated": "one-step, validated h=50",
    "noisy": "noise injection",
    "aggregated": "data as demonstrator",
    "hallucinated": "hallucinated replay",
    "scheduled": "scheduled sampling",
    "direct": "direct, a network per h",
    "uniform": "uniform multi-step, h=10",
    "paper": "paper preset, h=10",
    "multistep": "ours: balanced, h=40",
    "ceiling": "true simulator",
}
COLOURS = ("#4292c6", "#fdae6b", "#d94801", "#7f2704")
LOWEST = 0.0  # a model worse than the mean of the data: how far below does not help the eye


def draw_rivals(out: Path) -> list[Path]:
    """Write the table of the study in `out`, draw its figure, and return their paths."""
    return [_write_table(out), _draw(out)]


def rivals_sentence(summary: dict[str, Any]) -> str:
    """In how many cells one of ours is ahead of all rivals, and where it is not."""
    cells = summary["cells"]
    if not cells:
        return "There are no rows yet of both ours and a rival to compare."
    ahead = [cell for cell in cells if cell["splits_ahead"] == cell["splits"]]
    found = f"One of ours is ahead of the best rival in all splits in {len(ahead)} of {len(cells)} cells"
    others = [
        f"{cell['dataset']} with {cell['noise']:.0%} noise ({LABELS[cell['rival']]} "
        f"{_digits(cell['rival_r2bar'])}, ours {_digits(cell['ours_r2bar'])}, ahead in "
        f"{cell['splits_ahead']} of {cell['splits']})"
        for cell in cells
        if cell not in ahead
    ]
    return found + (f"; not in {'; '.join(others)}." if others else ".")


def rivals_table(out: Path) -> Table:
    """R2(1), R2bar(100), seconds and model steps, a line for each dataset, noise and method."""
    titles = ("dataset, noise, method", "R2(1)", "R2bar", "splits", "s", "M steps")
    columns = [Column(title, no_wrap=True) for title in titles]
    table = Table(*columns, box=SIMPLE, padding=(0, 1), pad_edge=False)
    for (dataset, noise), own in _cells(out):
        table.add_row(f"{dataset}, {noise:.0%}")
        for row in own.sort("r2bar", descending=True).iter_rows(named=True):
            first, mean, low, high = (_digits(row[name]) for name in ("r2_1", "r2bar", "lowest", "highest"))
            steps = "" if row["model_steps"] is None else f"{row['model_steps'] / 1e6:.2f}"
            seconds = "" if row["seconds"] is None else f"{row['seconds']:.0f}"
            table.add_row(f"  {LABELS[row['method']]}", first, mean, f"{low} {high}", seconds, steps)
        table.add_section()
    return table


def _write_table(out: Path) -> Path:
    """R2bar x 1000 by method, dataset and noise, in Markdown, as `out/table.md`."""
    cells = _cells(out)
    columns = " | ".join(f"{dataset} {noise:.0%}" for (dataset, noise), _ in cells)
    lines = [
        "R2bar x 1000, mean over the splits (lowest to highest). In bold: the best of the column,",
        "without the true simulator.",
        "",
        f"| | {columns} |",
        "|---" * (len(cells) + 1) + "|",
    ]
    for method in _methods(out):
        entries = []
        for _, own in cells:
            best = own.filter(pl.col("method") != "ceiling")["r2bar"].max()
            found = own.filter(pl.col("method") == method).to_dicts()
            entries.append(_entry(found[0], found[0]["r2bar"] == best) if found else "")
        lines.append(f"| {LABELS[method]} | {' | '.join(entries)} |")
    write_text(out / "table.md", "\n".join(lines) + "\n")
    return out / "table.md"


def _entry(row: dict[str, Any], is_best: bool) -> str:
    mean, low, high = (_thousandths(row[name]) for name in ("r2bar", "lowest", "highest"))
    return (f"**{mean}**" if is_best else mean) + (f" ({low} to {high})" if row["splits"] > 1 else "")


def _draw(out: Path) -> Path:
    """R2bar of every method: a panel for each dataset, a colour for each noise, the splits as a line."""
    rows, methods = read_rows(out / "rows.csv"), _methods(out)
    datasets = rows["dataset"].unique(maintain_order=True).to_list()
    noises = rows["noise"].unique().sort().to_list()
    size = (3.0 + 3.4 * len(datasets), 1.0 + 0.36 * len(methods))
    with figure_file(out / "rivals.png", 1, len(datasets), size) as panels:
        for panel, dataset in zip(panels, datasets, strict=True):
            for number, noise in enumerate(noises):
                own = rows.filter((pl.col("dataset") == dataset) & (pl.col("noise") == noise))
                own = own.with_columns(pl.col("r2bar", "lowest", "highest").cast(pl.Float64).clip(LOWEST))
                offset = 0.22 * (number - (len(noises) - 1) / 2)
                heights = [methods.index(method) + offset for method in own["method"]]
                colour = COLOURS[number % len(COLOURS)]
                panel.hlines(heights, own["lowest"], own["highest"], color=colour, linewidth=1.5)
                panel.plot(own["r2bar"], heights, "o", color=colour, ms=4, label=f"noise {100 * noise:g} %")
            panel.set_yticks(range(len(methods)), [LABELS[method] for method in methods], fontsize=8)
            panel.invert_yaxis()
            panel.set_title(dataset, fontsize=9)
            panel.grid(alpha=0.3)
        for panel in panels[1:]:
            panel.set_yticklabels([])
        panels[-1].legend(loc="lower left", fontsize=7, framealpha=0.8, edgecolor="none")
        panels[0].figure.supxlabel("R2bar on test episodes at equal model steps", fontsize=9)
    return out / "rivals.png"


def _cells(out: Path) -> list[tuple[tuple[str, float], pl.DataFrame]]:
    """The rows of each dataset and noise."""
    rows = read_rows(out / "rows.csv")
    return [
        ((dataset, noise), rows.filter((pl.col("dataset") == dataset) & (pl.col("noise") == noise)))
        for dataset, noise in rows.select("dataset", "noise").unique(maintain_order=True).rows()
    ]


def _methods(out: Path) -> list[str]:
    there = set(read_rows(out / "rows.csv")["method"])
    return [method for method in LABELS if method in there]


def _digits(value: float | str) -> str:
    return f"{float(value):.3f}"


def _thousandths(value: float) -> str:
    return f"{1000 * value:.0f}"
