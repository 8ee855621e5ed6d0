"""A model as one Python file of CasADi functions.

Code and no serialised function: it holds the facts and several functions, any version of CasADi reads it, and
what do-mpc, acados, MATLAB and C take (expressions, a saved function, generated code) is a line from there.
"""

import base64
from pprint import pformat

import numpy as np
from numpy import ndarray

from multistep.dynamics.export.facts import Facts
from multistep.dynamics.export.numpy_code import as_slice
from multistep.dynamics.export.program import Apply, Operation, Pick, Product, Program, StepPrograms, Value

FUNCTIONS = {
    "tanh": "ca.tanh({0})",
    "sin": "ca.sin({0})",
    "cos": "ca.cos({0})",
    "exp": "ca.exp({0})",
    "log": "ca.log({0})",
    "neg": "-{0}",
    "sqrt": "ca.sqrt({0})",
    "abs": "ca.fabs({0})",
    "square": "{0} * {0}",
    "logistic": "1 / (1 + ca.exp(-{0}))",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "max": "ca.fmax({0}, {1})",
    "min": "ca.fmin({0}, {1})",
}
FILE = '''"""A dynamics model, exported by multistep, as functions of CasADi, which it needs; all is double.

    memory = start(past_states, past_actions)       # casadi.Function, as are the others
    next_memory, outputs = step(memory, action)
    memories, outputs = rollout(20)(memory, actions)
    count = outside(state, action)

Every argument and result has a column for each sample, the oldest first. {past}
FACTS has names, order, units, means and deviations, the time step, and the range of the training data, which
makes good bounds in a controller; None: not known, or (of a range) any number. `outside` counts the numbers
that are outside of that range, where the model is a guess.

step.save("{name}.casadi") leaves a file for CasADi in MATLAB and C++.
"""

import base64
from array import array

import casadi as ca

FACTS = {facts}


def _matrix(text, rows, columns):
    numbers = array("f")
    numbers.frombytes(base64.b64decode(text))
    return ca.DM(numbers.tolist()).reshape((rows, columns))


def _function(name, formulas, **sizes):
    inputs = [ca.MX.sym(name, *size) for name, size in sizes.items()]
    results = formulas(*(ca.vec(value) for value in inputs))
    return ca.Function(name, inputs, list(results.values()), list(sizes), list(results))


def _end(of, end, any_number):
    return ca.DM([any_number if signal[end] is None else signal[end] for signal in FACTS[of]])


def _outside(state, action):
    count = 0
    for of, value in (("states", state), ("actions", action)):
        count += ca.sum1(1 - (value >= _end(of, "low", -ca.inf)) * (value <= _end(of, "high", ca.inf)))
    return {"count": count}


def rollout(steps):
    """From the memory and a column for each action to the memory and the outputs after each."""
    return step.mapaccum("{name}_rollout", steps)


{constants}


{start}


{step}


start = _function(
    "{name}_start", _start, past_states=({states}, {num_past}), past_actions=({actions}, {between})
)
step = _function("{name}_step", _step, memory=({memory_size}, 1), action=({actions}, 1))
outside = _function("{name}_outside", _outside, state=({states}, 1), action=({actions}, 1))
'''
OF_ONE = "The memory is the state itself;\n`start` is not needed then (its past_actions are empty)."
OF_SEVERAL = "past_states has {0} columns,\npast_actions the {1} between them."


def casadi_code(programs: StepPrograms, facts: Facts) -> str:
    """The file's text.

    **Arguments:**

    - `programs`: the model's start and step.
    - `facts`: what is to be known of the model; its name is what the names of the functions begin with.
    """
    writer = _Writer()
    several = OF_SEVERAL.format(facts.num_past, facts.num_past - 1)
    parts = {
        "name": facts.name,
        "past": OF_ONE if facts.num_past == 1 else several,
        "states": str(len(facts.states)),
        "actions": str(len(facts.actions)),
        "num_past": str(facts.num_past),
        "between": str(facts.num_past - 1),
        "memory_size": str(facts.memory_size),
        "start": writer.function("_start", programs.start, ("memory",)),
        "step": writer.function("_step", programs.step, ("next_memory", "outputs")),
        "constants": "\n".join(writer.constants),
        "facts": pformat(facts.plain, width=110, sort_dicts=False),
    }
    text = FILE
    for name, part in parts.items():  # the facts last: a column may have any name
        text = text.replace(f"{{{name}}}", part)
    return text


class _Writer:
    """Functions, and the constants that they share."""

    def __init__(self) -> None:
        self.constants: list[str] = []

    def function(self, name: str, program: Program, outputs: tuple[str, ...]) -> str:
        lines = [f"def {name}({', '.join(value.name for value in program.inputs)}):"]
        lines += [f"    {o.result.name} = {self._formula(o)}" for o in program.operations]
        results = (f'"{o}": {self._text(value)}' for o, value in zip(outputs, program.outputs, strict=True))
        return "\n".join([*lines, f"    return {{{', '.join(results)}}}"])

    def _formula(self, operation: Operation) -> str:
        if isinstance(operation, Apply):
            return FUNCTIONS[operation.function].format(*map(self._text, operation.operands))
        if isinstance(operation, Product):
            return f"ca.mtimes({self._constant(operation.matrix.T)}, {self._text(operation.vector)})"
        if isinstance(operation, Pick):
            joined = self._text(operation.sources[0])
            if len(operation.sources) > 1:
                joined = f"ca.vertcat({', '.join(map(self._text, operation.sources))})"
            if operation.takes_all:
                return joined
            places = operation.joined_places
            return f"{joined}[{as_slice(places) or places.tolist()}]"
        columns = (f"{self._text(operation.source)}[{own}]" for own in operation.places.T.tolist())
        return " + ".join(columns)

    def _text(self, value: Value) -> str:
        if value.constant is None:
            return value.name
        return repr(float(value.constant[0])) if value.size == 1 else self._constant(value.constant[:, None])

    def _constant(self, values: ndarray) -> str:
        """Column by column, as CasADi has it."""
        rows, columns = values.shape
        text = base64.b64encode(np.asarray(values, "<f4").tobytes(order="F")).decode()
        name = f"C{len(self.constants)}"
        self.constants.append(f'{name} = _matrix("{text}", {rows}, {columns})')
        return name
