"""Choosing a recipe from the data: folds of episodes, candidates, selection; and the default `fit`."""
