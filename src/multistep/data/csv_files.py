"""Episodes in `.csv`: a header, one row per moment, the action of a row being the one taken in its state."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from multistep.data.atomic import replacing
from multistep.data.episodes import Episode, Episodes
from multistep.errors import InputError


def save_csv(episodes: Episodes, path: Path) -> None:
    """Write all episodes to one file with a column `episode`; the last row of each has no action and no reward."""
    moments = [_with_last_row_empty(episodes[number]) for number in range(len(episodes))]
    columns: dict[str, np.ndarray] = {"episode": np.repeat(np.arange(len(episodes)), episodes.lengths + 1)}
    columns |= dict(zip(episodes.state_names, episodes.states.T, strict=True))
    columns |= dict(zip(episodes.action_names, np.concatenate([m.actions for m in moments]).T, strict=True))
    if episodes.rewards is not None:
        columns["reward"] = np.concatenate([m.rewards for m in moments if m.rewards is not None])
    if len(columns) < 1 + episodes.state_size + episodes.action_size + (episodes.rewards is not None):
        raise InputError(f"Cannot write {path}: a .csv file needs different names for all of its columns.")
    with replacing(path) as temporary:
        # NaN stands for "none" in the last rows only: episodes themselves are finite.
        pl.DataFrame(columns).fill_nan(None).write_csv(temporary)


def load_csv(
    paths: Sequence[Path], *, states: Sequence[str], actions: Sequence[str], rewards: str | None, episode: str | None
) -> Episodes:
    """The episodes of all the files, in order: one per file, or one per value of the column `episode`."""
    wanted = [*states, *actions, *([rewards] if rewards else [])]
    twice = sorted({name for name in wanted if wanted.count(name) > 1})
    if twice:
        raise InputError(
            f"The column {', '.join(twice)} is named more than once among states, actions and rewards: name it once."
        )
    parts = [part for path in paths for part in _episodes_of(path, _read(path), states, actions, rewards, episode)]
    return Episodes.of(parts, state_names=states, action_names=actions)


def _read(path: Path) -> pl.DataFrame:
    """The table as text: numbers are parsed later, where a bad one can be named with its row and column."""
    try:
        table = pl.read_csv(path, infer_schema=False)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(f"{path} cannot be read as .csv ({reason}): repair the file or write it again.") from error
    table.columns = [name.strip() for name in table.columns]
    if table.height == 0:
        raise InputError(f"{path} has a header but no rows: it holds no episode.")
    return table


def _episodes_of(
    path: Path, table: pl.DataFrame, states: Sequence[str], actions: Sequence[str], rewards: str | None, episode: str | None
) -> list[Episode]:
    for option, names in (("states", states), ("actions", actions)):
        if not names:
            raise InputError(f"Say which columns of {path} are the {option}; it has {', '.join(table.columns)}.")
    absent = [name for name in (*states, *actions, rewards, episode) if name is not None and name not in table.columns]
    if absent:
        raise InputError(f"{path} has no column {', '.join(absent)}; it has {', '.join(table.columns)}.")
    bounds = _bounds(path, table, episode)
    # The last row of an episode has a state only: whatever its action and reward cells hold is not used.
    last_rows = np.zeros(table.height, bool)
    last_rows[[end - 1 for _, end in bounds]] = True
    state_values = np.stack([_numbers(path, table, name) for name in states], axis=1)
    action_values = np.stack([_numbers(path, table, name, unused=last_rows) for name in actions], axis=1)
    reward_values = None if rewards is None else _numbers(path, table, rewards, unused=last_rows)
    return [
        Episode(
            state_values[start:end],
            action_values[start : end - 1],
            None if reward_values is None else reward_values[start : end - 1],
        )
        for start, end in bounds
    ]


def _bounds(path: Path, table: pl.DataFrame, episode: str | None) -> list[tuple[int, int]]:
    """First row and row past the end of each episode."""
    if episode is None:
        edges = [0, table.height]
    else:
        ids = table[episode].to_numpy()
        edges = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), table.height]
        starts = [ids[row] for row in edges[:-1]]
        for number, name in enumerate(starts):
            if name in starts[:number]:
                raise InputError(
                    f"{path}, row {edges[number] + 1}: episode {name} starts a second time; "
                    "sort the rows so that each episode stands in one piece."
                )
    bounds = list(pairwise(edges))
    for start, end in bounds:
        if end - start < 2:
            raise InputError(f"{path}, row {start + 1}: an episode of one row has no step; give at least two rows.")
    return bounds


def _numbers(path: Path, table: pl.DataFrame, name: str, *, unused: np.ndarray | None = None) -> np.ndarray:
    """The column as numbers, or an `InputError` that names the first cell that is none."""
    text = table[name].str.strip_chars()
    values = text.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy().copy()
    if unused is not None:
        values[unused] = 0.0
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        cell = text[int(bad[0])]
        what = "is empty" if cell in (None, "") else f"holds '{cell}'"
        raise InputError(
            f"{path}, row {bad[0] + 1} after the header, column {name} {what}: every state and action must be a finite "
            f"number ({len(bad)} cells of this column are not)."
        )
    return values


def _with_last_row_empty(episode: Episode) -> Episode:
    rewards = None if episode.rewards is None else np.append(episode.rewards, np.float32("nan")).astype(episode.rewards.dtype)
    actions = np.concatenate([episode.actions, np.full_like(episode.actions[:1], np.nan)])
    return Episode(episode.states, actions, rewards)
