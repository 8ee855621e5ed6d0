"""Libraries of others, each in a virtual environment of its own: what they need goes neither with ours
nor with each other."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from multistep.runs.provenance import digest

INSTALLED = "installed.txt"
"""In an environment that is whole: what was installed."""


class PeerMissing(Exception):
    """Why a library is not here, as a part of a sentence."""


@dataclass(frozen=True)
class Peer:
    """A library of others: what it needs, and the script that works with it."""

    name: str
    script: str
    """In the folder `peers`."""
    modules: tuple[str, ...]
    """What must be importable."""
    packages: tuple[str, ...]
    """What pip installs."""
    alone: bool = False
    """Whether these are all that it needs: pip adds nothing, and the peer's own pins are not heard."""


# torch by itself, named with what it imports: where pip finds a build for graphics cards alone, nothing of
# theirs is pulled in, and the import says so.
TORCH = (
    "torch==2.13.0", "filelock", "fsspec", "jinja2", "markupsafe", "mpmath", "networkx", "sympy",
    "typing_extensions", "setuptools", "numpy>=2.2,<3", "scipy", "tqdm", "requests", "urllib3", "idna",
    "certifi", "charset_normalizer", "progressbar", "rarfile",
)  # fmt: skip
PEERS = {
    peer.name: peer
    for peer in (
        Peer("jax-sysid", "jax_sysid_plant.py", ("jax_sysid",), ("jax-sysid==1.1.0",)),
        Peer(
            "deepSI",
            "deepsi_plant.py",
            ("torch", "deepSI"),
            (*TORCH, "deepSI==0.4.4", "nonlinear_benchmarks==0.1.2", "cloudpickle"),
            alone=True,
        ),
        Peer(
            "tsfast",
            "tsfast_episodes.py",
            ("torch", "tsfast.prediction.fransys"),
            (
                *TORCH, "tsfast==0.5.0", "identibench==0.4.0", "nonlinear_benchmarks==1.0.1", "h5py",
                "pandas", "python-dateutil", "six", "pytz", "tzdata",
            ),
            alone=True,
        ),
    )
}  # fmt: skip


def environments_folder(folder: Path | None = None) -> Path:
    """This folder, or the platform's place for caches."""
    return Path(platformdirs.user_cache_dir("multistep")) / "peers" if folder is None else folder


def make_environment(peer: Peer, folder: Path) -> Path:
    """The Python of the peer's environment in the folder, made now if it is not there; `PeerMissing` says why
    it cannot be made."""
    home = folder.resolve() / f"{peer.name}-{digest(peer)}"
    python = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if (home / INSTALLED).exists():
        return python
    try:
        _run([sys.executable, "-m", "venv", "--clear", str(home)], "no environment can be made for it")
        alone = ["--no-deps"] if peer.alone else []
        pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
        _run([*pip, "install", "--quiet", *alone, *peer.packages], "it cannot be installed")
        _run([str(python), "-c", f"import {', '.join(peer.modules)}"], "it cannot be imported")
        found = _run([*pip, "freeze"], "pip does not list it")
    except PeerMissing:
        shutil.rmtree(home, ignore_errors=True)
        raise
    (home / INSTALLED).write_text(found, encoding="utf-8")
    return python


def _run(words: list[str], otherwise: str) -> str:
    """What the command prints, or `PeerMissing` with what it complains of."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise PeerMissing(f"{otherwise} ({error})") from error
    if done.returncode:
        raise PeerMissing(f"{otherwise} ({complaint_of(done.stderr)})")
    return done.stdout


def complaint_of(stderr: str) -> str:
    """The line that says what is wrong: the last of pip's errors, or of all lines."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it says nothing"])[-1].rstrip(".")
