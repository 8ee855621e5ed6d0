"""The one exception for what a user can mend: bad files, bad shapes, bad settings."""


class InputError(ValueError):
    """One sentence: what is wrong, where, and what to do. The command line prints it without a traceback."""


def reason_of(error: Exception) -> str:
    """What an error of another library says, as a part of a sentence of ours."""
    return (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
