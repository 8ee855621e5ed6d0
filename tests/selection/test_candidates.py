import pytest

from multistep.errors import InputError
from multistep.losses import Exponential
from multistep.selection.candidates import PAPER_BETAS, PAPER_HORIZONS, grid
from multistep.selection.vary import vary_all
from multistep.training import DEFAULT, PAPER


def test_the_papers_grid():
    """Eight datasets, three scales of noise and three folds make the 2,952 fits of its table."""
    candidates = grid(PAPER, PAPER_HORIZONS, PAPER_BETAS)
    assert len(candidates) * 8 * 3 * 3 == 2952
    assert len(set(candidates)) == len(candidates)
    assert [c.horizon for c in candidates].count(1) == 1
    assert sorted(
        c.weights.beta for c in candidates if c.horizon == 3 and isinstance(c.weights, Exponential)
    ) == sorted(PAPER_BETAS)
    assert all(
        (c.network, c.epochs, c.batch_size) == (PAPER.network, PAPER.epochs, PAPER.batch_size)
        for c in candidates
    )


def test_anything_in_the_configuration_varies():
    found = vary_all(
        DEFAULT,
        ["learning_rate=1e-3,3e-4", "network.hidden_size=32", "patience=2,3", "network.batch_norm=true"],
    )
    assert [(c.learning_rate, c.patience) for c in found] == [(1e-3, 2), (1e-3, 3), (3e-4, 2), (3e-4, 3)]
    assert all(c.network.hidden_size == 32 and c.network.batch_norm is True for c in found)
    assert all(c.horizon == DEFAULT.horizon and c.network.dropout == 0 for c in found)
    assert vary_all(DEFAULT, []) == [DEFAULT]


def test_names_as_options_are_typed():
    assert [c.least_steps for c in vary_all(DEFAULT, ["least-steps=3,4"])] == [3, 4]
    assert [c.patience for c in vary_all(DEFAULT, ["patience=none,2"])] == [None, 2]


def test_a_name_that_is_varied_twice_gets_a_sentence():
    with pytest.raises(InputError, match="'epochs' is varied twice: give all of its values at once"):
        vary_all(DEFAULT, ["epochs=1", "epochs=2,3"])


@pytest.mark.parametrize(
    ("variation", "message"),
    [
        ("speed=1", "'speed=1' is not NAME=VALUE"),
        ("horizon=3", "with a name out of epochs"),
        ("epochs", "'epochs' is not NAME=VALUE"),
        ("epochs=many", "'many' is not a value of epochs: write a whole number"),
        ("network.batch_norm=perhaps", "write true or false"),
        ("epochs=0", "The epochs is 0"),
    ],
)
def test_wrong_variations_are_refused(variation, message):
    with pytest.raises(InputError, match=message):
        vary_all(DEFAULT, [variation])
