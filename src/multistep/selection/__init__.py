"""Choosing a recipe from the data: folds of episodes, candidates, selection; and the default `fit`."""

from multistep.selection.search import Grid as Grid
from multistep.selection.search import Halving as Halving
