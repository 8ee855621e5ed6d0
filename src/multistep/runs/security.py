"""Who may give commands to workers: only who has the key of the run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from multistep.errors import InputError

if TYPE_CHECKING:
    from distributed.security import Security


def key_of_this_run() -> "Security":
    """A key and a certificate that only this process and the workers it starts know.

    Without, any user of this machine could have the workers run whatever he likes, as us.
    """
    from distributed.security import Security

    try:
        return Security.temporary()
    except ImportError as error:
        raise InputError(
            "Workers on this machine take commands over TLS only, and cryptography, which makes the key, is "
            "not installed: install multistep with the extra 'sweeps' (multistep[sweeps])."
        ) from error


@contextmanager
def secured_by(ca: Path | None, cert: Path | None, key: Path | None) -> Iterator[None]:
    """Clients made in the block show this certificate and ask for one of this authority."""
    files = {"ca": ca, "cert": cert, "key": key}
    if not any(files.values()):
        yield
        return
    for name, path in files.items():
        if path is None:
            raise InputError(f"TLS takes three files: add --tls-{name}.")
        if not path.is_file():
            raise InputError(f"There is no file {path}: correct --tls-{name}.")
    import dask.config

    settings = {"ca-file": str(ca), "client.cert": str(cert), "client.key": str(key)}
    with dask.config.set({f"distributed.comm.tls.{name}": path for name, path in settings.items()}):
        yield
