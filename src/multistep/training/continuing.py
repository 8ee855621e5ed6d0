"""`Continuing`: go on from a saved model with other episodes, and keep it if that does not help."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from multistep.data import Episodes, usual_length
from multistep.dynamics import MemoryModel, Model, Saved
from multistep.errors import InputError
from multistep.runs.progress import progress_spinner
from multistep.runs.provenance import plain
from multistep.training.base import AbstractRecipe, Fit, Score
from multistep.training.history import Outcome, rankable
from multistep.training.judge import judge
from multistep.training.once import Once
from multistep.training.settings import Settings
from multistep.types import Key


@dataclass(frozen=True)
class Continuing(AbstractRecipe):
    """A fit that starts from the weights of a saved model and has its units; the judge compares both.

    ```python
    fit = ms.fit(train, valid, ms.Continuing("model.safetensors"), key=key)
    fit.chosen      # "after", or "before" if the model was better as it was
    ```
    What is not in the episodes is forgotten: give old ones together with the new ones.
    """

    path: str | Path
    """The `model.safetensors` to go on from."""
    recipe: AbstractRecipe = field(default_factory=Once)
    """How: what it learns is the saved model, whatever its network."""

    @property
    def settings(self) -> Settings:
        return self.recipe.settings

    @property
    def network(self) -> Saved:
        """What is learned."""
        return Saved(self.path)

    def vary(self, **changes: Any) -> "Continuing":
        return replace(self, recipe=self.recipe.vary(**changes))

    def most_steps(self, train: Episodes) -> int | None:
        return self._resumed(train, self.network.model.num_past).most_steps(train)

    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        """The better one of two by the judge; the parts are called before and after."""
        for episodes in (train, valid):
            self.network.suited_to(episodes)
        old = self.network.model
        train, valid = (_known_as(old, episodes) for episodes in (train, valid))
        recipe = self._resumed(train, old.num_past)
        after = recipe.fit(train, valid, key=key, score=score, checkpoint=checkpoint)
        if after.outcome is Outcome.INTERRUPTED:
            return after
        parts = {"before": Fit(old, (), Outcome.FINISHED), "after": after}
        with progress_spinner("judging both models"):
            judged = {name: rankable(judge(part.model, train, valid, score)) for name, part in parts.items()}
        helped = judged["after"] > judged["before"]
        kept = parts["after" if helped else "before"]
        scores = f"the judge gives it {_digits(judged['after'])}, and {self.path} {_digits(judged['before'])}"
        ended = " and diverged" if after.outcome is Outcome.DIVERGED else ""
        chosen = "the new model is kept" if helped else "it did not help, the old model is kept"
        note = f"Went on from {self.path} with {train.num_steps} steps{ended}: {scores}; {chosen}."
        return replace(
            kept,
            notes=(note, *after.notes),
            observer=after.observer if helped else None,
            parts=parts,
            chosen="after" if helped else "before",
            judged=judged,
        )

    def _resumed(self, train: Episodes, num_past: int) -> AbstractRecipe:
        """The recipe with the saved model as its network, its horizon one that the episodes have."""
        longest = max(1, usual_length(train) - num_past + 1)
        changes = {"horizon": longest} if self.settings.horizon > longest else {}
        resumed = self.recipe.vary(network=self.network, **changes)
        if getattr(resumed, "network", self.network) != self.network:
            raise InputError(
                f"{type(self.recipe).__name__} has no place for a saved model: go on from it with Once(...)."
            )
        return resumed


@plain.register
def _plain_continuing(continuing: Continuing) -> dict[str, Any]:
    """The model by its content, and how it goes on."""
    return {**plain(continuing.network), "recipe": plain(continuing.recipe)}


def _known_as(model: Model | MemoryModel, episodes: Episodes) -> Episodes:
    """The episodes with the names and the time step that the model knows of them."""
    return replace(
        episodes,
        state_names=model.state_names,
        action_names=model.action_names,
        time_step=model.time_step if episodes.time_step is None else episodes.time_step,
    )


def _digits(score: float) -> str:
    return f"{score:.4f}" if abs(score) < 1000 else "no finite score"
