"""`fit`, its configuration and what it returns."""

from multistep.training.config import DEFAULT as DEFAULT
from multistep.training.config import PAPER as PAPER
from multistep.training.config import PRESETS as PRESETS
from multistep.training.config import SMOOTHED as SMOOTHED
from multistep.training.config import FitConfig as FitConfig
from multistep.training.config import Preset as Preset
from multistep.training.config import Smoothed as Smoothed
from multistep.training.fit import Fit as Fit
from multistep.training.fit import fit as fit
from multistep.training.history import Epoch as Epoch
from multistep.training.history import Outcome as Outcome
from multistep.training.smoothing import SmoothedFit as SmoothedFit
from multistep.training.smoothing import fit_observer as fit_observer
from multistep.training.smoothing import fit_smoothed as fit_smoothed
from multistep.training.smoothing import learn as learn
from multistep.training.smoothing import smooth as smooth
