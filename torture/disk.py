"""What disks and people do: no space, no permission, files that are gone or others, two writers."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torture.table import OVER, Clock, Tried
from torture.work import COLUMNS, SECONDS, environment, fit_words, problem_of, run, write_plant

SIZES = (0, 4_000, 16_000, 40_000, 200_000, 1_000_000)
FORMATS = ("out.csv", "out.npz", "out.parquet", "out.hdf5", "./out-v0")
LIMITED = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); from \
multistep.cli import main; main(sys.argv[2:])"


def disturb_disks(folder: Path, share: float, clock: Clock) -> list[Tried]:
    names = write_plant(folder)
    sizes = SIZES if share >= 1 else SIZES[2:3]
    trials: list[tuple[str, Callable[[Tried], None]]] = [
        ("disk: largest file, fit", lambda tried: _limited(tried, folder, names, sizes)),
        ("disk: largest file, convert", lambda tried: _limited_formats(tried, folder, sizes)),
        ("disk: full, fit and convert", lambda tried: _full(tried, folder, names, sizes)),
        ("disk: read-only", lambda tried: _read_only(tried, folder, names)),
        ("disk: changed between run and resume", lambda tried: _changed(tried, folder, names, share)),
        ("disk: two writers", lambda tried: _two_writers(tried, folder, names, 5 if share >= 1 else 1)),
    ]
    found = []
    for what, trial in trials:
        tried, started = Tried(what), time.monotonic()
        if clock.is_over:
            tried.left_out = OVER
        else:
            trial(tried)
        tried.seconds = time.monotonic() - started
        found.append(tried)
    return found


def _limited(tried: Tried, folder: Path, names: list[str], sizes: tuple[int, ...]) -> None:
    for size in sizes:
        shutil.rmtree(folder / "out", ignore_errors=True)
        _note(tried, f"fit, files up to {size} bytes", *_run_limited(size, fit_words(names), folder))
        _goes_on(tried, folder, names, f"after files up to {size} bytes")


def _limited_formats(tried: Tried, folder: Path, sizes: tuple[int, ...]) -> None:
    for size in sizes:
        for out in FORMATS:
            words = ["convert", "plant_*.csv", out, *COLUMNS]
            _note(tried, f"convert to {out}, files up to {size} bytes", *_run_limited(size, words, folder))
            shutil.rmtree(folder / out, ignore_errors=True)
            (folder / out).unlink(missing_ok=True)


def _run_limited(size: int, words: list[str], folder: Path) -> tuple[int, str]:
    command = [sys.executable, "-c", LIMITED, str(size), *words]
    ended = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return ended.returncode, ended.stderr


@contextmanager
def _mounted(folder: Path, options: str) -> Iterator[bool]:
    """A file system of its own here, if we may make one."""
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, check=False
    )
    try:
        yield mounted.returncode == 0
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def _full(tried: Tried, folder: Path, names: list[str], sizes: tuple[int, ...]) -> None:
    for size in sizes:
        with _mounted(folder / "small", f"size={max(size, 4096)}") as is_there:
            if not is_there:
                tried.left_out = "no file system may be mounted here"
                return
            for words in (
                fit_words(names, "small/out"),
                *(["convert", "plant_*.csv", f"small/{Path(out).name}", *COLUMNS] for out in FORMATS[:4]),
            ):
                ended = run(words, folder)
                _note(tried, f"'{' '.join(words)}' on {size} bytes", ended.returncode, ended.stderr)


def _read_only(tried: Tried, folder: Path, names: list[str]) -> None:
    with _mounted(folder / "fixed", "size=1m,ro") as is_there:
        if not is_there:
            tried.left_out = "no file system may be mounted here"
            return
        for words in (
            fit_words(names, "fixed/out"), ["convert", names[0], "fixed/out.csv", *COLUMNS],
            ["collect", "cartpole/random", "--anew", "--cache", "fixed/cache"],
        ):  # fmt: skip
            ended = run(words, folder)
            _note(tried, " ".join(words), ended.returncode, ended.stderr)


def _changed(tried: Tried, folder: Path, names: list[str], share: float) -> None:
    shutil.rmtree(folder / "out", ignore_errors=True)
    run(fit_words(names), folder)
    keep = folder / "kept"
    shutil.copytree(folder / "out", keep, dirs_exist_ok=True)
    files = sorted(path.name for path in keep.iterdir() if path.is_file())
    for name in files if share >= 1 else ["checkpoint.safetensors", "config.json"]:
        whole = (keep / name).read_bytes()
        changes = {
            "deleted": None,
            "empty": b"",
            "cut": whole[: len(whole) // 2],
            "other": b"{}" + os.urandom(64),
        }
        for change, content in changes.items() if share >= 1 else [("cut", changes["cut"])]:
            shutil.copytree(keep, folder / "out", dirs_exist_ok=True)
            path = folder / "out" / name
            path.unlink() if content is None else path.write_bytes(content)
            ended = run(fit_words(names), folder)
            _note(tried, f"{name} {change}", ended.returncode, ended.stderr)
    shutil.rmtree(folder / "out")


def _two_writers(tried: Tried, folder: Path, names: list[str], times: int) -> None:
    for _ in range(times):
        shutil.rmtree(folder / "out", ignore_errors=True)
        command = [sys.executable, "-m", "multistep", *fit_words(names)]
        both = [
            subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True,
                             stdout=subprocess.DEVNULL)
            for _ in range(2)
        ]  # fmt: skip
        said = [process.communicate()[1] for process in both]
        codes = sorted(process.returncode for process in both)
        told = sum("Another process is writing" in text for text in said)
        tried.add(None if codes == [0, 2] and told == 1 else f"exit codes {codes}: {said}", refused=True)


def _goes_on(tried: Tried, folder: Path, names: list[str], where: str) -> None:
    ended = run(fit_words(names), folder)
    if ended.returncode:
        tried.lost.append(f"{where} the fit does not go on: {ended.stderr[-200:]}")


def _note(tried: Tried, where: str, code: int, said: str) -> None:
    problem = problem_of(code, said)
    tried.add(problem and f"{where}: {problem}", refused=code == 2)
