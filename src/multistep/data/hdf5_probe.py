"""Run as a program of its own: reads an HDF5 file that may be from anybody, and says what is wrong with it.

Some damaged files keep the HDF5 library busy for ever, where no signal reaches it, and some crash it: that
must not happen to the process that does the work. Nothing of multistep is imported here, to start quickly.

Arguments: the file, the bytes that it may hold, then the arrays that will be read; none: all of them. What is
wrong is printed; nothing is printed where nothing is.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from math import prod
from typing import Any

import h5py
from h5py import h5o  # pyright: ignore[reportAttributeAccessIssue] - it has no stubs

CHUNK = 8 << 20  # bytes read at a time
MOST_LINKS = 10_000_000
SPARE = 1 << 30
"""Of memory, for the interpreter and the library; what a file asks for in its header comes on top."""


def main(path: str, most: int, names: list[str]) -> str:
    """What is wrong with the file, in the words of a sentence; empty: nothing."""
    with h5py.File(path, "r") as file:
        total = 0
        for place, dataset in _datasets(file):
            if names and place not in names:
                continue
            if dataset.external or dataset.is_virtual:
                return f"its array {place} stands in another file, which is not followed"
            if dataset.shape is None:
                return f"its array {place} is empty"
            if dataset.dtype.hasobject:  # text of any length: its memory is not known beforehand
                continue
            total += prod(dataset.shape) * dataset.dtype.itemsize
            if total > most:
                return f"its arrays would take {total / 1e6:.0f} MB, over 100 times what the file has"
            for rows in _rows(dataset) if dataset.chunks else ():  # one block of bytes cannot go wrong
                dataset[rows]
    return ""


def _datasets(file: Any) -> Iterator[tuple[str, Any]]:
    """All arrays with their places; a link to another file is refused wherever it is."""
    groups, seen = [("", file)], set()
    while groups:
        prefix, group = groups.pop()
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise ValueError(f"its link {prefix}{name} leads to another file, which is not followed")
            if isinstance(link, h5py.SoftLink) and group.get(name) is None:
                continue
            item = group[name]
            address = h5o.get_info(item.id).addr
            if isinstance(item, h5py.Dataset):
                yield f"{prefix}{name}", item
            elif isinstance(item, h5py.Group) and address not in seen:
                seen.add(address)
                groups.append((f"{prefix}{name}/", item))
            if len(seen) > MOST_LINKS:
                raise ValueError("it has too many groups")


def _rows(dataset: Any) -> Iterator[Any]:
    if not dataset.shape:
        yield ()
        return
    width = max(1, prod(dataset.shape[1:]) * dataset.dtype.itemsize)
    step = max(1, CHUNK // width)
    for start in range(0, dataset.shape[0], step):
        yield slice(start, start + step)


if __name__ == "__main__":
    with suppress(ImportError):  # Windows has no such limit
        import resource

        limit = int(sys.argv[2]) + SPARE
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        found = main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
    except Exception as error:
        found = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
    print(found)
