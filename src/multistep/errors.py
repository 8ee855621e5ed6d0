"""The one exception for what a user can mend: bad files, bad shapes, bad settings."""


class InputError(ValueError):
    """One sentence: what is wrong, where, and what to do. The command line prints it without a traceback."""


def counted(number: int, what: str) -> str:
    """So many of them, in words that agree: 1 episode, 2 episodes."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def reason_of(error: Exception) -> str:
    """What an error of another library says, as a part of a sentence of ours."""
    return (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
