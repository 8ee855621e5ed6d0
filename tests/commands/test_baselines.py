import pytest

from multistep.commands.baselines import linear_like
from multistep.dynamics import HiddenConfig, LineConfig, ShallowConfig, average, in_units
from multistep.dynamics.normaliser import fit_normaliser
from multistep.evaluation import FreeRunR2
from systems import plant_episodes


@pytest.mark.parametrize("members", [1, 2])
def test_the_line_beside_a_hidden_state_has_one_too(getkey, members):
    """The output of a plant of third order cannot be told from the last one alone."""
    train = plant_episodes(num=3)
    made = HiddenConfig(3, 4, ShallowConfig(2), encoder_size=0)
    learned = [made.make(1, 1, key=getkey()) for _ in range(members)]
    together = learned[0] if members == 1 else average(learned)
    model = in_units(together, fit_normaliser(train), train.state_names, train.action_names, None)
    linear = linear_like(model, train, key=getkey())
    assert linear.num_past == model.num_past == 4
    assert linear.learned.architecture == HiddenConfig(3, 4, LineConfig(), encoder_size=0)
    assert FreeRunR2()(linear, plant_episodes(num=2, seed=1)) > 0.999
