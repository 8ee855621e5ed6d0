"""`select`: the candidate that predicts held-out episodes best, by cross-validation; `refit`: train it on all
episodes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np

from multistep.data import Episodes, episodes_digest
from multistep.errors import InputError
from multistep.evaluation import R2Bar, usual_horizon
from multistep.runs.provenance import digest
from multistep.runs.row_log import Row, RowLog
from multistep.runs.sweep import FAILED, sweep
from multistep.runs.workers import connect
from multistep.selection.fit import VALIDATION_HORIZON, fit
from multistep.selection.fit_job import FitJob
from multistep.selection.folds import Fold, deal_folds
from multistep.selection.ranked import Ranked, ranked_of
from multistep.selection.recipes import num_past_of
from multistep.selection.search import AbstractSearch, Grid
from multistep.training import AbstractRecipe, Fit

if TYPE_CHECKING:
    from distributed import Client

ROWS = "fits.jsonl"


@dataclass(frozen=True)
class Selection:
    """What a selection found: the rule is the highest mean of R2bar over the folds, the first of equals."""

    ranking: tuple[Ranked, ...]
    """Candidates trained in full, the best first."""
    horizon: int
    """Steps ahead that R2bar averages over."""
    num_candidates: int
    seconds: float
    """Time that all fits took, those of candidates dropped on the way included."""

    @property
    def best(self) -> Ranked:
        return self.ranking[0]

    @property
    def as_good(self) -> tuple[Ranked, ...]:
        """Candidates whose mean is within the best one's standard deviation of it, which is among them."""
        return tuple(ranked for ranked in self.ranking if ranked.mean >= self.best.mean - self.best.deviation)


def select(
    episodes: Episodes,
    candidates: Sequence[AbstractRecipe],
    *,
    seed: int,
    out: str | Path,
    num_folds: int = 3,
    horizon: int = 100,
    search: AbstractSearch = Grid(),  # noqa: B008 - frozen
    cluster: str | None = None,
    num_workers: int | None = None,
    retry_failed: bool = False,
) -> Selection:
    """Rank the candidates by R2bar(horizon) on held-out episodes, averaged over folds of whole episodes.

    ```python
    candidates = ms.grid(ms.DEFAULT, horizons=(1, 4, 10), betas=(0.5, 1.0))
    selection = ms.select(episodes, candidates, seed=0, out="runs/select")
    selection.best.config, selection.best.mean, selection.best.deviation
    fit = ms.refit(episodes, selection.best.config, seed=0)
    ```
    As this starts processes, a script must call it under `if __name__ == "__main__":`.

    **Arguments:**

    - `episodes`: dealt into folds, which are the same for all candidates.
    - `candidates`: recipes; `grid` makes a list of them.
    - `seed`: of folds and trainings.
    - `out`: folder of `fits.jsonl`, a row for each fit; the same call goes on where a killed one stopped.
    - `num_folds`: each episode is held out once.
    - `horizon`: steps ahead that are scored, fewer if the held-out episodes are too short or too few.
    - `search`: `Grid()` for all, `Halving()` for short trainings of all and full ones of the best.
    - `cluster`: address or scheduler file of a Dask cluster; without it all cores of this machine.
    - `num_workers`: processes on this machine.
    - `retry_failed`: run fits again that failed in an earlier call.
    """
    folds, horizon = deal_to(candidates, episodes, seed=seed, num_folds=num_folds, horizon=horizon)
    log = RowLog(Path(out) / ROWS)
    spent: dict[str, float] = {}
    with log.writing(), connect(cluster, num_workers=num_workers) as client:

        def evaluate(configs: Sequence[AbstractRecipe]) -> list[Ranked]:
            found = _evaluate(episodes, configs, folds, seed, horizon, log, client, retry_failed=retry_failed)
            spent.update({row["job"]: row["seconds"] for rows in found for row in rows})
            return [ranked_of(config, rows) for config, rows in zip(configs, found, strict=True)]

        ranking = search(candidates, evaluate)
    ranking = sorted(ranking, key=lambda ranked: -ranked.mean)
    if not ranking or not math.isfinite(ranking[0].mean):
        problem = ranking[0].problem if ranking else None
        raise InputError(
            "No candidate has a finite score on all folds: "
            f"{problem or 'see fits.jsonl for what became of them'}."
        )
    return Selection(tuple(ranking), horizon, len(candidates), sum(spent.values()))


def deal_to(
    candidates: Sequence[AbstractRecipe], episodes: Episodes, *, seed: int, num_folds: int, horizon: int
) -> tuple[list[Fold], int]:
    """The folds, and how far ahead all candidates can be scored on them; an `InputError` if they cannot.

    The arguments are those of `select`.
    """
    if not candidates:
        raise InputError(
            "There are no candidates to select from: give at least one horizon and one beta or weights."
        )
    if horizon < 1:
        raise InputError(f"R2bar({horizon}) was asked for: choose a horizon of 1 or more.")
    folds = deal_folds(len(episodes), num_folds, key=jax.random.key(seed))
    past = max(num_past_of(recipe, episodes) for recipe in candidates)
    horizon = min(usual_horizon(episodes.take(fold.test), horizon, past) for fold in folds)
    if horizon < 1:
        raise InputError(
            f"A candidate starts from {past} samples, and the test episodes of a fold have nothing to score "
            f"after them (the longest of all has {episodes.lengths.max() + 1}): ask for fewer lags, or give "
            "longer episodes."
            if past > 1
            else "A fold has but one test episode of one step, which has no variance: give more or longer "
            "episodes."
        )
    return folds, horizon


def refit(
    episodes: Episodes,
    recipe: AbstractRecipe,
    *,
    seed: int,
    horizon: int = 100,
    checkpoint: str | Path | None = None,
) -> Fit:
    """A fit to all episodes. Nothing is held out: a tenth of them, trained on too, chooses the epoch as in
    the folds.

    **Arguments:**

    - `episodes`: all that there are.
    - `recipe`: most often `selection.best.config`.
    - `seed`: of the training and of that tenth.
    - `horizon`: steps ahead that matter; the epoch is chosen over as many, but 50 at most.
    - `checkpoint`: a file to go on from after a kill.
    """
    order = np.asarray(jax.random.permutation(jax.random.key(seed), len(episodes)))
    valid = episodes.take(order[: max(1, round(0.1 * len(episodes)))])
    validation = R2Bar(min(VALIDATION_HORIZON, horizon))
    return fit(episodes, valid, recipe, key=jax.random.key(seed), score=validation, checkpoint=checkpoint)


def _evaluate(
    episodes: Episodes,
    configs: Sequence[AbstractRecipe],
    folds: Sequence[Fold],
    seed: int,
    horizon: int,
    log: RowLog,
    client: "Client",
    *,
    retry_failed: bool,
) -> list[list[Row]]:
    """The rows of each configuration, one per fold."""
    data = episodes_digest(episodes)
    jobs = [FitJob(data, config, fold, seed, horizon) for config in configs for fold in folds]
    if retry_failed:
        log.forget(FAILED, {digest(job) for job in jobs})
    rows = sweep(jobs, {data: episodes}, log, client)
    return [rows[start : start + len(folds)] for start in range(0, len(rows), len(folds))]
