"""Rows on disk to figures and tables."""
