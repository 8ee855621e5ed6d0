"""Choosing a configuration from the data: folds of episodes, candidates, sweeps on all cores or on a
cluster."""
