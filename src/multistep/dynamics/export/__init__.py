"""A model for use without multistep: the same steps in another language."""

from multistep.dynamics.export.c_code import c_code as c_code
from multistep.dynamics.export.casadi_code import casadi_code as casadi_code
from multistep.dynamics.export.checking import check_close as check_close
from multistep.dynamics.export.facts import Facts as Facts
from multistep.dynamics.export.facts import facts_of as facts_of
from multistep.dynamics.export.numpy_code import numpy_code as numpy_code
from multistep.dynamics.export.onnx_files import not_read_by_do_mpc as not_read_by_do_mpc
from multistep.dynamics.export.onnx_files import onnx_bytes as onnx_bytes
from multistep.dynamics.export.program import Program as Program
from multistep.dynamics.export.program import StepPrograms as StepPrograms
from multistep.dynamics.export.program import programs_of as programs_of
from multistep.dynamics.export.program import rollout_program as rollout_program
