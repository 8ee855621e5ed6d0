"""A model as one Python file that needs NumPy and nothing else."""

import base64
import json
from typing import Any

import numpy as np
from numpy import ndarray

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
    "logistic": "1 / (1 + np.exp(-{0}))",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "max": "np.maximum({0}, {1})",
    "min": "np.minimum({0}, {1})",
}
HEAD = '''"""A dynamics model, exported by multistep. It needs NumPy and nothing else.

    memory = start(past_states, past_actions)   # {num_past} past states, oldest first, the actions between
    memory, outputs = step(memory, action)
    outputs = rollout(past_states, past_actions, actions)
"""

import base64

import numpy as np

FACTS = {facts}


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


def numpy_code(programs: StepPrograms, facts: dict[str, Any]) -> str:
    """The file's text.

    **Arguments:**

    - `programs`: the model's start and step.
    - `facts`: names, units and what else is to be known of the model, as plain values.
    """
    writer = _Writer()
    functions = [
        writer.function("start", programs.start, ("past_states", "past_actions")),
        writer.function("step", programs.step, ("memory", "action")),
    ]
    facts_text = json.dumps(facts, indent=4).replace("null", "None").replace("true", "True")
    head = HEAD.replace("{num_past}", str(facts["num_past"])).replace("{facts}", facts_text)
    return head + "\n".join(writer.constants) + "\n\n\n" + "\n\n\n".join(functions) + "\n" + TAIL


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
        return "\n".join([*lines, f"    return {', '.join(map(self._text, program.outputs))}"])

    def _formula(self, operation: Operation) -> str:
        if isinstance(operation, Apply):
            return FUNCTIONS[operation.function].format(*map(self._text, operation.operands))
        if isinstance(operation, Product):
            return f"{self._text(operation.vector)} @ {self._constant(operation.matrix, '<f4')}"
        if isinstance(operation, Pick):
            sources, offsets = (
                operation.sources,
                np.cumsum([0, *(source.size for source in operation.sources)]),
            )
            joined = self._text(sources[0])
            if len(sources) > 1:
                joined = f"np.concatenate([{', '.join(map(self._text, sources))}])"
            places = offsets[operation.places[:, 0]] + operation.places[:, 1]
            if np.array_equal(places, np.arange(offsets[-1])):
                return joined
            return f"{joined}[{_range(places) or self._constant(places, '<i4')}]"
        return f"{self._text(operation.source)}[{self._constant(operation.places, '<i4')}].sum(axis=1)"

    def _text(self, value: Value) -> str:
        if value.constant is None:
            return value.name
        if value.size == 1:
            return f"np.float32({float(value.constant[0])!r})"
        return self._constant(value.constant, "<f4")

    def _constant(self, values: ndarray, kind: str) -> str:
        name, text = f"C{len(self.constants)}", base64.b64encode(values.astype(kind).tobytes()).decode()
        self.constants.append(f'{name} = _array("{text}", "{kind}", {", ".join(map(str, values.shape))})')
        return name


def _range(places: ndarray) -> str:
    """As a slice, if it is one."""
    first, size = int(places[0]), len(places)
    return f"{first}:{first + size}" if np.array_equal(places, first + np.arange(size)) else ""
