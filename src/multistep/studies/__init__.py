"""Runs that leave rows on disk: a frozen config and one function each."""
