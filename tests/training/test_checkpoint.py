"""A checkpoint is the one that was written, of the fit that asks for it, or it is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.errors import InputError
from multistep.runs.array_files import read_arrays, write_arrays
from multistep.training.checkpoint import KIND, Record, read_checkpoint, write_checkpoint
from multistep.training.history import Epoch, Outcome

TREE = {"weights": jnp.arange(6.0).reshape(2, 3), "steps": jnp.zeros((), int)}
EPOCHS = tuple(Epoch(number, (0.5, 0.7), (0.5, 0.5), 0.9, 1.0, None) for number in (0, 1))
RECORD = Record("mine", EPOCHS, Outcome.FINISHED)


@pytest.fixture
def path(tmp_path):
    write_checkpoint(tmp_path / "checkpoint.safetensors", TREE, RECORD)
    return tmp_path / "checkpoint.safetensors"


def test_what_was_written_comes_back(path):
    found, record = read_checkpoint(path, jax.tree.map(jnp.zeros_like, TREE), "mine")
    assert record == RECORD
    jax.tree.map(np.testing.assert_array_equal, found, TREE)


def test_a_flipped_bit_anywhere_is_found(path):
    whole = path.read_bytes()
    for place in range(0, 8 * len(whole), 37):
        content = bytearray(whole)
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        with pytest.raises(InputError, match="is damaged"):
            read_checkpoint(path, TREE, "mine")


@pytest.mark.parametrize(
    "like",
    [
        {"weights": jnp.zeros((3, 2)), "steps": TREE["steps"]},
        {"weights": jnp.zeros((2, 3), int), "steps": TREE["steps"]},
        {"weights": TREE["weights"]},
        {**TREE, "more": jnp.zeros(())},
    ],
)
def test_arrays_of_another_shape_type_or_number_are_refused(path, like):
    with pytest.raises(InputError, match="are not those of this fit: delete it to start this fit anew"):
        read_checkpoint(path, like, "mine")


@pytest.mark.parametrize(
    "change",
    [
        {"history": 3},
        {"history": [{}]},
        {"history": [{"number": 7, "errors": [1], "weights": [1], "score": 0.1, "seconds": 0.1}]},
        {"history": [{"number": 0, "errors": ["a"], "weights": [1], "score": 0.1, "seconds": 0.1}]},
        {"history": [{"number": 0, "errors": [1], "weights": [1], "score": "a", "seconds": 0.1}]},
        {"outcome": "lost"},
        {"fingerprint": None},
    ],
)
def test_a_record_that_is_none_is_refused(path, change):
    header, arrays, _ = read_arrays(path, KIND, "damaged")
    write_arrays(path, KIND, {**header, **change}, arrays)
    with pytest.raises(InputError, match=r"is damaged|belongs to a fit with other data"):
        read_checkpoint(path, TREE, "mine")
