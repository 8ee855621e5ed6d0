"""Error at each horizon, and the weights that make it a loss."""

from multistep.losses.base import AbstractLoss as AbstractLoss
from multistep.losses.base import LossReport as LossReport
from multistep.losses.base import forecast_batch as forecast_batch
from multistep.losses.base import side_by_side as side_by_side
from multistep.losses.hallucinated import HallucinatedReplay as HallucinatedReplay
from multistep.losses.likelihood import Likelihood as Likelihood
from multistep.losses.likelihood import negative_log_likelihood as negative_log_likelihood
from multistep.losses.likelihood import precisions as precisions
from multistep.losses.multistep import MultiStep as MultiStep
from multistep.losses.multistep import multistep_errors as multistep_errors
from multistep.losses.multistep import squared_errors as squared_errors
from multistep.losses.multistep import weighted_loss as weighted_loss
from multistep.losses.noisy import Noisy as Noisy
from multistep.losses.registry import LOSSES as LOSSES
from multistep.losses.scheduled import ScheduledSampling as ScheduledSampling
from multistep.losses.weights import WEIGHTS as WEIGHTS
from multistep.losses.weights import AbstractWeights as AbstractWeights
from multistep.losses.weights import Balanced as Balanced
from multistep.losses.weights import Custom as Custom
from multistep.losses.weights import Exponential as Exponential
from multistep.losses.weights import Uniform as Uniform
from multistep.losses.weights import describe_weights as describe_weights
from multistep.losses.weights import effective_horizon as effective_horizon
from multistep.losses.weights import parse_weights as parse_weights
