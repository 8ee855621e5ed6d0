"""The environments of the paper, each one object, and the catalogue of datasets; they need the extra
`tasks`."""

from multistep.tasks.cartpole import CARTPOLE as CARTPOLE
from multistep.tasks.halfcheetah import HALFCHEETAH as HALFCHEETAH
from multistep.tasks.swimmer import SWIMMER as SWIMMER
from multistep.tasks.task import Task as Task

TASKS = {task.name: task for task in (CARTPOLE, SWIMMER, HALFCHEETAH)}
