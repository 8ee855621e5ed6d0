"""Table and figure of the study of uncertainty, from its rows."""

from pathlib import Path
from typing import Any

import polars as pl
from rich.box import SIMPLE
from rich.table import Column, Table

from multistep.report.drawing import figure_file, read_rows
from multistep.runs.atomic import write_text

LABELS = {
    "gaussian": "one Gaussian model",
    "fixed": "one deviation per horizon",
    "ensemble": "members alone",
    "particles": "particles",
    "scaled": "particles, scaled",
}
COLOURS = {
    "gaussian": "#d95f02",
    "fixed": "#999999",
    "ensemble": "#7570b3",
    "particles": "#1b9e77",
    "scaled": "#1b6ca8",
}
SHARES = (90, 50)
COLUMNS = 4


def draw_uncertainty(out: Path) -> list[Path]:
    """Write the table of the study in `out`, draw its figure, and return their paths."""
    return [_write_table(out), _draw(out)]


def uncertainty_sentence(summary: dict[str, Any]) -> str:
    """In how many cells which intervals hold what they promise."""
    found = ", ".join(
        f"{LABELS[way]} {number} (CRPS {summary['crps'][way]:.3f} of a deviation)"
        for way, number in summary["cells_covered"].items()
    )
    return (
        f"Of {summary['cells']} cells, 90 % intervals hold 87 to 93 % and 50 % ones 45 to 55 % (of "
        f"recordings 90 % ones 80 to 95 %) at every horizon shown in: {found}."
    )


def uncertainty_table(out: Path) -> Table:
    """Coverage at several steps ahead, a line for each dataset, noise and way."""
    rows = read_rows(out / "rows.csv")
    titles = ("dataset, noise, way", "held of 90 %", "held of 50 %", "CRPS", "R2bar")
    table = Table(
        *(Column(title, no_wrap=True) for title in titles), box=SIMPLE, padding=(0, 1), pad_edge=False
    )
    for dataset, noise in rows.select("dataset", "noise").unique(maintain_order=True).rows():
        table.add_row(f"{dataset}, {noise:.0%}")
        for row in rows.filter((pl.col("dataset") == dataset) & (pl.col("noise") == noise)).iter_rows(
            named=True
        ):
            held = ("/".join(_per_cent(row, share)) for share in SHARES)
            table.add_row(f"  {LABELS[row['way']]}", *held, f"{row['crps']:.3f}", f"{row['r2bar']:.3f}")
        table.add_section()
    steps = " / ".join(str(horizon) for horizon in _horizons(rows))
    table.caption = f"per cent held at {steps} steps ahead; CRPS in deviations of each state"
    return table


def _write_table(out: Path) -> Path:
    rows = read_rows(out / "rows.csv")
    steps = ", ".join(str(horizon) for horizon in _horizons(rows))
    lines = [
        f"Per cent of the measurements within the intervals, at {steps} steps ahead; CRPS in deviations of "
        "each state.",
        "",
        "| dataset | noise | intervals by | held of 90 % | held of 50 % | CRPS | R2bar of the mean |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows.iter_rows(named=True):
        held = " | ".join(" / ".join(_per_cent(row, share)) for share in SHARES)
        lines.append(
            f"| {row['dataset']} | {row['noise']:.0%} | {LABELS[row['way']]} | {held} | {row['crps']:.3f} | "
            f"{row['r2bar']:.3f} |"
        )
    write_text(out / "table.md", "\n".join(lines) + "\n")
    return out / "table.md"


def _per_cent(row: dict[str, Any], share: int) -> list[str]:
    start = f"coverage_{share}_at_"
    return [
        f"{100 * value:.0f}" for name, value in row.items() if name.startswith(start) and value is not None
    ]


def _horizons(rows: pl.DataFrame) -> list[int]:
    return [int(name.rsplit("_", 1)[1]) for name in rows.columns if name.startswith("coverage_90_at_")]


def _draw(out: Path) -> Path:
    """What 90 % intervals hold against the horizon: a panel for each dataset and noise."""
    rows = read_rows(out / "rows.csv")
    cells = rows.select("dataset", "noise").unique(maintain_order=True).rows()
    across = min(COLUMNS, len(cells))
    down = -(-len(cells) // across)
    size = (1.0 + 2.9 * across, 1.2 + 2.1 * down)
    with figure_file(out / "uncertainty.png", down, across, size) as panels:
        for panel, (dataset, noise) in zip(panels, cells, strict=False):
            _draw_cell(panel, rows.filter((pl.col("dataset") == dataset) & (pl.col("noise") == noise)))
            panel.set_title(f"{dataset}, noise {100 * noise:g} %", fontsize=8)
            panel.set_xlabel("steps ahead h", fontsize=8)
        for panel in panels[len(cells) :]:
            panel.remove()
        handles, labels = panels[0].get_legend_handles_labels()
        style = {"loc": "outside lower center", "ncols": 3, "fontsize": 8, "frameon": False}
        panels[0].figure.legend(handles, labels, **style)
        panels[0].figure.supylabel("measurements within the 90 % interval, %", fontsize=9)
    return out / "uncertainty.png"


def _draw_cell(panel: Any, rows: pl.DataFrame) -> None:
    for row in rows.iter_rows(named=True):
        held = {h: row.get(f"coverage_90_at_{h}") for h in _horizons(rows)}
        known = {h: 100 * value for h, value in held.items() if value is not None}
        colour, label = COLOURS[row["way"]], LABELS[row["way"]]
        panel.plot(list(known), list(known.values()), "o-", color=colour, ms=3, lw=1.2, label=label)
    panel.axhspan(87, 93, color="#1b6ca8", alpha=0.12, lw=0)
    panel.set(xscale="log", ylim=(0, 102))
    panel.set_xticks(_horizons(rows), [str(h) for h in _horizons(rows)], fontsize=7)
    panel.minorticks_off()
    panel.tick_params(labelsize=7)
    panel.grid(alpha=0.3)
