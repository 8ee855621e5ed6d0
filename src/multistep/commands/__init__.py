"""The commands of a user's own work: a configuration and a `run` each."""
