"""A model as one Python file that needs NumPy and nothing else."""

import base64
from pprint import pformat

import numpy as np
from numpy import ndarray

from multistep.dynamics.export.facts import Facts
from multistep.dynamics.export.program import Apply, Operation, Pick, Product, Program, StepPrograms, Value

FUNCTIONS = {
    "tanh": "np.tanh({0})",
    "sin": "np.sin({0})",
    "cos": "np.cos({0})",
    "exp": "np.exp({0})",
    "log": "np.log({0})",
    "neg": "-{0}",
    "sqrt": "np.sqrt({0})",
    "abs": "np.abs({0})",
    "square": "{0} * {0}",
    "logistic": "0.5 + 0.5 * np.tanh(0.5 * {0})",  # without the overflow of exp
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "max": "np.maximum({0}, {1})",
    "min": "np.minimum({0}, {1})",
}
HEAD = '''"""A dynamics model, exported by multistep. It needs NumPy and nothing else; numbers are float32.

    memory = start(past_states, past_actions)
    memory, outputs = step(memory, action)
    outputs = rollout(past_states, past_actions, actions)

{past}
FACTS has names, order, units, means and deviations, the time step, and the range of the training data; None:
not known, or (of a range) any number. COUNTED counts the calls of step{watched}, and those with a state or an
action outside of that range, where the model is a guess: there is one warning at the first.
"""

import base64
import warnings

import numpy as np

FACTS = {facts}
COUNTED = {"calls": 0, "outside": 0}
_KINDS = ("states", "actions")
LOW, HIGH = (
    {of: np.array([none if own[end] is None else own[end] for own in FACTS[of]], np.float32) for of in _KINDS}
    for end, none in (("low", -np.inf), ("high", np.inf))
)


def outside(state=None, action=None):
    """How many numbers of the state and the action are outside of the range of the training data."""
    count = 0
    for of, numbers in zip(_KINDS, (state, action)):
        if numbers is not None:
            numbers = np.asarray(numbers, np.float32).reshape(-1, len(LOW[of]))
            count += numbers.size - int(np.count_nonzero((numbers >= LOW[of]) & (numbers <= HIGH[of])))
    return count


def _count(state, action):
    COUNTED["calls"] += 1
    if outside(state, action):
        COUNTED["outside"] += 1
        if COUNTED["outside"] == 1:
            warnings.warn(
                "A state or an action is outside of the range of the training data, where the model is a "
                "guess: COUNTED counts the calls where it is.",
                stacklevel=3,
            )


def _array(text, kind, *shape):
    return np.frombuffer(base64.b64decode(text), kind).reshape(shape)


'''
TAIL = '''

def rollout(past_states, past_actions, actions):
    """What is observed after each of the actions, one row each."""
    memory, outputs = start(past_states, past_actions), []
    for action in np.asarray(actions, np.float32):
        memory, output = step(memory, action)
        outputs.append(output)
    return np.stack(outputs)
'''
OF_ONE = "The memory is the state itself: past_states is one state, past_actions is empty."
OF_SEVERAL = "past_states has {0} rows, the oldest first, past_actions the {1} rows between them."


def numpy_code(programs: StepPrograms, facts: Facts) -> str:
    """The file's text.

    **Arguments:**

    - `programs`: the model's start and step.
    - `facts`: what is to be known of the model.
    """
    writer = _Writer()
    start = writer.function("start", programs.start, ("past_states", "past_actions"))
    step = writer.function("step", programs.step, ("memory", "action"))
    # The state before the step; where memory is something else, what is observed after it.
    is_state = facts.num_past == 1
    step = _counting(step, "memory" if is_state else writer.text(programs.step.outputs[-1]), "action")
    start = start if is_state else _counting(start, "past_states", "past_actions")
    past = OF_ONE if is_state else OF_SEVERAL.format(facts.num_past, facts.num_past - 1)
    literal = pformat(facts.plain, width=110, sort_dicts=False)
    head = HEAD.replace("{past}", past).replace("{watched}", "" if is_state else " and start")
    head = head.replace("{facts}", literal)
    return head + "\n".join(writer.constants) + f"\n\n\n{start}\n\n\n{step}\n{TAIL}"


def _counting(function: str, state: str, action: str) -> str:
    """The function, its last line before the result a count of what is outside."""
    before, _, result = function.rpartition("    return ")
    return f"{before}    _count({state}, {action})\n    return {result}"


class _Writer:
    """Functions, and the constants that they share."""

    def __init__(self) -> None:
        self.constants: list[str] = []

    def function(self, name: str, program: Program, arguments: tuple[str, ...]) -> str:
        lines = [f"def {name}({', '.join(arguments)}):"]
        lines += [f"    {argument} = np.asarray({argument}, np.float32).ravel()" for argument in arguments]
        lines += [
            f"    {operation.result.name} = {self._formula(operation)}" for operation in program.operations
        ]
        return "\n".join([*lines, f"    return {', '.join(map(self.text, program.outputs))}"])

    def _formula(self, operation: Operation) -> str:
        if isinstance(operation, Apply):
            return FUNCTIONS[operation.function].format(*map(self.text, operation.operands))
        if isinstance(operation, Product):
            return f"{self.text(operation.vector)} @ {self._constant(operation.matrix, '<f4')}"
        if isinstance(operation, Pick):
            joined = self.text(operation.sources[0])
            if len(operation.sources) > 1:
                joined = f"np.concatenate([{', '.join(map(self.text, operation.sources))}])"
            if operation.takes_all:
                return joined
            places = operation.joined_places
            return f"{joined}[{as_slice(places) or self._constant(places, '<i4')}]"
        return f"{self.text(operation.source)}[{self._constant(operation.places, '<i4')}].sum(axis=1)"

    def text(self, value: Value) -> str:
        if value.constant is None:
            return value.name
        if value.size == 1:
            return f"np.float32({float(value.constant[0])!r})"
        return self._constant(value.constant, "<f4")

    def _constant(self, values: ndarray, kind: str) -> str:
        name, text = f"C{len(self.constants)}", base64.b64encode(values.astype(kind).tobytes()).decode()
        self.constants.append(f'{name} = _array("{text}", "{kind}", {", ".join(map(str, values.shape))})')
        return name


def as_slice(places: ndarray) -> str:
    """As a slice, if it is one."""
    first, size = int(places[0]), len(places)
    return f"{first}:{first + size}" if np.array_equal(places, first + np.arange(size)) else ""
