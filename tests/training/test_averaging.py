from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import Episodes
from multistep.dynamics import CorrectedConfig
from multistep.dynamics.averaged import Averaged
from multistep.errors import InputError
from multistep.evaluation import R2Bar
from multistep.training import Averaging, Growing, Once, Outcome

RECIPE = Once(
    horizon=2,
    network=CorrectedConfig(hidden_size=4, num_common_layers=1),
    curriculum=Growing(model_steps=2000, stages=1, batch_size=4),
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return Episodes.of([(rng.normal(size=(41, 2)), rng.normal(size=(40, 1))) for _ in range(3)])


def test_the_model_is_the_mean_of_fits_with_other_keys(data):
    key = jax.random.key(3)
    fit = Averaging(RECIPE, 3).fit(data, data, key=key, score=R2Bar(5))
    alone = RECIPE.fit(data, data, key=key, score=R2Bar(5))
    assert list(fit.parts) == ["member_0", "member_1", "member_2"]
    state, action = jnp.asarray(data.states[0], float), jnp.asarray(data.actions[0], float)
    steps = [part.model.step(state, action) for part in fit.parts.values()]
    np.testing.assert_array_equal(steps[0], alone.model.step(state, action))
    assert not np.allclose(steps[0], steps[1])
    np.testing.assert_allclose(fit.model.step(state, action), np.mean(steps, axis=0), rtol=1e-4, atol=1e-5)
    assert [epoch.number for epoch in fit.history] == list(range(len(fit.history)))
    assert fit.outcome is Outcome.FINISHED
    np.testing.assert_array_equal(fit.model.normaliser.state_range[1], data.states.max(axis=0))


def test_one_member_is_the_fit_itself(data):
    fit = Averaging(RECIPE, 1).fit(data, data, key=jax.random.key(0), score=R2Bar(5))
    assert not isinstance(fit.model.learned, Averaged)
    assert not fit.parts


@dataclass(frozen=True)
class Ending(Once):
    """A fit whose second run ends otherwise."""

    outcome: Outcome = Outcome.DIVERGED

    def fit(self, train, valid, *, key, score, checkpoint=None):
        fit = super().fit(train, valid, key=key, score=score, checkpoint=checkpoint)
        first = (jax.random.key_data(key) == jax.random.key_data(jax.random.key(0))).all()
        return fit if first else replace(fit, outcome=self.outcome)


def test_those_that_diverged_are_left_out_and_an_interrupt_ends_it(data):
    def run(outcome):
        recipe = Averaging(
            Ending(RECIPE.horizon, network=RECIPE.network, epochs=1, least_steps=1, outcome=outcome), 3
        )
        return recipe.fit(data, data, key=jax.random.key(0), score=R2Bar(5))

    diverged = run(Outcome.DIVERGED)
    assert len(diverged.parts) == 3
    assert not isinstance(diverged.model.learned, Averaged)
    interrupted = run(Outcome.INTERRUPTED)
    assert len(interrupted.parts) == 2
    assert interrupted.outcome is Outcome.INTERRUPTED


def test_the_steps_of_all_members_count_and_none_is_refused(data):
    assert Averaging(RECIPE, 3).most_steps(data) == 6000
    with pytest.raises(InputError, match="1 or more"):
        Averaging(RECIPE, 0)
