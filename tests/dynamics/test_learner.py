import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch

from multistep.dynamics import BATCH, NetworkConfig
from multistep.dynamics.learner import Statistics


def steps(learner, states, actions):
    """One step of a batch, without dropout."""
    masks = jnp.ones((len(learner.network.common), learner.network.common[0].bias.size), bool)
    step = jax.vmap(
        lambda s, a: learner.step((s, learner.statistics), (a, masks)),
        axis_name=BATCH,
        out_axes=(0, None),
    )
    return step(states, actions)


def torch_twin(learner):
    """PyTorch's own layers with the learner's weights: linear, batch norm, ReLU; then the head."""
    layers = []
    for linear, norm in zip(learner.network.common, learner.norms, strict=True):
        layers += [
            torch_linear(linear),
            torch.nn.BatchNorm1d(norm.scale.size, dtype=torch.float64),
            torch.nn.ReLU(),
        ]
        layers[-2].weight.data, layers[-2].bias.data = (
            torch.tensor(np.asarray(norm.scale)),
            torch.tensor(np.asarray(norm.shift)),
        )
    head = learner.network.mean_head
    return torch.nn.Sequential(*layers, torch_linear(head.hidden), torch.nn.Tanh(), torch_linear(head.output))


def torch_linear(linear):
    twin = torch.nn.Linear(*linear.weight.shape, dtype=torch.float64)
    twin.weight.data, twin.bias.data = (
        torch.tensor(np.asarray(linear.weight.T)),
        torch.tensor(np.asarray(linear.bias)),
    )
    return twin


def frozen_change(learner, statistics, x):
    """The change that the network for use predicts for these inputs."""
    with_statistics = eqx.tree_at(lambda learner: learner.statistics, learner, statistics)
    network = with_statistics.freeze()
    return network.mean_head(network.features(x))


def with_batch_norm(getkey):
    learner = NetworkConfig(hidden_size=8, batch_norm=True).make(3, 2, key=getkey())
    random_norms = [
        jax.tree.map(lambda x: 1 + 0.3 * jax.random.normal(getkey(), x.shape), norm) for norm in learner.norms
    ]
    return eqx.tree_at(lambda learner: learner.norms, learner, tuple(random_norms))


def test_batch_norm_trains_as_in_pytorch(getkey):
    learner = with_batch_norm(getkey)
    states, actions = jax.random.normal(getkey(), (16, 3)), jax.random.normal(getkey(), (16, 2))
    ours, _ = steps(learner, states, actions)
    x = torch.tensor(np.concatenate([states, actions], axis=1))
    theirs = torch.tensor(np.asarray(states)) + torch_twin(learner).train()(x)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), atol=1e-10)


def test_freezing_gives_pytorchs_evaluation_mode(getkey):
    learner = with_batch_norm(getkey)
    statistics = tuple(
        Statistics(jax.random.normal(getkey(), (8,)), jax.random.uniform(getkey(), (8,)) + 0.5)
        for _ in range(2)
    )
    twin = torch_twin(learner).eval()
    for layer, values in zip([twin[1], twin[4]], statistics, strict=True):
        layer.running_mean = torch.tensor(np.asarray(values.mean))
        layer.running_var = torch.tensor(np.asarray(values.variance))
    x = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(
        frozen_change(learner, statistics, jnp.asarray(x)),
        twin(torch.tensor(x)[None])[0].detach().numpy(),
        atol=1e-10,
    )


def test_statistics_are_those_of_the_batch(getkey):
    learner = with_batch_norm(getkey)
    states, actions = jax.random.normal(getkey(), (16, 3)), jax.random.normal(getkey(), (16, 2))
    _, (first, _) = steps(learner, states, actions)
    before = (
        np.concatenate([states, actions], axis=1) @ learner.network.common[0].weight
        + learner.network.common[0].bias[None]
    )
    np.testing.assert_allclose(first.mean, before.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(first.variance, before.var(axis=0), atol=1e-12)


def test_a_plain_learner_is_its_network(getkey):
    learner = NetworkConfig(hidden_size=8).make(3, 2, key=getkey())
    states, actions = jax.random.normal(getkey(), (4, 3)), jax.random.normal(getkey(), (4, 2))
    ours, statistics = steps(learner, states, actions)
    assert statistics == ()
    assert learner.freeze() is learner.network
    expected = states + jax.vmap(learner.network.step)(states, actions) - states
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_dropout_silences_the_asked_share_and_keeps_the_mean(getkey):
    """With weights of one and a wide layer, the features are the mask itself."""
    learner = NetworkConfig(hidden_size=1000, num_common_layers=1, dropout=0.1).make(1, 1, key=getkey())
    learner = eqx.tree_at(
        lambda learner: learner.network.common[0],
        learner,
        replace_fn=lambda linear: jax.tree.map(jnp.ones_like, linear),
    )
    masks = learner.draw_masks(500, key=getkey())
    features = jax.vmap(lambda mask: learner._features(jnp.zeros(2), mask)[0])(masks)
    silenced = np.asarray(features == 0)
    assert abs(silenced.mean() - 0.1) < 0.003
    assert abs(features.mean() - 1) < 0.003
    # Every unit of every step is drawn on its own.
    assert silenced.mean(axis=0).std() < 0.02
    assert silenced.mean(axis=1).std() < 0.02
    assert abs(np.corrcoef(silenced[:, 0], silenced[:, 1])[0, 1]) < 0.2


def test_masks_are_drawn_for_every_step_layer_and_window(getkey):
    learner = NetworkConfig(hidden_size=10, dropout=0.5).make(1, 1, key=getkey())
    masks = jax.vmap(lambda key: learner.draw_masks(4, key=key))(jax.random.split(getkey(), 3))
    assert masks.shape == (3, 4, 2, 10)
    assert len({row.tobytes() for row in np.asarray(masks).reshape(-1, 10)}) > 20
    for extreme, share in ((0.999, 255 / 256), (0.0001, 1 / 256)):
        drawn = (
            NetworkConfig(hidden_size=400, dropout=extreme)
            .make(1, 1, key=getkey())
            .draw_masks(100, key=getkey())
        )
        assert abs((~drawn).mean() - share) < 0.002
    plain = NetworkConfig(hidden_size=10).make(1, 1, key=getkey())
    assert plain.draw_masks(4, key=getkey()).shape == (4, 0, 10)
