"""Files whose time steps are not those of the others, and files with uneven ones."""

import warnings

import numpy as np
import pytest

from multistep.data import Recording, check_equal_steps, note_uneven_steps
from multistep.errors import InputError


def recording(name, steps):
    steps = np.asarray(steps, float)
    num = len(steps)
    return Recording(
        name, np.zeros((num + 1, 1)), np.zeros((num, 1)), np.array([num]), ("x",), ("u",), np.array([1]),
        time_steps=steps,
    )  # fmt: skip


def test_the_file_that_is_outvoted_is_named_with_a_step_for_all():
    files = [recording(f"{n}.csv", [0.05] * 9) for n in range(6)]
    check_equal_steps(files)
    odd = [*files, recording("odd.csv", [0.1] * 9)]
    with pytest.raises(InputError) as refused:
        check_equal_steps(odd)
    assert str(refused.value) == (
        "The usual time step is 0.05 in 0.csv, 1.csv, 2.csv and 3 others but 0.1 in odd.csv: add --resample "
        "0.1, or use the files apart."
    )
    with pytest.raises(InputError, match=r"--resample 0\.1 in place of --every 2"):
        check_equal_steps(odd, every=2)
    with pytest.raises(InputError, match=r"odd\.csv: add --resample 0\.05, or"):
        check_equal_steps(odd, wanted=0.05)  # by a model
    with pytest.raises(InputError, match=r"odd\.csv: use the files apart\."):
        check_equal_steps(odd, wanted=0.02)


def test_uneven_files_are_named_each():
    files = [recording("even.csv", [0.05] * 9), recording("odd.csv", [0.03, 0.05, 0.05, 0.068])]
    with pytest.warns(UserWarning, match="uneven steps") as found:
        note_uneven_steps(files)
    (note,) = found
    assert str(note.message) == "odd.csv has uneven steps (0.03 to 0.068): add --resample 0.05."
    check_equal_steps([files[0], recording("turns.csv", [0.03, 0.07] * 9 + [0.07])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        note_uneven_steps(files[:1])
    with pytest.warns(UserWarning, match="uneven steps") as found:
        note_uneven_steps([recording(f"{n}.csv", [1, 1, 2]) for n in range(7)])
    assert len(found) == 6
    assert "5.csv and 6.csv have uneven steps, too" in str(found[-1].message)
