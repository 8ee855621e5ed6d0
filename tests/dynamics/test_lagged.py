import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import Past
from multistep.dynamics import (
    CorrectedConfig,
    HiddenConfig,
    HiddenState,
    LaggedConfig,
    Lags,
    LineConfig,
    NetworkConfig,
    NoMemory,
    load_model,
    save_model,
)
from multistep.errors import InputError
from multistep.evaluation import R2Bar, free_run
from multistep.training import LeastSquares
from systems import plant_episodes

SMALL = CorrectedConfig(hidden_size=4, num_common_layers=1)


@pytest.mark.parametrize(
    "architecture", [LaggedConfig(3, LineConfig()), HiddenConfig(3, 5, LineConfig(), encoder_size=0)]
)
def test_the_output_of_a_linear_system_is_found_exactly(architecture):
    data, other = plant_episodes(), plant_episodes(num=1, steps=300, seed=1)
    fit = LeastSquares(architecture).fit(data, data, key=jax.random.key(0), score=R2Bar(50))
    (run,) = free_run(fit.model, other)
    assert run.rmse[0] < 1e-3 * other.states.std()
    markov = LeastSquares().fit(data, data, key=jax.random.key(0), score=R2Bar(50)).model
    assert free_run(markov, other)[0].rmse[0] > 0.1 * other.states.std()


def test_the_memory_is_shifted_and_nothing_else(getkey):
    model = LaggedConfig(3, SMALL).make(2, 1, key=getkey())
    outputs, inputs = jax.random.normal(getkey(), (3, 2)), jax.random.normal(getkey(), (2, 1))
    memory = model.start(Past(outputs, inputs))
    given = jax.random.normal(getkey(), (4, 1))
    seen = [*outputs]
    for action in given:
        memory = model.step(memory, action)
        seen.append(model.predict(memory).mean)
    np.testing.assert_array_equal(memory.outputs, jnp.stack(seen[-3:]))
    np.testing.assert_array_equal(memory.inputs, given[-2:])


def test_one_lag_is_the_ordinary_model():
    assert Lags(1).around(SMALL) is SMALL
    assert NoMemory().around(SMALL) is SMALL
    assert Lags(4).around(SMALL) == LaggedConfig(4, SMALL)
    assert HiddenState(4, 7).around(SMALL) == HiddenConfig(4, 7, SMALL)


@pytest.mark.parametrize("architecture", [LaggedConfig(3, SMALL), HiddenConfig(2, 4, SMALL)])
def test_models_with_a_memory_are_saved_and_loaded(architecture, tmp_path):
    data = plant_episodes()
    model = LeastSquares(architecture).fit(data, data, key=jax.random.key(0), score=R2Bar(10)).model
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert again.learned.architecture == architecture
    past, before, after = data.states[: model.num_past], data.actions[: model.num_past - 1], data.actions[:9]
    np.testing.assert_array_equal(again.rollout(past, before, after), model.rollout(past, before, after))


def unchecked(kind, **fields):
    """As outside of the tests, where types are not checked."""
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    made.__post_init__()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Lags(0), "1 or more"),
        (lambda: unchecked(Lags, count="auto"), "'auto' lags: give the number"),
        (
            lambda: unchecked(Lags, count=2.5),
            "2.5 lags: give .* 1 or more, and whole",
        ),
        (lambda: unchecked(HiddenState, size=3, lags="auto"), "both must be 1 or more, and whole"),
        (lambda: HiddenState(5, 1).check_sizes(1, 1), r"5 numbers cannot .* of 1 number \(1 sample\)"),
        (lambda: LaggedConfig(1), "2 or more"),
        (lambda: HiddenConfig(0, 3), "both must be 1 or more"),
        (lambda: HiddenConfig(1, 3).make(2, 1, key=jax.random.key(0)), "ask for 2 or more"),
        (lambda: Lags(2).around(NetworkConfig(dropout=0.1)), "leave them out"),
        (lambda: LaggedConfig(2, LaggedConfig(2)).make(1, 1, key=jax.random.key(0)), "memory of its own"),
        (
            lambda: LeastSquares(LaggedConfig(50, LineConfig())).fit(
                plant_episodes(steps=20), plant_episodes(), key=jax.random.key(0), score=R2Bar(5)
            ),
            "starts from 50 samples, but the longest training episode has 21",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()
