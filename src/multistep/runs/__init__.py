"""What every long command needs, and no science: files, rows, provenance, progress, sweeps, workers."""
