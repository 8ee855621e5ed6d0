"""How a process of ours runs: one thread, compiled programs kept for the next process, memory kept for the
next epoch.

The command line does this for itself; a program that uses the library may call these before its first
computation.
"""

import ctypes
import os
import platform
from contextlib import suppress
from pathlib import Path

import jax
import platformdirs


def keep_compiled_programs(folder: Path | None = None) -> None:
    """Store compiled programs on disk (by default in the platform's cache folder), for every later process to
    find."""
    folder = folder or Path(platformdirs.user_cache_dir("multistep")) / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # The defaults leave out programs that compile in under a second, which is half of ours.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def available_cores() -> list[int]:
    """The cores that this process may use."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )


def use_one_thread(core: int | None = None) -> None:
    """Give JAX one thread, on this core or on whichever is free: call before the first computation.

    At these sizes a second thread gains nothing, and two single-threaded fits side by side double the
    throughput. JAX makes as many threads as it may use cores at its first use; other libraries keep all
    cores.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before) if core is None else core})
    try:
        jax.devices()
    finally:
        os.sched_setaffinity(0, before)
    if core is None:
        # The threads made above stay on the one core, where those of another process of ours would be too:
        # let them go.
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(int(thread), before)


def keep_freed_memory() -> None:
    """Let the allocator keep what is freed: a fit asks for the same again at its next step.

    Dask tells its workers to hand memory back at once, which makes our fits 1.5 times slower. Does something
    with glibc only.
    """
    if platform.libc_ver()[0] == "glibc":
        set_option = ctypes.CDLL(None).mallopt
        trim_threshold, mmap_threshold = -1, -3  # numbers of the options in malloc.h
        set_option(trim_threshold, 2**31 - 1)
        set_option(mmap_threshold, 32 << 20)  # the largest that it takes
