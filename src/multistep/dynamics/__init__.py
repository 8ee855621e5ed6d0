"""What is learned: its contract, the network, the forecast; models in units and in files; the observer."""

from multistep.dynamics.base import AbstractArchitecture as AbstractArchitecture
from multistep.dynamics.base import AbstractDynamics as AbstractDynamics
from multistep.dynamics.base import AbstractModel as AbstractModel
from multistep.dynamics.base import Names as Names
from multistep.dynamics.base import Prediction as Prediction
from multistep.dynamics.base import check_names as check_names
from multistep.dynamics.forecast import advance as advance
from multistep.dynamics.forecast import forecast as forecast
from multistep.dynamics.learner import BATCH as BATCH
from multistep.dynamics.linear import CorrectedConfig as CorrectedConfig
from multistep.dynamics.linear import LineConfig as LineConfig
from multistep.dynamics.linear import Persistence as Persistence
from multistep.dynamics.model import MemoryModel as MemoryModel
from multistep.dynamics.model import Model as Model
from multistep.dynamics.model import in_units as in_units
from multistep.dynamics.model_files import ARCHITECTURES as ARCHITECTURES
from multistep.dynamics.model_files import load_model as load_model
from multistep.dynamics.model_files import save_model as save_model
from multistep.dynamics.network import NetworkConfig as NetworkConfig
from multistep.dynamics.normaliser import Normaliser as Normaliser
from multistep.dynamics.normaliser import fit_normaliser as fit_normaliser
from multistep.dynamics.observer import Belief as Belief
from multistep.dynamics.observer import ObservedModel as ObservedModel
from multistep.dynamics.observer import Observer as Observer
from multistep.dynamics.rollout import rollout as rollout
