import math

import equinox as eqx
import jax
import pytest

from multistep.dynamics import HiddenState, Lags, ShallowConfig
from multistep.evaluation import FreeRunR2, R2Bar
from multistep.selection.automatic import Automatic
from multistep.selection.expected import expected_seconds
from multistep.selection.lags import ChosenMemory
from multistep.selection.plant import num_weights
from systems import plant_episodes


@pytest.fixture(autouse=True)
def steady_machine(monkeypatch):
    for place in ("training.work", "selection.expected"):
        monkeypatch.setattr(f"multistep.{place}.product_speed", lambda: 5e10)


def expected(recipe, score=None):
    return expected_seconds(recipe, plant_episodes(num=3), plant_episodes(num=2, seed=1), score or R2Bar(10))


def test_a_budget_of_time_is_what_it_takes_at_most():
    for memory in (Lags(1), Lags(3), ChosenMemory()):
        assert expected(Automatic(memory=memory, budget="1s")) == 1.0
        assert 0 < expected(Automatic(memory=memory)) < math.inf


def test_it_grows_with_what_is_tried():
    lags = expected(Automatic(memory=Lags(3)), FreeRunR2())
    assert expected(Automatic(memory=ChosenMemory()), FreeRunR2()) > lags
    assert expected(Automatic()) > expected(Automatic(without=("small",)))


def test_weights_are_counted_as_they_are_made():
    pool = plant_episodes(num=2)
    for memory in (Lags(3), HiddenState(3, 4)):
        network = memory.around(ShallowConfig(5))
        made = network.make(pool.state_size, pool.action_size, key=jax.random.key(0))
        leaves = jax.tree.leaves(eqx.filter(made, made.trained()))
        assert num_weights(network, pool) == sum(leaf.size for leaf in leaves)
