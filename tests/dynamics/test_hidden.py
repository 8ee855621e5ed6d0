import jax
import jax.numpy as jnp
import numpy as np
import pytest

import multistep as ms
from multistep.data import with_angles
from multistep.dynamics import (
    CommitteeConfig,
    CorrectedConfig,
    HiddenConfig,
    LineConfig,
    NetworkConfig,
    Saved,
    ShallowConfig,
)
from multistep.errors import InputError
from multistep.training import LeastSquares, QuasiNewton
from systems import plant_episodes


def spun(num, steps=150, seed=0):
    """A wheel with a weight on its rim, pushed around many times; what is measured is its angle, wrapped, in
    degrees."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(num):
        angle, rate, angles = rng.uniform(0, 6), rng.normal(), []
        pushes = 2.0 + 3 * np.repeat(rng.standard_normal(steps // 10), 10)
        for push in [*pushes, 0.0]:
            angles.append(angle)
            rate += 0.1 * (push - 3 * np.sin(angle) - 0.5 * rate)
            angle += 0.1 * rate
        seen = np.remainder(np.degrees(angles), 360.0)
        parts.append((seen[:, None], pushes[:, None]))
    return ms.Episodes.of(parts, state_names=("theta",), action_names=("push",))


HIDDEN = HiddenConfig(2, 3, LineConfig(), encoder_size=0)


def fitted(episodes, network=HIDDEN):
    found = LeastSquares(network).fit(episodes, episodes, key=jax.random.key(0), score=ms.R2Bar(20))
    return found.model


@pytest.mark.parametrize("inner", [LineConfig(), CorrectedConfig(4), ShallowConfig(3)])
def test_the_model_of_the_state_sees_the_angles_among_the_outputs(inner):
    known = with_angles(spun(2), ["theta:deg"])
    suited = HiddenConfig(3, 4, inner).suited_to(known)
    assert suited.network.turns == (360.0, 0.0, 0.0)
    assert CommitteeConfig(2, HiddenConfig(3, 4, inner)).suited_to(known) == CommitteeConfig(2, suited)
    assert HiddenConfig(3, 4, inner).suited_to(spun(2)).network == inner
    assert HiddenConfig(3, 4, NetworkConfig()).suited_to(known).network == NetworkConfig()


def test_a_step_is_the_same_a_turn_later():
    model = fitted(with_angles(spun(3), ["theta:deg"]))
    memory, action = jnp.array([0.3, -0.4]), jnp.array([0.5])
    turn = jnp.array([360.0, 0.0]) / jnp.array([model.normaliser.state_deviation[0], 1.0])
    here, later = (model.learned.step(start, action) for start in (memory, memory + turn))
    np.testing.assert_allclose(later - turn, here, atol=1e-9)
    phase = np.radians(model.normaliser.state_mean + 0.3 * model.normaliser.state_deviation)
    seen = model.learned.model.turning(memory, action)
    np.testing.assert_allclose(seen[1:3], [np.sin(phase[0]), np.cos(phase[0])], rtol=1e-9)


@pytest.mark.slow
def test_a_weight_on_a_wheel_is_foreseen_by_who_knows_its_angle():
    train, test = (with_angles(spun(num, seed=seed), ["theta:deg"]) for num, seed in ((8, 0), (4, 1)))
    unaware = ms.Episodes.of(list(train), state_names=("theta",), action_names=("push",))
    score, left = ms.R2Bar(20), []
    recipe = QuasiNewton(HIDDEN, starts=1, horizon=20, adam_steps=100, rounds=2, iterations=50)
    for episodes in (train, unaware):
        with jax.numpy_dtype_promotion("standard"):
            model = recipe.fit(episodes, episodes, key=jax.random.key(0), score=score).model
        left.append(1 - score(model, test))
    assert left[0] < 0.2 * left[1]


def test_a_model_with_angles_is_saved_and_gone_on_from(tmp_path):
    known = with_angles(spun(3), ["theta:deg"])
    model = fitted(known)
    ms.save_model(model, tmp_path / "model.safetensors")
    again = ms.load_model(tmp_path / "model.safetensors")
    assert again.learned.architecture == HIDDEN.suited_to(known)
    start, actions = known[0].states[:3], known[0].actions
    np.testing.assert_allclose(
        again.rollout(start, actions[:2], actions[2:]),
        model.rollout(start, actions[:2], actions[2:]),
        rtol=1e-4,
    )
    saved = Saved(tmp_path / "model.safetensors")
    assert saved.suited_to(known) is saved
    with pytest.raises(InputError, match="takes theta for an angle"):
        saved.suited_to(ms.Episodes.of(list(known), state_names=("theta",), action_names=("push",)))


def test_a_state_is_not_read_from_episodes_that_end_where_it_begins():
    exactly, longer = (plant_episodes(num=6, steps=steps) for steps in (4, 5))
    network = HiddenConfig(2, 4, LineConfig(), encoder_size=0)
    given = {"key": jax.random.key(0), "score": lambda *_: 0.0}
    with pytest.raises(InputError, match="read from 4 samples needs a training episode of 5 steps or more"):
        LeastSquares(network).fit(exactly, exactly, **given)
    model = LeastSquares(network).fit(longer, longer, **given).model
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(model.learned))
