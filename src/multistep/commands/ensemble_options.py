"""Options of several fits that become one model."""

from dataclasses import dataclass, field, replace
from typing import Annotated

import tyro

from multistep.errors import InputError
from multistep.runs.process import available_cores
from multistep.runs.workers import Workers
from multistep.selection.automatic import Automatic
from multistep.training import AbstractRecipe, Ensemble


@dataclass(frozen=True)
class EnsembleOptions:
    """How often it is fitted, and where."""

    members: int = 1
    """Fit so many times with other random weights: an ensemble, one model that steps to the mean and knows
    where its members disagree."""
    bootstrap: bool = False
    """Fit each member to as many episodes drawn with replacement."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the members are fitted; with one worker they follow each other in this process."""

    def around(self, recipe: AbstractRecipe) -> AbstractRecipe:
        """The recipe of the ensemble; the recipe itself, where there is but one member."""
        if self.members == 1:
            if self.bootstrap or self.where != Workers():
                raise InputError(
                    "--bootstrap, --workers and --cluster are for ensembles: add --members 5, say."
                )
            return recipe
        if isinstance(recipe, Automatic):  # what is held out stays so: the ensemble is calibrated by it
            without = dict.fromkeys((*recipe.without, "cross_fitting", "calibration"))
            recipe = replace(recipe, without=tuple(without))
        beside = None if self.where == Workers(workers=1) else self.where
        return Ensemble(recipe, self.members, self.bootstrap, beside)

    def in_turn(self) -> int:
        """How many members follow each other."""
        here = self.where.workers or len(available_cores())
        return self.members if self.where.cluster is None and here == 1 else -(-self.members // here)
