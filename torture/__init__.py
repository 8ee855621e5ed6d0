"""`make torture`: everything that may happen to files and processes, many times over, with a table at the end."""
