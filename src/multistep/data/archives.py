"""Arrays in NumPy's `.npz`, of which nothing is unpacked that is not asked for."""

import zipfile
from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy import ndarray

from multistep.data.doors import check_unpacked_size, damaged_files_are_said

ENDING = ".npy"
REMEDY = "write it again, without object arrays"


def read_archive(path: Path, names: Collection[str]) -> tuple[dict[str, ndarray], list[str]]:
    """Those of the named arrays that the file holds, and the names of all that are in it.

    Pickled objects inside the file are refused: reading data never executes code.
    """
    with damaged_files_are_said(path, ".npz", REMEDY):
        with zipfile.ZipFile(path) as archive:
            sizes = {info.filename.removesuffix(ENDING): info.file_size for info in archive.infolist()}
        wanted = [name for name in names if name in sizes]
        check_unpacked_size(path, path.stat().st_size, sum(sizes[name] for name in wanted))
        with np.load(path, allow_pickle=False) as loaded:
            found = {name: _array(name, loaded[name]) for name in wanted}
    return found, sorted(sizes)


def _array(name: str, member: object) -> ndarray:
    if not isinstance(member, ndarray):  # the bytes of a member that is no .npy
        raise ValueError(f"its member {name} is no array")
    return member
