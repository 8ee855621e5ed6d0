"""Who may give commands to workers: only who has the key of the run."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multistep.errors import InputError

if TYPE_CHECKING:
    from distributed.security import Security

OPENSSL = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
    *("-days", "365", "-subj", "/CN=multistep"),
)


def key_of_this_run() -> "Security":
    """A key and a certificate that only this process and the workers it starts know.

    Without, any user of this machine could have the workers run whatever he likes, as us.
    """
    from distributed.security import Security

    try:
        return Security.temporary()
    except ImportError:  # it takes `cryptography`, which is not among what multistep needs
        key, certificate = _made_by_openssl()
    roles: dict[str, Any] = {}
    for role in ("client", "scheduler", "worker"):
        roles |= {f"tls_{role}_key": key, f"tls_{role}_cert": certificate}
    return Security(require_encryption=True, tls_ca_file=certificate, **roles)


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


def _made_by_openssl() -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as folder:  # of nobody else's to read
        key, certificate = Path(folder) / "key.pem", Path(folder) / "cert.pem"
        command = [*OPENSSL, "-keyout", str(key), "-out", str(certificate)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise InputError(
                "Workers on this machine take commands over TLS only, and nothing here can make a key: "
                "pip install cryptography."
            ) from error
        return key.read_text(), certificate.read_text()
