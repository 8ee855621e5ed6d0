"""`make torture`: what may happen to files and processes, many times over, with a table at the end."""
