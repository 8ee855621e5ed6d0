"""`Automatic`: what `fit` does by itself. A line, a small network, a large one, again without the noise: a
judge chooses."""

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.data import Episodes, join, usual_length
from multistep.dynamics import (
    AbstractArchitecture,
    AbstractMemory,
    AbstractModel,
    CorrectedConfig,
    LineConfig,
    NetworkConfig,
    NoMemory,
    Observer,
)
from multistep.errors import InputError
from multistep.evaluation import R2Bar, mean_interval, unexplained, usual_horizon
from multistep.losses import AbstractWeights, Balanced
from multistep.runs.progress import progress_spinner
from multistep.runs.provenance import plain
from multistep.selection.folds import deal_folds
from multistep.selection.lags import ChosenMemory, choose_memory, describe
from multistep.training import (
    AbstractRecipe,
    Averaging,
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
from multistep.training.quasi_newton import SMALL_NETWORK
from multistep.training.smoothing import CannotSmooth
from multistep.types import Key

FIRST_STEPS = 1_600_000
"""Model steps of the first fit of the large network, where no budget says otherwise."""
MEMBERS, MEMBER_STEPS = 3, 5_300_000
"""Networks of the longer fit to noisy episodes, and model steps of each: with more they learn the noise, and
another network is worth more."""
CLEAN_MEMBERS, CLEAN_MEMBER_STEPS = 2, 12_000_000
"""The same where there is no noise to learn."""
PASSES = 1000
"""No fit takes more model steps than so many for each step of the training episodes."""
SMALL = 20_000
"""Steps of training episodes up to which the small network is tried by second-order descent."""
FEW = 3_000
"""Steps of episodes up to which each of them judges once."""
FOLDS = 4
LENIENCE = 0.3
"""Of what the best model leaves unexplained, so much more is about as good, if the judge is not sure."""
MOST_MEMBERS = 5
STAGES = 4
"""Horizons of the longer fit, each twice the one before."""
STEPS_PER_SECOND = 100_000
"""Model steps that any machine takes: for the first fit of a budget in seconds, before there is a
measurement."""
SHORT = 120
"""With fewer seconds than these the small network has one start."""
OVERHEAD = 0.2
"""Share of a budget in seconds for compilation, smoothing and judging."""
STEPS = ("linear", "small", "smoothing", "growing", "averaging", "cross_fitting", "refit")
"""What can be left out by name, for a comparison."""
NAMES = {
    "linear": "a linear model",
    "small": "a small network",
    "first": "a large network",
    "second": "large networks, trained for longer",
}


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
    """What is left out, by name: linear, small, smoothing, growing, averaging, cross_fitting, refit."""

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
        return replace(self, **changes)

    def most_steps(self, train: Episodes) -> int:
        budget = Budget.parse(self.budget)
        return self._first_steps(train, budget) + self._second_steps(train, budget, None)

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
        if isinstance(self.memory, ChosenMemory):
            return self._with_chosen_memory(self.memory.most, train, valid, key, score, checkpoint)
        pool, started = join(train, valid), time.perf_counter()
        crossed = "cross_fitting" not in self.without and pool.num_steps <= FEW and len(pool) > 2
        try:
            tried = self._try(train, valid, key, score, None if checkpoint is None else Path(checkpoint))
            needed = (time.perf_counter() - started) * (FOLDS + 2)
            if not crossed or tried.is_clear or needed > (Budget.parse(self.budget).seconds or math.inf):
                return tried.fit(valid)
            return self._cross_fit(tried, pool, key, score)
        except _Interrupted as stopped:
            return replace(stopped.fit, outcome=Outcome.INTERRUPTED)

    def _with_chosen_memory(
        self,
        most: int | None,
        train: Episodes,
        valid: Episodes,
        key: Key,
        score: Score,
        checkpoint: str | Path | None,
    ) -> Fit:
        """The fit with the memory that quick fits did best with."""
        with progress_spinner("trying lags and hidden states"):
            memory, judged = choose_memory(train, valid, key=key, score=score, most=most)
        tried = ", ".join(f"{describe(each)} {_digits(value)}" for each, value in judged.items())
        own = replace(self, memory=memory)
        fit = own.fit(train, valid, key=key, score=score, checkpoint=checkpoint)
        return replace(fit, notes=(f"Memory: {describe(memory)}, of {tried} in quick fits.", *fit.notes))

    def _try(
        self, train: Episodes, valid: Episodes, key: Key, score: Score, checkpoint: Path | None
    ) -> "_Tried":
        """Every way that these episodes allow, and the judge's scores."""
        parts: dict[str, Fit] = {}
        try:
            return self._try_into(parts, train, valid, key, score, checkpoint)
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
    ) -> "_Tried":
        notes: list[str] = []

        def attempt(name: str, recipe: AbstractRecipe, episodes: Episodes, key: Key, score: Score) -> Fit:
            file = None if checkpoint is None else checkpoint.with_stem(f"{checkpoint.stem}_{name}")
            parts[name] = recipe.fit(episodes, valid, key=key, score=score, checkpoint=file)
            if parts[name].outcome is Outcome.INTERRUPTED:
                raise KeyboardInterrupt
            return parts[name]

        budget = Budget.parse(self.budget)
        if "linear" not in self.without:
            attempt("linear", LeastSquares(self.memory.around(LineConfig())), train, key, score)
        if "small" not in self.without and train.num_steps <= SMALL:
            network = self.memory.around(SMALL_NETWORK)
            small = QuasiNewton(network, starts=1 if (budget.seconds or math.inf) < SHORT else 3)
            attempt("small", small, train, jax.random.fold_in(key, 2), score)
        quick = Growing(self._first_steps(train, budget), stages=1, batch_size=16, epoch_steps=420)
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
        steps = self._second_steps(train, budget, first, is_clean)
        if first.outcome is not Outcome.DIVERGED and steps:
            each = CLEAN_MEMBER_STEPS if is_clean else MEMBER_STEPS
            members = 1 if "averaging" in self.without else min(max(round(steps / each), 1), MOST_MEMBERS)
            longer = Growing(steps // members, stages=1 if "growing" in self.without else STAGES)
            several = Averaging(self._once(train, longer), members)
            attempt("second", several, episodes, jax.random.fold_in(key, 1), judge)
        with progress_spinner("judging the models"):
            judged = {name: _number(judge(part.model, valid)) for name, part in parts.items()}
        return _Tried(parts, judged, judge, valid, observer, tuple(notes))

    def _once(self, train: Episodes, curriculum: Growing) -> Once:
        network = NetworkConfig() if "linear" in self.without else self.network
        network = self.memory.around(network)
        past = (
            network.suited_to(train).make(train.state_size, train.action_size, key=jax.random.key(0)).num_past
        )
        horizon = max(1, min(self.horizon, usual_length(train) - past + 1))
        return Once(horizon=horizon, weights=self.weights, network=network, curriculum=curriculum)

    def _first_steps(self, train: Episodes, budget: "Budget") -> int:
        most = budget.model_steps or (budget.seconds or math.inf) * STEPS_PER_SECOND
        return int(min(FIRST_STEPS, PASSES * train.num_steps / 4, 0.4 * most))

    def _second_steps(
        self, train: Episodes, budget: "Budget", rough: Fit | None, is_clean: bool = False
    ) -> int:
        """What is left of the budget, by the speed of the first fit if it is one of time."""
        first = self._first_steps(train, budget)
        if budget.model_steps:
            return budget.model_steps - first
        if budget.seconds is None:
            noisy, clean = MEMBERS * MEMBER_STEPS, CLEAN_MEMBERS * CLEAN_MEMBER_STEPS
            return min(clean if is_clean else noisy, PASSES * train.num_steps)
        if rough is None:
            return int((1 - OVERHEAD) * budget.seconds * STEPS_PER_SECOND) - first
        spent = sum(epoch.seconds for epoch in rough.history)
        usual = float(np.median([epoch.seconds for epoch in rough.history])) * len(rough.history)
        left = (1 - OVERHEAD) * budget.seconds - spent
        return max(0, int(left * first / usual))

    def _cross_fit(self, tried: "_Tried", pool: Episodes, key: Key, score: Score) -> Fit:
        """Each episode judges once; then the chosen way is gone again, with all of them."""
        folds = deal_folds(len(pool), min(FOLDS, len(pool)), valid_share=0.0, key=key)
        totals: dict[str, list[float]] = {name: [] for name in tried.parts}
        for fold in folds:
            own = self._try(pool.take(fold.train), pool.take(fold.test), key, score, None)
            for name in totals:
                totals[name].append(own.judged.get(name, -math.inf))
        judged = {name: float(np.mean(scores)) for name, scores in totals.items()}
        best = max(judged, key=lambda name: judged[name])
        crossed = replace(tried, judged=judged, crossed=True)
        if "refit" in self.without:
            return crossed.fit(pool)
        refitted = self._try(pool, pool, key, score, None)
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


class Budget(NamedTuple):
    """Of one kind or the other; of neither, there is no limit."""

    seconds: float | None = None
    model_steps: int | None = None

    @staticmethod
    def parse(text: str | None) -> "Budget":
        """As typed: 60s, 5min, 1h, 500k or 20M (model steps)."""
        if text is None:
            return Budget()
        found = re.fullmatch(r"\s*(\d+\.?\d*)\s*(s|min|h|k|M)\s*", text)
        if found is None or float(found[1]) <= 0:
            raise InputError(
                f"The budget is {text}: write a time, as in 60s, 5min or 1h, or a number of model steps, as "
                "in 500k or 20M."
            )
        number, unit = float(found[1]), found[2]
        if unit in ("k", "M"):
            return Budget(model_steps=int(number * {"k": 1e3, "M": 1e6}[unit]))
        return Budget(seconds=number * {"s": 1, "min": 60, "h": 3600}[unit])


class _Interrupted(Exception):
    def __init__(self, fit: Fit):
        super().__init__()
        self.fit = fit


@dataclass(frozen=True)
class _Tried:
    """The fits, and what the judge says of them."""

    parts: Mapping[str, Fit]
    judged: Mapping[str, float]
    judge: Score
    valid: Episodes
    observer: Observer | None
    notes: tuple[str, ...]
    crossed: bool = False
    """Whether every episode has judged."""

    @property
    def ranking(self) -> list[str]:
        """The best first."""
        return sorted(self.parts, key=lambda name: self.judged[name], reverse=True)

    @property
    def chosen(self) -> str:
        """The one with the highest score, or one that was trained longer and about as good.

        A few validation episodes are a weak judge, and the model that has learned more is the better one
        more often than not: it is kept unless it is worse by more than a standard error.
        """
        best = self.ranking[0]
        longest_first = [name for name in reversed(NAMES) if name in self.parts]
        return next(name for name in longest_first if name == best or self._is_as_good(name, best))

    def _is_as_good(self, name: str, best: str) -> bool:
        left, least = 1 - self.judged[name], 1 - self.judged[best]
        if self.crossed or not left <= (1 + LENIENCE) * least:
            return False
        found = self.gains(best, name)
        # One of so few episodes may be odd: what its difference is worth is their spread.
        return found is not None and bool(found.sum() <= math.sqrt(len(found)) * found.std(ddof=1))

    def gains(self, name: str, other: str) -> Float[ndarray, " episodes"] | None:
        """What each validation episode adds to the lead in R2bar of one over the other; none if there is but
        one."""
        score, views = self.judge, [self.parts[part].model for part in (name, other)]
        if isinstance(score, Filtered):
            views, score = [score.view(model, self.valid) for model in views], score.score
        past = views[0].num_past
        if not isinstance(score, R2Bar) or len(self.valid) < 2 or views[1].num_past != past:
            return None
        horizon = usual_horizon(self.valid, score.horizon, past)
        of_each = [unexplained(model, self.valid, horizon=horizon) for model in views]
        return None if not np.isfinite(of_each).all() else of_each[1] - of_each[0]

    @property
    def is_clear(self) -> bool:
        """Whether the best is ahead of the next whatever episodes there might have been."""
        if len(self.parts) < 2:
            return True
        found = self.gains(*self.ranking[:2])
        return found is not None and bool(mean_interval(found)[0] > 0)

    def fit(self, judges: Episodes, *more: str) -> Fit:
        """The best part, and why."""
        best = self.chosen
        chosen = self.parts[best]
        scores = ", ".join(f"{NAMES[name]} {_digits(self.judged[name])}" for name in self.ranking[::-1])
        tried = f"Tried, with the judge's score on {_episodes(len(judges))}: {scores}."
        why = f"Chosen: {NAMES[best]}, {self._why(best)}"
        last = list(chosen.parts.values() or [chosen])[-1]
        horizons = list(dict.fromkeys(epoch.horizon for epoch in last.history))
        members = f"The mean of {len(chosen.parts)}, each trained" if chosen.parts else "Trained"
        trained = f"{members} with a horizon of {', '.join(map(str, horizons))}"
        trained += " steps" + (", its score still rising: a larger budget may help" if _rises(last) else "")
        return replace(
            chosen,
            notes=(tried, f"{why}.", f"{trained}.", *self.notes, *more),
            observer=self.observer,
            parts=dict(self.parts),
            chosen=best,
            judged=dict(self.judged),
        )

    def _why(self, best: str) -> str:
        others = [name for name in self.ranking if name != best]
        if not others:
            return "the only one"
        lead = self.judged[best] - self.judged[others[0]]
        gains = None if self.crossed else self.gains(best, others[0])
        interval = ""
        if gains is not None:
            low, high = (len(gains) * end for end in mean_interval(gains))
            interval = f" (95 % interval {low:+.3f} to {high:+.3f})"
        if lead < 0:
            return f"about as good as {NAMES[others[0]]}{interval} and trained for longer"
        return f"ahead of {NAMES[others[0]]} by {_digits(lead)}{interval}"


def _without_noise(model: Any, train: Episodes) -> tuple[Episodes, Observer | None]:
    """The episodes as the model's observer believes they were, if there is noise on them."""
    if not isinstance(model, AbstractModel):
        raise CannotSmooth("A model with memory makes its own of the noise in its past.")
    observer = fit_observer(model, train)
    return (smooth(observer, train) if has_noise(observer, train) else train), observer


def _rises(fit: Fit) -> bool:
    """Whether the last quarter of the epochs took away more than a tenth of what was left unexplained."""
    scores = [epoch.score for epoch in fit.history]
    before = scores[: -max(1, len(scores) // 4)]
    if len(scores) < 4 or not math.isfinite(max(before)):
        return False
    return 1 - max(scores) < 0.9 * (1 - max(before))


def _best_so_far(parts: Mapping[str, Fit]) -> Fit:
    def score_of(fit: Fit) -> float:
        return -math.inf if fit.best_epoch is None else fit.best_epoch.score

    best = max(parts, key=lambda name: score_of(parts[name]))
    return replace(parts[best], parts=dict(parts), chosen=best, notes=("It was interrupted.",))


def _number(score: float) -> float:
    return -math.inf if math.isnan(score) else float(score)


def _digits(score: float) -> str:
    return f"{score:.3f}" if abs(score) < 1000 else "diverges"


def _episodes(number: int) -> str:
    return "one episode" if number == 1 else f"{number} episodes"
