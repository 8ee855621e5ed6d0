"""What all figures share: reading rows, and a file that is whole or not there."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import polars as pl

from multistep.runs.atomic import replacing

COLOURS = ("#7570b3", "#1b6ca8", "#1b9e77", "#66a61e", "#e6ab02", "#d95f02", "#666666")


def plain_text(label: str) -> str:
    """A label as it is: a dollar sign would start a formula."""
    return label.replace("$", r"\$")


def merged(panels: Sequence[Any]) -> Any:
    """One panel in the place of these, which stand above each other."""
    if len(panels) == 1:
        return panels[0]
    figure, grid = panels[0].figure, panels[0].get_gridspec()
    rows = [panel.get_subplotspec().rowspan.start for panel in panels]
    column = panels[0].get_subplotspec().colspan.start
    for panel in panels:
        panel.remove()
    return figure.add_subplot(grid[min(rows) : max(rows) + 1, column])


def read_rows(path: Path) -> pl.DataFrame:
    """Rows that a run has left."""
    return pl.read_csv(path, infer_schema_length=None, glob=False)


def read_summary(out: Path) -> dict[str, Any]:
    """What a run has left in its summary; nothing if there is none."""
    path = out / "summary.json"
    return json.loads(path.read_text()) if path.exists() else {}


@contextmanager
def figure_file(
    path: Path,
    num_rows: int,
    num_columns: int,
    size: tuple[float | int, float | int],
    heights: Sequence[float | int] | None = None,
) -> Iterator[Any]:
    """The axes of a figure, row by row; it is written to `path` once the block has ended well. The rows have
    these relative heights, or are all alike."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        num_rows, num_columns, figsize=size, layout="constrained", squeeze=False, height_ratios=heights
    )
    try:
        yield axes.ravel()
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=130)
    finally:
        plt.close(figure)
