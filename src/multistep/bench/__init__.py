"""Benchmarks: speed, memory and quality, each leaving rows and a summary."""
