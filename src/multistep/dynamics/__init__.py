"""One step of the dynamics, and its repetition."""

from multistep.dynamics.learner import BATCH as BATCH
from multistep.dynamics.learner import Learner as Learner
from multistep.dynamics.learner import Statistics as Statistics
from multistep.dynamics.learner import make_learner as make_learner
from multistep.dynamics.learner import no_statistics as no_statistics
from multistep.dynamics.model import AbstractModel as AbstractModel
from multistep.dynamics.model import Model as Model
from multistep.dynamics.model_files import load_model as load_model
from multistep.dynamics.model_files import save_model as save_model
from multistep.dynamics.network import Network as Network
from multistep.dynamics.network import NetworkConfig as NetworkConfig
from multistep.dynamics.network import make_network as make_network
from multistep.dynamics.normaliser import Normaliser as Normaliser
from multistep.dynamics.normaliser import fit_normaliser as fit_normaliser
from multistep.dynamics.observer import Belief as Belief
from multistep.dynamics.observer import Observer as Observer
from multistep.dynamics.rollout import rollout as rollout
