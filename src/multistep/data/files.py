"""`load` and `save`: episodes in and out of files, by the ending of their names; Minari's datasets by their
ids; data frames as they are."""

import glob
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from multistep.data.angles import with_angles
from multistep.data.columns import Columns, Missing, Order
from multistep.data.csv_files import read_csv, save_csv
from multistep.data.episodes import Episodes
from multistep.data.frames import Frame, is_frame, read_frame
from multistep.data.hdf5_files import read_hdf5, save_hdf5
from multistep.data.minari_files import is_minari, read_minari, save_minari
from multistep.data.npz_files import read_npz, save_npz
from multistep.data.parquet_files import read_parquet, save_parquet
from multistep.data.recording import Recording, as_episodes, check_alike, cut_at_missing
from multistep.data.time_steps import note_different_steps
from multistep.errors import InputError

READERS = {".npz": read_npz, ".csv": read_csv, ".parquet": read_parquet, ".hdf5": read_hdf5, ".h5": read_hdf5}
WRITERS = {".npz": save_npz, ".csv": save_csv, ".parquet": save_parquet, ".hdf5": save_hdf5, ".h5": save_hdf5}
ENDINGS = ".npz, .csv, .parquet, .hdf5 or .h5, or a Minari dataset, whose id ends in -v0, -v1, ..."


def load(
    files: str | Path | Sequence[str | Path] | Frame,
    *,
    states: Sequence[str] = (),
    actions: Sequence[str] = (),
    rewards: str | None = None,
    episode: str | None = None,
    time: str | None = None,
    angles: Sequence[str] = (),
    missing: Missing = "refuse",
    order: Order = "name",
) -> Episodes:
    """The episodes in these files, or in data frames.

    ```python
    episodes = load("logs/*.csv", states=["x", "theta"], actions=["u"])
    episodes = load(frame, states=["x", "theta"], actions=["u"], episode="run")
    ```
    Tables (frames, `.csv`, `.parquet`) need `states` and `actions`. All other formats, and a `.parquet` file
    written by `save`, know their columns; naming some picks those.

    **Arguments:**

    - `files`: names or patterns such as `logs/*.csv`, or the id or folder of a Minari dataset; or a
      frame of polars or pandas, or several.
    - `states`, `actions`: columns of a table. Experiments that stand side by side in it are named together:
      `states=["y=y1,y2"], actions=["u=u1,u2"]`.
    - `rewards`: the column of the rewards, if there is one.
    - `episode`: the column that tells the episodes of a table apart; without it a table is one.
    - `time`: a column that must increase; a gap in it starts a new episode.
    - `angles`: states that are angles, wrapped or not: `theta` in radians, `theta:deg` in degrees.
    - `missing`: "refuse" what is empty, NaN or infinite, or "cut": the episode ends there and another one
      begins after it.
    - `order`: files are taken sorted by "name", however they are named here, or as "given".
    """
    columns = Columns(tuple(states), tuple(actions), rewards, episode, time, tuple(angles), missing, order)
    recordings = _read_frames(files, columns) or read(_names_of(files), columns)
    note_different_steps(recordings)
    return with_angles(as_episodes(recordings), angles)


def _names_of(files: Any) -> list[str | Path]:
    """The names, or an `InputError` for what is neither a name nor a frame."""
    names = [files] if isinstance(files, str | Path) or not isinstance(files, Iterable) else files
    for name in names:
        if not isinstance(name, str | Path):
            what = type(name if isinstance(files, list | tuple) else files).__name__
            raise InputError(
                f"load was given {'an' if what[0] in 'aei' else 'a'} {what}: give names of files, or a data "
                "frame; arrays become episodes by Episodes.of([(states, actions)])."
            )
    return list(names)


def read(files: str | Path | Sequence[str | Path], columns: Columns) -> list[Recording]:
    """What the files hold, not yet checked for missing values."""
    recordings = []
    names = expand([files] if isinstance(files, str | Path) else files)
    for name in sorted(names) if columns.order == "name" else names:
        if is_minari(name):
            _refuse(name, columns, ("rewards", "episode", "time"))
            recordings += read_minari(name, columns)
            continue
        path = Path(name)
        ending = path.suffix.lower()
        if ending not in READERS:
            raise InputError(f"{path} ends in '{path.suffix}': files that can be read end in {ENDINGS}.")
        if ending not in (".csv", ".parquet"):
            _refuse(name, columns, ("rewards", "episode", "time"))
        recordings += READERS[ending](path, columns)
    check_alike(recordings)
    return [cut_at_missing(recording) for recording in recordings] if columns.missing == "cut" else recordings


def _read_frames(frames: Any, columns: Columns) -> list[Recording]:
    """What is in a frame or several; nothing if these are none."""
    several = list(frames) if isinstance(frames, list | tuple) else [frames]
    if not any(map(is_frame, several)):
        return []
    recordings = []
    for number, frame in enumerate(several):
        source = "The frame" if len(several) == 1 else f"Frame {number}"
        if not is_frame(frame):
            raise InputError(f"{source} is a {type(frame).__name__}: give frames or files, not both.")
        recordings += read_frame(frame, source, columns)
    check_alike(recordings)
    return [cut_at_missing(recording) for recording in recordings] if columns.missing == "cut" else recordings


def save(episodes: Episodes, path: str | Path) -> None:
    """Write the episodes to one file, or to a new Minari dataset, whole or not at all.

    **Arguments:**

    - `episodes`: with their names and rewards.
    - `path`: its ending is the format: `.npz`, `.csv`, `.parquet`, `.hdf5` (D4RL's layout), or `-v0` for a
      Minari id.
    """
    if Path(path).suffix in WRITERS:
        WRITERS[Path(path).suffix](episodes, Path(path))
    elif is_minari(path):
        save_minari(episodes, path)
    else:
        raise InputError(f"{path} ends in '{Path(path).suffix}': what can be written ends in {ENDINGS}.")


def _refuse(name: str, columns: Columns, options: Sequence[str]) -> None:
    for option in options:
        if getattr(columns, option) is not None:
            raise InputError(f"{name} says itself what its episodes and rewards are: leave out {option}.")


def expand(names: Sequence[str | Path]) -> list[str]:
    """The files behind names and patterns, and the Minari datasets as they are."""
    found: list[str] = []
    for name in map(str, names):
        if is_minari(name):
            found.append(name)
            continue
        matches = [name] if Path(name).exists() else sorted(glob.glob(name, recursive=True))
        if not matches:
            what = "No file matches the pattern" if glob.has_magic(name) else "There is no file"
            raise InputError(
                f"{what} {name}: check the name and the folder it is looked for in ({Path.cwd()})."
            )
        found += matches
    if not found:
        raise InputError(
            "No files were given: name at least one, before options such as --states, which take every word "
            "up to the next option."
        )
    resolved = [Path(name).resolve() if Path(name).exists() else name for name in found]
    for name, place in zip(found, resolved, strict=True):
        if resolved.count(place) > 1:
            raise InputError(
                f"{name} is named more than once: name it once, or its episodes are counted twice."
            )
    for path in map(Path, found):
        if path.is_dir() and not is_minari(path):
            raise InputError(f"{path} is a folder: name the files in it, for example {path}/*.csv.")
        if path.is_file() and path.stat().st_size == 0:
            raise InputError(f"{path} is empty: it holds no episode.")
    return found
