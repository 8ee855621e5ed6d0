"""`Automatic`: what `fit` does by itself. A line, a small network, a large one, again without the noise: a
judge chooses."""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from multistep.data import Episodes, pooled, spread, usual_length
from multistep.dynamics import (
    AbstractArchitecture,
    AbstractMemory,
    AbstractModel,
    CorrectedConfig,
    LineConfig,
    MemoryModel,
    Model,
    NetworkConfig,
    NoMemory,
    Observer,
)
from multistep.errors import InputError
from multistep.losses import AbstractWeights, Balanced
from multistep.runs.progress import progress_spinner
from multistep.runs.provenance import plain
from multistep.selection.budget import Budget, seconds_spent
from multistep.selection.calibrated import calibrate
from multistep.selection.folds import deal_folds
from multistep.selection.lags import ChosenMemory, choose_memory, describe, shortest
from multistep.selection.lengths import (
    CLEAN_MEMBER_STEPS,
    MEMBER_STEPS,
    REPEATS,
    first_steps,
    second_steps,
)
from multistep.selection.plant import fit_plant, is_small, num_folds
from multistep.selection.tried import NAMES, Tried, digits, rises
from multistep.training import (
    AbstractRecipe,
    Ensemble,
    Filtered,
    Fit,
    Growing,
    LeastSquares,
    Once,
    Outcome,
    QuasiNewton,
    Score,
    Settings,
    fit_observer,
    has_noise,
    smooth,
)
from multistep.training.checkpoint import fit_digest
from multistep.training.history import rankable
from multistep.training.quasi_newton import SMALL_NETWORK
from multistep.training.smoothing import CannotSmooth
from multistep.types import Key

SMALL = 20_000
"""Steps of training episodes up to which the small network is tried by second-order descent."""
LOOKED_AT = 10_000
"""Steps of validation episodes, spread over all, that each epoch is scored on; the judge in the end has
all."""
FEW = 3_000
"""Steps of episodes up to which each of them judges once."""
FOLDS = 4
MOST_MEMBERS = 5
STAGES = 4
"""Horizons of the longer fit, each twice the one before."""
SMALL_SHARE = 0.25
"""Of a budget in seconds for the small network."""
SHORT = 120
"""With fewer seconds than these the small network has one start."""
MEMORY_SHARE = 0.3
"""Of a budget for the choice of the memory."""
INTERRUPTED = "It was interrupted."
STILL_RISING = "The score of the longer fit was still rising at its end: a larger budget may help."
STEPS = ("linear", "small", "smoothing", "growing", "averaging", "cross_fitting", "refit", "calibration")
"""What can be left out by name, for a comparison."""


@dataclass(frozen=True)
class Automatic(AbstractRecipe):
    """The best model that these data allow, by a judge that noise does not mislead.

    It fits a line by least squares; a small network, if the data are few, by second-order descent over all of
    them; a large network that corrects the line, quickly; and the mean of a few of these, trained for longer
    with a horizon that grows, on the episodes without the noise that the first has found on them. The judge
    (`judge`) compares what each forecasts of the validation episodes from the state that its own observer
    believes in. Where episodes are few, every one of them judges once, and what is chosen is fitted to all.
    """

    horizon: int = 40
    """Steps ahead that the loss of the large network looks at in the end; fewer if episodes are shorter."""
    weights: AbstractWeights = field(default_factory=Balanced)
    """Weights of the steps ahead."""
    network: AbstractArchitecture = field(default_factory=CorrectedConfig)
    """The large network."""
    memory: AbstractMemory = field(default_factory=NoMemory)
    """What stands in for states that are not measured: Lags(k) or HiddenState(n)."""
    budget: str | None = None
    """Time or model steps to spend on training, about: 60s, 5min, 20M; none: until more is of no use."""
    without: tuple[str, ...] = ()
    """What is left out, by name: linear, small, smoothing, growing, averaging, cross_fitting, refit,
    calibration."""

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.without) - set(STEPS)):
            raise InputError(f"There is no step {unknown[0]} to leave out: name one of {', '.join(STEPS)}.")
        Settings(horizon=self.horizon, weights=self.weights)
        if self.budget is not None:
            Budget.parse(self.budget)

    @staticmethod
    def of(recipe: AbstractRecipe) -> "Automatic":
        """With the horizon and the weights of this recipe; the rest is chosen."""
        settings = recipe.settings
        if isinstance(recipe, Once) and recipe != Once(horizon=settings.horizon, weights=settings.weights):
            raise InputError(
                "The automatic recipe chooses network, length and step size of the training by itself: leave "
                "those options out, or take --recipe smoothed."
            )
        return Automatic(settings.horizon, settings.weights)

    @property
    def settings(self) -> Settings:
        return Settings(horizon=self.horizon, weights=self.weights)

    def vary(self, **changes: Any) -> "Automatic":
        # Horizon and weights are those of the large network, which a small one takes the place of.
        if not isinstance(self.memory, NoMemory) and "small" not in self.without:
            changes = {name: value for name, value in changes.items() if name not in ("horizon", "weights")}
        return replace(self, **changes)

    def most_steps(self, train: Episodes) -> int:
        budget = Budget.parse(self.budget)
        return first_steps(train, budget) + second_steps(train, budget, None)

    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        """The part that the judge prefers; the parts are called linear, small, first and second."""
        self.memory.check_sizes(train.state_size, train.action_size)
        if isinstance(self.memory, ChosenMemory):
            return self._with_chosen_memory(train, valid, key, score, checkpoint)
        has_memory = not isinstance(self.memory, NoMemory)
        if has_memory and "small" not in self.without and is_small(self.memory, train):
            return self._plant(train, valid, key, score)
        pool, started = pooled(train, valid), time.perf_counter()
        crossed = "cross_fitting" not in self.without and pool.num_steps <= FEW and len(pool) > 2
        try:
            tried = self._try(train, valid, key, score, None if checkpoint is None else Path(checkpoint))
        except _Interrupted as stopped:
            return replace(stopped.fit, outcome=Outcome.INTERRUPTED)
        try:
            if crossed and not tried.is_clear and self._can_repeat(train, time.perf_counter() - started):
                fitted = self._cross_fit(tried, pool, key, score)
            else:
                fitted = tried.fit(valid)
            return fitted if "calibration" in self.without else _calibrated(fitted, tried, train, valid, key)
        except (_Interrupted, KeyboardInterrupt):  # what a fold has is a fit to a part of the episodes
            return replace(tried.fit(valid, INTERRUPTED), outcome=Outcome.INTERRUPTED)

    def _plant(self, train: Episodes, valid: Episodes, key: Key, score: Score) -> Fit:
        """A line and a small network with the memory."""
        budget, calibrated = Budget.parse(self.budget), "calibration" not in self.without
        without = [step for step in self.without if step != "calibration"]
        fitted = fit_plant(self.memory, train, valid, key=key, score=score, budget=budget, without=without)
        if not calibrated or fitted.outcome in (Outcome.DIVERGED, Outcome.INTERRUPTED):
            return fitted
        # Where everything has judged in turn, the model is fitted to all of it: nothing is held out.
        crossed = "cross_fitting" not in without and num_folds(pooled(train, valid), self.memory.num_past)
        return replace(fitted, model=calibrate(fitted.model, train, None if crossed else valid, key=key))

    def _with_chosen_memory(
        self, train: Episodes, valid: Episodes, key: Key, score: Score, checkpoint: str | Path | None
    ) -> Fit:
        """The same recipe with the lags, and with the hidden state, that quick fits do best with: the better
        one, within the rest of the budget."""
        if not isinstance(self.memory, ChosenMemory) or "small" in self.without:
            raise InputError(
                "The memory is chosen by small networks: do not leave them out, or give the lags."
            )
        budget, begun = Budget.parse(self.budget), time.perf_counter()
        with progress_spinner("trying lags and hidden states"):
            memories, judged = choose_memory(
                train,
                valid,
                key=key,
                score=score,
                most=self.memory.most,
                budget=budget.share(MEMORY_SHARE),
                crossed="cross_fitting" not in self.without,
            )
        tried = ", ".join(f"{describe(each)} {digits(value)}" for each, value in judged.items())
        if not memories:
            memories = [NoMemory()]
        rest = budget.share(1 - MEMORY_SHARE if judged else 1.0)
        if budget.seconds is not None:
            rest = Budget(seconds=max(1.0, budget.seconds - (time.perf_counter() - begun)))
        left = None if self.budget is None else str(rest.share(1 / len(memories)))
        fits: dict[AbstractMemory, Fit] = {}
        for memory in memories:
            own = replace(self, memory=memory, budget=left)
            fits[memory] = own.fit(train, valid, key=key, score=score, checkpoint=checkpoint)
            if fits[memory].outcome is Outcome.INTERRUPTED:
                break
        scores = {memory: fit.judged.get(fit.chosen or "", -math.inf) for memory, fit in fits.items()}
        best = shortest(list(fits), scores, train.state_size)
        last = list(fits.values())[-1].outcome
        outcome = last if last is Outcome.INTERRUPTED else fits[best].outcome
        full = [f"{describe(memory)} {digits(value)}" for memory, value in scores.items()]
        note = f"Memory: {describe(best)}, of {tried} in quick fits"
        note += f"; {' and '.join(full)} in full." if len(full) > 1 else "."
        if not judged:
            note = "Memory: none; of so many outputs a network small enough for quick fits cannot be made."
        return replace(fits[best], outcome=outcome, notes=(*fits[best].notes, note))

    def _can_repeat(self, train: Episodes, seconds: float) -> bool:
        """Whether the budget has room for the same work once for each fold, and once more."""
        budget, times = Budget.parse(self.budget), FOLDS + 2
        if budget.model_steps:
            return times * self.most_steps(train) <= budget.model_steps
        return times * seconds <= (budget.seconds or math.inf)

    def _try(
        self,
        train: Episodes,
        valid: Episodes,
        key: Key,
        score: Score,
        checkpoint: Path | None = None,
        ways: Collection[str] = tuple(NAMES),
    ) -> "Tried":
        """Every one of these ways that the episodes allow, and the judge's scores."""
        parts: dict[str, Fit] = {}
        try:
            return self._try_into(parts, train, valid, key, score, checkpoint, ways)
        except KeyboardInterrupt:
            if not parts:
                raise
            raise _Interrupted(_best_so_far(parts)) from None

    def _try_into(
        self,
        parts: dict[str, Fit],
        train: Episodes,
        valid: Episodes,
        key: Key,
        score: Score,
        checkpoint: Path | None,
        ways: Collection[str],
    ) -> "Tried":
        notes: list[str] = []
        looked_at, begun = spread(valid, LOOKED_AT), time.perf_counter()

        def attempt(name: str, recipe: AbstractRecipe, episodes: Episodes, key: Key, score: Score) -> Fit:
            file = None if checkpoint is None else checkpoint.with_stem(f"{checkpoint.stem}_{name}")
            parts[name] = recipe.fit(episodes, looked_at, key=key, score=score, checkpoint=file)
            if parts[name].outcome is Outcome.INTERRUPTED:
                raise KeyboardInterrupt
            return parts[name]

        budget = Budget.parse(self.budget)
        if "linear" not in self.without and "linear" in ways:
            attempt("linear", LeastSquares(self.memory.around(LineConfig())), train, key, score)
        if "small" not in self.without and "small" in ways and train.num_steps <= SMALL:
            network = self.memory.around(SMALL_NETWORK)
            starts = 1 if (budget.seconds or math.inf) < SHORT else 3
            limit = None if budget.seconds is None else SMALL_SHARE * budget.seconds
            small = QuasiNewton(network, starts=starts, seconds=limit)
            attempt("small", small, train, jax.random.fold_in(key, 2), score)
        if not {"first", "second"} & set(ways):
            return self._judged(parts, score, valid, None, notes)
        quick = Growing(first_steps(train, budget), stages=1, batch_size=16, epoch_steps=420)
        first = attempt("first", self._once(train, quick), train, key, score)
        episodes, observer = train, None
        if first.outcome is not Outcome.DIVERGED and "smoothing" not in self.without:
            try:
                with progress_spinner("taking the noise out of the episodes"):
                    episodes, observer = _without_noise(first.model, train)
            except CannotSmooth as error:
                notes.append(str(error))
        judge = score if observer is None else Filtered.by(observer, score)
        is_clean = episodes is train
        spent = time.perf_counter() - begun
        if checkpoint is not None and budget.seconds is not None:
            fit = fit_digest(train, valid, self, score, key=key)
            spent = seconds_spent(spent, checkpoint.with_name(f"{checkpoint.stem}_spent.json"), fit)
        steps = second_steps(train, budget, first, is_clean, spent) if "second" in ways else 0
        if first.outcome is not Outcome.DIVERGED and steps:
            each = CLEAN_MEMBER_STEPS if is_clean else MEMBER_STEPS
            members = 1 if "averaging" in self.without else min(max(round(steps / each), 1), MOST_MEMBERS)
            longer = Growing(
                steps // members,
                stages=1 if "growing" in self.without else STAGES,
                repeats=REPEATS if is_clean and self.budget is None else 0,
            )
            several = Ensemble(self._once(train, longer), members)
            second = attempt("second", several, episodes, jax.random.fold_in(key, 1), judge)
            if self._is_cut_short(second, is_clean):
                notes.append(STILL_RISING)
        return self._judged(parts, judge, valid, observer, notes)

    def _is_cut_short(self, second: Fit, is_clean: bool) -> bool:
        """Whether the longer fit would have gone on but for its budget, or for the most that there is."""
        last = list(second.parts.values() or [second])[-1]
        return rises(last) if self.budget is not None else is_clean and last.outcome is Outcome.FINISHED

    def _judged(
        self,
        parts: Mapping[str, Fit],
        judge: Score,
        valid: Episodes,
        observer: Observer | None,
        notes: Sequence[str],
    ) -> "Tried":
        with progress_spinner("judging the models"):
            judged = {name: rankable(judge(part.model, valid)) for name, part in parts.items()}
        return Tried(parts, judged, judge, valid, observer, tuple(notes))

    def _once(self, train: Episodes, curriculum: Growing) -> Once:
        network = NetworkConfig() if "linear" in self.without else self.network
        network = self.memory.around(network)
        past = (
            network.suited_to(train).make(train.state_size, train.action_size, key=jax.random.key(0)).num_past
        )
        horizon = max(1, min(self.horizon, usual_length(train) - past + 1))
        return Once(horizon=horizon, weights=self.weights, network=network, curriculum=curriculum)

    def _cross_fit(self, tried: "Tried", pool: Episodes, key: Key, score: Score) -> Fit:
        """Each episode judges once; then the chosen way is gone again, with all of them."""
        folds = deal_folds(len(pool), min(FOLDS, len(pool)), valid_share=0.0, key=key)
        totals: dict[str, list[float]] = {name: [] for name in tried.parts}
        for fold in folds:
            own = self._try(pool.take(fold.train), pool.take(fold.test), key, score)
            for name in totals:
                totals[name].append(own.judged.get(name, -math.inf))
        judged = {name: float(np.mean(scores)) for name, scores in totals.items()}
        best = max(judged, key=lambda name: judged[name])
        crossed = replace(tried, judged=judged, crossed=True)
        if "refit" in self.without:
            return crossed.fit(pool)
        refitted = self._try(pool, pool, key, score, ways={best, "first"} if best == "second" else {best})
        if best not in refitted.parts:
            return crossed.fit(pool)
        chosen = replace(crossed, parts={**crossed.parts, best: refitted.parts[best]})
        return chosen.fit(pool, "Fitted again to all episodes, those of the validation too.")


@plain.register
def _plain_automatic(automatic: Automatic) -> dict[str, Any]:
    """Field by field; the memory only where there is one, so that rows from before there were any stay
    valid."""
    shown = {f.name: plain(getattr(automatic, f.name)) for f in fields(automatic)}
    if isinstance(automatic.memory, NoMemory):
        del shown["memory"]
    return shown


class _Interrupted(Exception):
    def __init__(self, fit: Fit):
        super().__init__()
        self.fit = fit


def _without_noise(model: Any, train: Episodes) -> tuple[Episodes, Observer | None]:
    """The episodes as the model's observer believes they were, if there is noise on them."""
    if not isinstance(model, AbstractModel):
        raise CannotSmooth("A model with memory makes its own of the noise in its past.")
    observer = fit_observer(model, train)
    return (smooth(observer, train) if has_noise(observer, train) else train), observer


def _calibrated(fitted: Fit, tried: Tried, train: Episodes, valid: Episodes, key: Key) -> Fit:
    """With what the model knows of how far it may be off.

    A model that was fitted again to all episodes has none left to find that with: it is off by what the same
    part was off by before.
    """
    before = tried.parts[fitted.chosen or tried.chosen]
    if before.outcome is Outcome.DIVERGED or not isinstance(before.model, Model | MemoryModel):
        return fitted
    with progress_spinner("finding how far forecasts may be off"):
        known = calibrate(before.model, train, valid, key=key)
    return replace(fitted, model=replace(fitted.model, uncertainty=known.uncertainty))


def _best_so_far(parts: Mapping[str, Fit]) -> Fit:
    best = max(parts, key=lambda name: parts[name].best_score)
    return replace(parts[best], parts=dict(parts), chosen=best, notes=(INTERRUPTED,))
