"""The one exception for what a user can mend: bad files, bad shapes, bad settings."""


class InputError(ValueError):
    """One sentence: what is wrong, where, and what to do. The command line prints it without a traceback."""
