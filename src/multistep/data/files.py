"""`load` and `save`: episodes in and out of files, by the ending of their names."""

import glob
from collections.abc import Sequence
from pathlib import Path

from multistep.data.csv_files import load_csv, save_csv
from multistep.data.episodes import Episodes
from multistep.data.npz_files import load_npz, save_npz
from multistep.errors import InputError


def load(
    files: str | Path | Sequence[str | Path],
    *,
    states: Sequence[str] = (),
    actions: Sequence[str] = (),
    rewards: str | None = None,
    episode: str | None = None,
) -> Episodes:
    """The episodes in these files: names or patterns such as `logs/*.csv`, all of one format.

    A `.csv` file is one episode, or several told apart by the column `episode`; `states`, `actions` and `rewards` name
    its columns. A `.npz` file written by `save` knows its columns; naming some picks those.
    """
    paths = _expand([files] if isinstance(files, str | Path) else files)
    endings = sorted({path.suffix for path in paths})
    if len(endings) > 1:
        raise InputError(f"The files have different endings ({', '.join(endings)}): load one format at a time.")
    if endings == [".csv"]:
        return load_csv(paths, states=states, actions=actions, rewards=rewards, episode=episode)
    if endings == [".npz"]:
        for option, value in (("rewards", rewards), ("episode", episode)):
            if value is not None:
                raise InputError(f"{paths[0]} is a .npz file, which says itself what its {option} are: leave out {option}.")
        return load_npz(paths, states=states, actions=actions)
    raise InputError(f"{paths[0]} ends in '{endings[0]}': files that can be read end in .npz or .csv.")


def save(episodes: Episodes, path: str | Path) -> None:
    """Write the episodes to one `.npz` or `.csv` file, whole or not at all."""
    path = Path(path)
    writers = {".npz": save_npz, ".csv": save_csv}
    if path.suffix not in writers:
        raise InputError(f"{path} ends in '{path.suffix}': files that can be written end in .npz or .csv.")
    writers[path.suffix](episodes, path)


def _expand(names: Sequence[str | Path]) -> list[Path]:
    paths: list[Path] = []
    for name in map(str, names):
        found = [name] if Path(name).exists() else sorted(glob.glob(name, recursive=True))
        if not found:
            what = "No file matches the pattern" if glob.has_magic(name) else "There is no file"
            raise InputError(f"{what} {name}: check the name and the folder it is looked for in ({Path.cwd()}).")
        paths += map(Path, found)
    if not paths:
        raise InputError("No files were given: name at least one.")
    for path in paths:
        if path.is_dir():
            raise InputError(f"{path} is a folder: name the files in it, for example {path}/*.csv.")
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty: it holds no episode.")
    return paths
