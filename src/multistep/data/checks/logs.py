"""A log unlike the others: in its range, in its mean, or in what a linear model of the others says of it."""

import re
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from multistep.data.episodes import Episodes, unit_of

LEAST_LOGS = 4
FAR = 10.0
"""In units of how much the others differ among each other (1.48 times the median of the distances)."""
LEAST_MEAN, LEAST_RATIO = 0.5, 0.2
"""That unit is at least this: of means in deviations, of deviations and errors in logarithms."""
MOST_SHARE = 0.1
"""If more of the logs are far off, they are of many kinds, and none is odd."""
KEPT, ROUNDS = 0.75, 3
"""Of the logs, the share that the line is drawn through, and how often it is drawn to find out which."""
SMALLEST, RIDGE = 1e-9, 1e-6


class Odd(NamedTuple):
    """A log that is far off, and in what."""

    log: str
    what: str
    """In words."""

    @property
    def remark(self) -> str:
        return f"{self.log} is unlike the other logs: {self.what}: look at it, and repair it or leave it out."


class _Oddity(NamedTuple):
    score: float
    log: int
    what: str


def find_odd_logs(episodes: Episodes) -> list[Odd]:
    """The logs that lie far outside the others, each with what is oddest in it.

    A log is a file, or an episode where files are fewer than four.
    """
    names, labels = _logs(episodes)
    if len(names) < LEAST_LOGS:
        return []
    found = [
        oddity
        for kind, columns in (("state", episodes.state_names), ("action", episodes.action_names))
        for column in range(len(columns))
        for oddity in _odd_in_column(episodes, kind, column, labels)
    ]
    errors = _linear_errors(episodes, labels)
    usual = float(np.median(errors))
    by_error = [
        _Oddity(score, log, f"a linear model of the others is off by {errors[log] / usual:.3g} times as much")
        for score, log in _far(np.log(np.maximum(errors, SMALLEST)), LEAST_RATIO)
        if errors[log] > usual
    ]
    # What stands in the columns themselves explains more than an error: it comes last and is kept.
    worst = {oddity.log: oddity.what for oddity in [*by_error, *sorted(found)]}
    if len(worst) > max(1, MOST_SHARE * len(names)):
        return []
    return [Odd(names[log], what) for log, what in worst.items()]


def _logs(episodes: Episodes) -> tuple[list[str], Int[ndarray, " episodes"]]:
    """Their names, and to which of them each episode belongs."""
    origins = [episodes.origin(number) for number in range(len(episodes))]
    files = [re.split(", (?:episode|from row|from step) ", origin)[0] for origin in origins]
    names = list(dict.fromkeys(files))
    if len(names) < LEAST_LOGS:
        return origins, np.arange(len(origins))
    places = {name: place for place, name in enumerate(names)}
    return names, np.array([places[file] for file in files])


def _odd_in_column(
    episodes: Episodes, kind: str, column: int, labels: Int[ndarray, " episodes"]
) -> list[_Oddity]:
    """The logs whose mean or deviation of one column is far off; a smaller deviation only if it is none."""
    is_state = kind == "state"
    values = (episodes.states if is_state else episodes.actions)[:, column].astype(np.float64)
    name = (episodes.state_names if is_state else episodes.action_names)[column]
    each = np.repeat(labels, episodes.lengths + is_state)
    counts = np.bincount(each)
    means = np.bincount(each, values) / counts
    deviations = np.sqrt(np.bincount(each, (values - means[each]) ** 2) / counts)
    unit = float(np.median(deviations))
    turns = is_state and bool(episodes.turns) and episodes.turns[column] > 0
    if unit == 0:
        return []
    usual = float(np.median(means))
    of_mean = [
        _Oddity(score, log, f"the mean of {name} is {means[log]:.4g}, elsewhere about {usual:.4g}")
        for score, log in _far(means / unit, LEAST_MEAN)
        if not turns  # by an angle that turns and turns
    ]
    of_deviation = [
        _Oddity(score, log, f"{name} varies by {deviations[log]:.4g}, elsewhere by about {unit:.4g}")
        for score, log in _far(np.log(np.maximum(deviations / unit, SMALLEST)), LEAST_RATIO)
        if deviations[log] > unit or (is_state and deviations[log] < 1e-6 * unit)
    ]
    return of_mean + of_deviation


def _far(values: Float[ndarray, " logs"], least: float) -> list[tuple[float, int]]:
    """How far off the logs are that are far off, and which they are."""
    distances = np.abs(values - np.median(values))
    scores = distances / max(1.4826 * float(np.median(distances)), least)
    return [(float(scores[log]), log) for log in np.flatnonzero(scores > FAR).tolist()]


def _linear_errors(episodes: Episodes, labels: Int[ndarray, " episodes"]) -> Float[ndarray, " logs"]:
    """One-step error of each log by the line through most of them, in units of each state's usual change.

    Those that the line fits worst have no part in it, or it would be theirs.
    """
    inputs, changes = _steps(episodes)
    table, size = np.concatenate([inputs, changes], axis=1), inputs.shape[1]
    sums = np.zeros((labels.max() + 1, table.shape[1], table.shape[1]))
    for label, part in zip(labels, np.split(table, np.cumsum(episodes.lengths)[:-1]), strict=True):
        sums[label] += part.T @ part
    counts = np.bincount(labels, episodes.lengths)
    of_changes = np.einsum("loo->lo", sums[:, size:, size:]) / counts[:, None]
    usual = np.median(of_changes, axis=0)
    usual = np.where(usual > 0, usual, 1.0)
    kept, errors = np.ones(len(counts), bool), np.zeros(len(counts))
    for _ in range(ROUNDS):
        pool, steps = sums[kept].sum(axis=0), counts[kept].sum()
        weights = np.linalg.solve(pool[:size, :size] + RIDGE * steps * np.eye(size), pool[:size, size:])
        told = (weights * (2 * sums[:, :size, size:] - sums[:, :size, :size] @ weights)).sum(axis=1)
        errors = np.sqrt(np.maximum(of_changes - told / counts[:, None], 0) / usual).mean(axis=1)
        kept = errors <= np.quantile(errors, KEPT)
    return errors


def _steps(episodes: Episodes) -> tuple[Float[ndarray, "steps input"], Float[ndarray, "steps state"]]:
    """What a line sees of each step: state, action and a constant; and the change of the state in it."""
    last = episodes.state_offsets + episodes.lengths
    before, after = (np.delete(episodes.states, ends, axis=0) for ends in (last, episodes.state_offsets))
    before, changes = before.astype(np.float64), after.astype(np.float64) - before
    turns = np.array(episodes.turns or (0.0,) * episodes.state_size)
    radians = 2 * np.pi * before[:, turns > 0] / turns[turns > 0]
    seen = [before[:, turns == 0], np.sin(radians), np.cos(radians), episodes.actions]
    inputs = np.concatenate(seen, axis=1, dtype=np.float64)
    inputs = (inputs - inputs.mean(axis=0)) / unit_of(inputs)
    return np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1), changes
