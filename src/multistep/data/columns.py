"""Which columns of a table are what: `x`, a new name for a column, or one name for columns side by side."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from multistep.errors import InputError

UNIT = re.compile(r"\s*(.*?\S)\s*[\[(]([^\[\]()]*)[\])]\s*")
"""A name and a unit in brackets behind it."""
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "min": 60.0, "h": 3600.0}
"""Of one unit of time, as headers have it; seconds where there is another or none."""
Missing = Literal["refuse", "cut"]
Order = Literal["name", "given"]


@dataclass(frozen=True)
class Columns:
    """How to read a table (.csv, .parquet)."""

    states: tuple[str, ...] = ()
    """Columns that make the state. NAME=COLUMN renames one; NAME=FIRST,SECOND reads experiments that stand
    side by side."""
    actions: tuple[str, ...] = ()
    """Columns that make the action, written like the states."""
    rewards: str | None = None
    """Column of the rewards, if there is one."""
    episode: str | None = None
    """Column that tells the episodes of a file apart (default: one episode per file)."""
    time: str | None = None
    """Column of the time, in seconds if its header gives no other unit, as in 't [ms]': it must increase, and
    where a sample is missing a new episode starts."""
    angles: tuple[str, ...] = ()
    """States that are angles, wrapped or not: NAME in radians, NAME:deg in degrees."""
    missing: Missing = "refuse"
    """What to do with values that are empty, NaN or infinite: refuse the data, or cut the episode there, in
    any format."""
    order: Order = "name"
    """Files are taken sorted by their names, so that the same files give the same model however they are
    named, or in the order given."""


@dataclass(frozen=True)
class Experiment:
    """The columns of one of the experiments that stand side by side in a table; mostly there is one."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    rewards: str | None
    own: tuple[str, ...]
    """Those of its columns that are not shared with the other experiments: where they are empty, it has
    ended."""


def with_units(columns: Columns, available: Sequence[str]) -> tuple[Columns, dict[str, str]]:
    """The columns as the table has them, where its header gives units in brackets, as in `theta [rad]`, and
    the user does not; and the units by the user's names."""
    found = {name: UNIT.fullmatch(name) for name in available}
    bare = [match[1] for match in found.values() if match]
    times = Counter(bare)
    full = {match[1]: name for name, match in found.items() if match and times[match[1]] == 1}
    units: dict[str, str] = {}

    def resolved(word: str) -> str:
        name, equals, parts = word.partition("=")
        asked = parts.split(",") if equals else [name]
        there = [full.get(part.strip(), part) if part.strip() not in available else part for part in asked]
        if match := found.get(there[0].strip()):
            units[name.strip()] = match[2]
        return word if there == asked else f"{name}={','.join(there)}"

    def column(name: str | None) -> str | None:
        return full.get(name, name) if name is not None and name not in available else name

    return replace(
        columns,
        states=tuple(map(resolved, columns.states)),
        actions=tuple(map(resolved, columns.actions)),
        rewards=None if columns.rewards is None else resolved(columns.rewards),
        episode=column(columns.episode),
        time=column(columns.time),
    ), units


def seconds_in(header: str) -> float:
    """How many seconds one is in this column of times."""
    match = UNIT.fullmatch(header)
    return SECONDS.get(match[2].strip(), 1.0) if match else 1.0


def amid(source: str) -> str:
    """What messages call a file or a frame, in the midst of a sentence."""
    return source.replace("The frame", "the frame")


def experiments(
    source: str, columns: Columns, available: Sequence[str]
) -> tuple[list[Experiment], tuple[str, ...], tuple[str, ...]]:
    """The experiments in a table with these columns, and the names of states and actions."""
    for option, words in (("states", columns.states), ("actions", columns.actions)):
        if not words:
            raise InputError(
                f"Say which columns of {amid(source)} are the {option} (--{option} on the command line); it "
                f"has {', '.join(available)}."
            )
    rewards = [columns.rewards] if columns.rewards else []
    parsed = [_parse(source, word, available) for word in (*columns.states, *columns.actions, *rewards)]
    counts = {len(found) for _, found in parsed} - {1}
    if len(counts) > 1:
        raise InputError(
            f"The columns named for {amid(source)} stand for {' and '.join(map(str, sorted(counts)))} "
            "experiments side by side: give each name one column or as many as there are experiments."
        )
    names = [name for name, _ in parsed]
    used = [column for _, found in parsed for column in found]
    for words in (names, used):
        twice = sorted({word for word in words if words.count(word) > 1})
        if twice:
            raise InputError(
                f"{', '.join(twice)} is named more than once among states, actions and rewards: name it once."
            )
    first_action = len(columns.states)
    first_reward = first_action + len(columns.actions)
    side_by_side = []
    for number in range(max(counts, default=1)):
        chosen = [found[min(number, len(found) - 1)] for _, found in parsed]
        side_by_side.append(
            Experiment(
                states=tuple(chosen[:first_action]),
                actions=tuple(chosen[first_action:first_reward]),
                rewards=chosen[-1] if rewards else None,
                own=tuple(found[number] for _, found in parsed if len(found) > 1) or tuple(chosen),
            )
        )
    return side_by_side, tuple(names[:first_action]), tuple(names[first_action:first_reward])


def _parse(source: str, word: str, available: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Name and columns of one word; a column whose own name has the signs of this notation is taken as it
    is."""
    if word in available:
        return word, (word,)
    name, is_mapping, listed = word.partition("=")
    columns = tuple(column.strip() for column in listed.split(",")) if is_mapping else (word,)
    absent = [column for column in columns if column not in available]
    if absent:
        raise InputError(f"{source} has no column {', '.join(absent)}; it has {', '.join(available)}.")
    return name.strip(), columns
