"""How right a model is at each horizon. Knows no loss and no optimiser."""

from multistep.evaluation.free_run import FreeRun as FreeRun
from multistep.evaluation.free_run import FreeRunR2 as FreeRunR2
from multistep.evaluation.free_run import FreeRunScores as FreeRunScores
from multistep.evaluation.free_run import free_run as free_run
from multistep.evaluation.free_run import free_run_scores as free_run_scores
from multistep.evaluation.intervals import mean_interval as mean_interval
from multistep.evaluation.r2 import ErrorSums as ErrorSums
from multistep.evaluation.r2 import Scores as Scores
from multistep.evaluation.r2 import check_horizon as check_horizon
from multistep.evaluation.r2 import scores_of as scores_of
from multistep.evaluation.r2 import usual_horizon as usual_horizon
from multistep.evaluation.score import R2Bar as R2Bar
from multistep.evaluation.score import advantage as advantage
from multistep.evaluation.score import score as score
from multistep.evaluation.score import unexplained as unexplained
