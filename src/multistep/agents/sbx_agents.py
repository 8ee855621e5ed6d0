"""sbx, which is an extra: its SAC, or a sentence on what to install."""

from typing import TYPE_CHECKING

from multistep.errors import InputError

if TYPE_CHECKING:
    from sbx import SAC


def sbx_sac() -> "type[SAC]":
    """sbx's SAC, if it is installed."""
    try:
        from sbx import SAC
    except ImportError as error:
        raise InputError(
            "Training an agent needs sbx: install multistep with the extra 'agents' (multistep[agents])."
        ) from error
    return SAC
