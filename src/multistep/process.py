"""How a process of ours runs: one core, and compiled programs kept for the next process.

The command line does this for itself; a program that uses the library may call these before its first computation.
"""

import os
from pathlib import Path

import jax
import platformdirs


def keep_compiled_programs(folder: Path | None = None) -> None:
    """Store compiled programs on disk (by default in the platform's cache folder), for every later process to find."""
    folder = folder or Path(platformdirs.user_cache_dir("multistep")) / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # The defaults leave out programs that compile in under a second, which is half of ours.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def available_cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def use_one_thread(core: int | None = None) -> None:
    """Give JAX one thread, on this core (by default the last one available): call before the first computation.

    At these sizes a second thread gains nothing, and two single-threaded fits side by side double the throughput. JAX
    makes as many threads as it may use cores at its first use; other libraries keep all cores.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before) if core is None else core})
    try:
        jax.devices()
    finally:
        os.sched_setaffinity(0, before)
