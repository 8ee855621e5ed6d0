"""`MultiStepRegressor`: fit, predict, simulate and score with scikit-learn's habits, for its grids and
pipelines."""

import warnings
from numbers import Integral, Real
from typing import Any, Literal, no_type_check

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from multistep.data import Episodes, Past, Samples, in_pieces, split
from multistep.dynamics import AbstractDynamics, forecast
from multistep.errors import InputError
from multistep.evaluation import R2Bar, score, usual_horizon
from multistep.selection.automatic import Automatic
from multistep.selection.fit import VALIDATION_HORIZON, fit
from multistep.selection.lags import memory_of
from multistep.selection.recipes import RECIPES, num_past_of, with_memory
from multistep.training import AbstractRecipe, Once, Outcome
from multistep.types import Key

try:
    from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data
except ImportError as error:
    raise InputError(
        "MultiStepRegressor needs scikit-learn 1.6 or later: install multistep with the extra 'sklearn' "
        "(multistep[sklearn])."
    ) from error

PIECES = 8
"""That a single episode is cut into, to train and to validate."""
CHUNK = 512
"""Rows predicted side by side: the program does not depend on how many there are."""
FLOATS: Any = (np.float64, np.float32)


class MultiStepRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A dynamics model as a scikit-learn estimator: X in, the states one sample later out.

    A row of X is a sample: the number of its episode if `episode_feature` says so, the states, and in the
    last `n_inputs` columns the inputs that act from this sample to the next. The rows of an episode stand
    together, in the order of time. What is to be predicted is the next row: y is not needed.

    ```python
    model = MultiStepRegressor(n_inputs=1, episode_feature=True, lags=3, recipe="linear").fit(X)
    model.predict(X)                       # the states after each row
    model.simulate(X[:3, 1:-1], U)         # a free run from the first three samples
    GridSearchCV(model, {"lags": [1, 2, 4]}, cv=GroupKFold(3)).fit(X, groups=X[:, 0])
    ```

    **Arguments:**

    - `n_inputs`: columns at the end of X that are inputs.
    - `episode_feature`: whether the first column of X says which episode a row is of.
    - `lags`: samples that the model starts from; "auto": chosen, by the automatic recipe; none: 1, or 10 with
      `hidden`.
    - `hidden`: numbers of a hidden state that is learned with the model, the states of X among them.
    - `recipe`: how it is fitted: "automatic", "once", "smoothed", "linear", "small", "module:Name", or an
      object such as `ms.Once(horizon=20)`.
    - `budget`: what the automatic recipe may spend, as "60s" or "200k" model steps.
    - `score_horizon`: steps ahead over which `score`, and the judge in `fit`, average R2.
    - `validation_fraction`: share of the episodes that is held out in `fit` for the judge; a single episode
      is cut into eight for that.
    - `random_state`: an int gives the same model again; none: another one each time.

    After `fit`, `model_` is the model as `ms.save_model`, `ms.score` and `ms.ModelEnv` take it, `notes_` what
    was tried and chosen, `n_past_` the samples that the model starts from.
    """

    @no_type_check  # scikit-learn's habit: anything can be set, `fit` says what is wrong with it
    def __init__(
        self,
        *,
        n_inputs: int = 0,
        episode_feature: bool = False,
        lags: int | Literal["auto"] | None = None,
        hidden: int | None = None,
        recipe: str | AbstractRecipe = "automatic",
        budget: str | None = None,
        score_horizon: int = VALIDATION_HORIZON,
        validation_fraction: float = 0.2,
        random_state: Any = 0,
    ):
        self.n_inputs = n_inputs
        self.episode_feature = episode_feature
        self.lags = lags
        self.hidden = hidden
        self.recipe = recipe
        self.budget = budget
        self.score_horizon = score_horizon
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "MultiStepRegressor":
        """The estimator, fitted to the episodes in X; `y` is checked and not used: the next row is the
        target."""
        recipe = self._recipe()
        if y is None:
            X = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        else:
            X, _ = validate_data(
                self, X, y, dtype=FLOATS, ensure_min_samples=2, multi_output=True, y_numeric=True
            )
        episodes = self._episodes(X)
        memory_of(self.lags, self.hidden).check_sizes(episodes.state_size, episodes.action_size)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        split_key, fit_key = jax.random.split(jax.random.key(int(seed)))
        train, valid = self._dealt(episodes, num_past_of(recipe, episodes), key=split_key)
        found = fit(train, valid, recipe, key=fit_key, score=R2Bar(self.score_horizon))
        if found.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        if found.outcome is Outcome.DIVERGED:
            warnings.warn(
                "The training diverged: the model is that of the best epoch before.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.model_, self.notes_, self.n_past_ = found.model, found.notes, int(found.model.num_past)
        return self

    def predict(self, X: Any) -> Float[ndarray, "rows state"]:
        """The states one sample after each row, from it and the rows before it in its episode.

        Where a model with lags would need rows from before the first one, it is taken to have stood there
        before.
        """
        samples = self._samples(self._known(X))
        return _in_chunks(self.model_, samples, samples.pasts(self.n_past_))

    def simulate(self, X0: Any, U: Any) -> Float[ndarray, "rows state"]:
        """A free run: the states at every row of the inputs, from the first samples alone.

        **Arguments:**

        - `X0`: the states at the first `n_past_` samples, which the answer begins with.
        - `U`: the inputs at all samples, the first ones too; those of the last one act on nothing.
        """
        check_is_fitted(self)
        past, names = self.n_past_, self.model_.names
        states = check_array(X0, dtype=FLOATS, input_name="X0").astype(np.float64)
        inputs = check_array(U, dtype=FLOATS, ensure_min_features=0, input_name="U").astype(np.float64)
        for what, values, shape in (
            ("X0", states, (past, len(names.states))),
            ("U", inputs, (max(len(inputs), past + 1), len(names.actions))),
        ):
            if values.shape != shape:
                rows = f"{past} rows" if what == "X0" else f"more than {past} rows"
                raise InputError(
                    f"{what} has shape {values.shape}, but the model starts from {past} samples of "
                    f"{len(names.states)} states and has {len(names.actions)} inputs: give {what} {rows} of "
                    f"{shape[1]} columns."
                )
        given = Past(jnp.asarray(states, float), jnp.asarray(inputs[: past - 1], float))
        after = _free_run(self.model_, given, jnp.asarray(inputs[past - 1 : -1], float))
        return np.concatenate([states, np.asarray(after, np.float64)])

    def score(self, X: Any, y: Any = None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """R2bar(H): R2 of rollouts of h steps, with the inputs of X, from every row of every episode that has
        `n_past_` rows and h steps after it, averaged over the states and then over h = 1, ..., H.

        H is `score_horizon`, or fewer where episodes are too short or too few (`usual_horizon`). It is the
        mean of `ms.score(...).r2`; with `score_horizon=1` it is R2 of the one-step prediction. `y` is not
        used.
        """
        episodes = self._episodes(self._known(X))
        horizon = usual_horizon(episodes, self.score_horizon, self.n_past_)
        if horizon < 1:
            raise InputError(
                f"X has nothing to score: the model starts from {self.n_past_} samples, and the longest "
                f"episode has {episodes.lengths.max() + 1}: give longer episodes."
            )
        return score(self.model_, episodes, horizon=horizon).r2bar()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.target_tags.single_output = False
        return tags

    def _recipe(self) -> AbstractRecipe:
        """What the parameters ask for."""
        for name, least, others in (
            ("n_inputs", 0, ()),
            ("score_horizon", 1, ()),
            ("lags", 1, (None, "auto")),
            ("hidden", 1, (None,)),
        ):
            _check_count(name, getattr(self, name), least, others)
        share = self.validation_fraction
        if not isinstance(share, Real) or not 0 < float(share) < 1:
            raise InputError(f"The validation_fraction is {share!r}: give a share above 0 and below 1.")
        recipe = RECIPES.find(self.recipe, Once()) if isinstance(self.recipe, str) else self.recipe
        if not isinstance(recipe, AbstractRecipe):
            raise InputError(f"The recipe is {recipe!r}: give a name, or an object such as Once(...).")
        if self.budget is not None:
            if not isinstance(recipe, Automatic):
                raise InputError(
                    f"The budget {self.budget!r} belongs to the automatic recipe: leave one of the two out."
                )
            recipe = recipe.vary(budget=str(self.budget))
        return with_memory(recipe, memory_of(self.lags, self.hidden))

    def _known(self, X: Any) -> Float[ndarray, "rows column"]:
        """X after the fit, if it has the columns of then."""
        check_is_fitted(self)
        found: Any = validate_data(self, X, dtype=FLOATS, reset=False)
        return found

    def _samples(self, X: Float[ndarray, "rows column"]) -> Samples:
        return Samples.of(X, int(self.n_inputs), has_ids=bool(self.episode_feature))

    def _episodes(self, X: Float[ndarray, "rows column"]) -> Episodes:
        """X as episodes; the columns are called as in the table that it was."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        first, last = int(bool(self.episode_feature)), X.shape[1] - int(self.n_inputs)
        return self._samples(X).episodes(names[first:last], names[last:])

    def _dealt(self, episodes: Episodes, num_past: int, *, key: Key) -> tuple[Episodes, Episodes]:
        """Whole episodes to train and to validate; a single one is cut into pieces for that."""
        if len(episodes) == 1:
            episodes = in_pieces(episodes, PIECES, least_steps=num_past + 1)
        share = float(self.validation_fraction)
        train, valid = split(episodes, (1 - share, share), key=key)
        if usual_horizon(valid, 1, num_past) < 1:
            raise InputError(
                f"The longest episode held out for validation has {valid.lengths.max() + 1} rows, but the "
                f"model starts from {num_past} samples: give longer episodes, or fewer lags."
            )
        return train, valid


def _check_count(name: str, value: Any, least: int, others: tuple[Any, ...]) -> None:
    if isinstance(value, str | None) and value in others:
        return
    if not isinstance(value, Integral) or int(value) < least:
        given = "".join(f", or {other!r}" for other in others)
        raise InputError(f"The {name} is {value!r}: give a whole number, {least} or more{given}.")


def _in_chunks(
    model: AbstractDynamics, samples: Samples, rows: Int[ndarray, "rows past"]
) -> Float[ndarray, "rows state"]:
    """The states one step after the last of each of these rows."""
    found = []
    for start in range(0, len(rows), CHUNK):
        own = rows[start : start + CHUNK]
        own = np.concatenate([own, np.repeat(own[-1:], CHUNK - len(own), axis=0)])
        parts = samples.states[own], samples.inputs[own]
        found.append(
            np.asarray(_step_ahead(model, *(jnp.asarray(part, float) for part in parts)), np.float64)
        )
    return np.concatenate(found)[: len(rows)]


@eqx.filter_jit
def _step_ahead(
    model: AbstractDynamics, states: Float[Array, "rows past state"], inputs: Float[Array, "rows past input"]
) -> Float[Array, "rows state"]:
    return jax.vmap(lambda s, u: forecast(model, Past(s, u[:-1]), u[-1:]).mean[0])(states, inputs)


@eqx.filter_jit
def _free_run(
    model: AbstractDynamics, past: Past, inputs: Float[Array, "steps input"]
) -> Float[Array, "steps state"]:
    return forecast(model, past, inputs).mean
