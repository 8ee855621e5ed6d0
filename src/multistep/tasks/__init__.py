"""The environments of the paper, each in a module of its own; they need the extra `tasks`."""
