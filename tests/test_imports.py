"""What is imported, and what importing does: nothing heavy before it is used, and no computation ever."""

import subprocess
import sys

import pytest

HEAVY = ("jax", "numpy", "polars", "tyro", "equinox", "matplotlib", "torch", "h5py")


@pytest.mark.parametrize("program", ["import multistep", "from multistep.cli import main; main(['--help'])"])
def test_nothing_heavy_is_imported_before_it_is_used(program):
    found = "import sys; print([name for name in sys.argv[1:] if name in sys.modules])"
    code = f"try:\n    {program}\nexcept SystemExit:\n    pass\n{found}"
    answer = subprocess.run([sys.executable, "-c", code, *HEAVY], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


def test_importing_a_command_computes_nothing():
    """Otherwise JAX has made its threads before the command can say how many, and half a second is lost."""
    code = (
        "import multistep.commands.fit, multistep.commands.agent_train, multistep.estimator\n"
        "from jax._src import xla_bridge\n"
        "print(xla_bridge.backends_are_initialized())"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
