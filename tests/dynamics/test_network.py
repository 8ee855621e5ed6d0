import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from multistep.dynamics import NetworkConfig
from multistep.dynamics.network import make_network
from multistep.errors import InputError


def change(network, x):
    return network.mean_head(network.features(x))


@pytest.mark.parametrize(
    ("activation", "theirs"), [("relu", torch.nn.ReLU), ("silu", torch.nn.SiLU), ("tanh", torch.nn.Tanh)]
)
def test_same_function_as_pytorch_with_the_same_weights(getkey, activation, theirs):
    network = make_network(
        NetworkConfig(hidden_size=7, num_common_layers=2, activation=activation), 3, 2, key=getkey()
    )
    path = [*network.common, network.mean_head.hidden, network.mean_head.output]
    linears = []
    for linear in path:
        twin = torch.nn.Linear(*linear.weight.shape, dtype=torch.float64)
        twin.weight.data, twin.bias.data = (
            torch.tensor(np.asarray(linear.weight.T)),
            torch.tensor(np.asarray(linear.bias)),
        )
        linears.append(twin)
    twin = torch.nn.Sequential(
        linears[0], theirs(), linears[1], theirs(), linears[2], torch.nn.Tanh(), linears[3]
    )
    x = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(
        change(network, jnp.asarray(x)), twin(torch.tensor(x)).detach().numpy(), rtol=1e-12
    )


def test_sizes_start_and_heads(getkey):
    network = make_network(NetworkConfig(hidden_size=50, num_common_layers=3), 3, 2, key=getkey())
    assert [linear.weight.shape for linear in network.common] == [(5, 50), (50, 50), (50, 50)]
    x = jnp.ones(5)
    after, spread = network.step_both(x[:3], x[3:])
    np.testing.assert_array_equal(after, network.step(x[:3], x[3:]))
    assert change(network, x).shape == spread.shape == (3,)
    bound = 1 / np.sqrt(50)
    assert jnp.abs(network.common[1].weight).max() <= bound
    np.testing.assert_allclose(network.common[1].weight.std(), bound / np.sqrt(3), rtol=0.05)
    assert not jnp.array_equal(network.common[1].weight, network.common[2].weight)


def test_the_deviation_head_is_its_own(getkey):
    network = make_network(NetworkConfig(hidden_size=7), 3, 2, key=getkey())
    gradient = jax.grad(lambda network: change(network, jnp.ones(5)).sum())(network)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradient.deviation_head))
    assert all((leaf != 0).any() for leaf in jax.tree.leaves(gradient.mean_head))


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"hidden_size": 0}, "at least one"), ({"dropout": 1.0}, "less than 1")],
)
def test_bad_settings_get_one_sentence(settings, words):
    with pytest.raises(InputError, match=words):
        NetworkConfig(**settings)
