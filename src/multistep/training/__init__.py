"""Recipes that make a model of episodes, what they are made of and what they return."""

from multistep.training.base import AbstractCurriculum as AbstractCurriculum
from multistep.training.base import AbstractRecipe as AbstractRecipe
from multistep.training.base import Fit as Fit
from multistep.training.base import Lesson as Lesson
from multistep.training.base import Score as Score
from multistep.training.curricula import CURRICULA as CURRICULA
from multistep.training.curricula import Growing as Growing
from multistep.training.curricula import Steady as Steady
from multistep.training.history import Epoch as Epoch
from multistep.training.history import Outcome as Outcome
from multistep.training.judge import Filtered as Filtered
from multistep.training.judge import judge as judge
from multistep.training.judge import observed as observed
from multistep.training.least_squares import LeastSquares as LeastSquares
from multistep.training.once import Once as Once
from multistep.training.presets import DEFAULT as DEFAULT
from multistep.training.presets import PAPER as PAPER
from multistep.training.presets import PRESETS as PRESETS
from multistep.training.presets import SMOOTHED as SMOOTHED
from multistep.training.presets import Preset as Preset
from multistep.training.quasi_newton import QuasiNewton as QuasiNewton
from multistep.training.settings import Settings as Settings
from multistep.training.smoothed import Smoothed as Smoothed
from multistep.training.smoothing import fit_observer as fit_observer
from multistep.training.smoothing import has_noise as has_noise
from multistep.training.smoothing import smooth as smooth
