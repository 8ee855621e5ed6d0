"""A model as one C99 file: no allocation, no library but the mathematical one."""

import json
from typing import Any

import numpy as np
from numpy import ndarray

from multistep.dynamics.export.program import Apply, Operation, Pick, Product, Program, StepPrograms, Value

FUNCTIONS = {
    "tanh": "tanhf({0})",
    "sin": "sinf({0})",
    "cos": "cosf({0})",
    "exp": "expf({0})",
    "log": "logf({0})",
    "neg": "-{0}",
    "sqrt": "sqrtf({0})",
    "abs": "fabsf({0})",
    "square": "{0} * {0}",
    "logistic": "1.0f / (1.0f + expf(-{0}))",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "max": "fmaxf({0}, {1})",
    "min": "fminf({0}, {1})",
}


def c_code(programs: StepPrograms, facts: dict[str, Any], name: str = "model") -> str:
    """The file's text.

    **Arguments:**

    - `programs`: the model's start and step.
    - `facts`: names, units and what else is to be known of the model, as plain values; they stand in a
      comment.
    - `name`: what the names of its functions begin with.
    """
    upper, writer = name.upper(), _Writer(name)
    start = writer.function(
        f"void {name}_start(const float *past_states, const float *past_actions, float *memory)",
        programs.start,
        ("memory",),
    )
    step = writer.function(
        f"void {name}_step(const float *memory, const float *action, float *next_memory, float *outputs)",
        programs.step,
        ("next_memory", "outputs"),
    )
    sizes = {
        "NUM_PAST": facts["num_past"],
        "NUM_STATES": len(facts["states"]),
        "NUM_ACTIONS": len(facts["actions"]),
        "MEMORY_SIZE": programs.memory_size,
    }
    comment = json.dumps(facts, indent=1).replace("*/", "* /")
    lines = [
        "/* A dynamics model, exported by multistep. Compile with -lm.",
        f"   {name}_start: the memory, from {facts['num_past']} past states, oldest first, and the actions",
        "   between them.",
        f"   {name}_step: the memory one step later, and the outputs; next_memory may be memory itself.",
        comment + " */",
        "#include <math.h>",
        "#include <string.h>",
        "",
        *(f"#define {upper}_{what} {size}" for what, size in sizes.items()),
        "",
        *writer.constants,
        "",
        start,
        step,
    ]
    return "\n".join(lines)


class _Writer:
    """Functions, and the constants that they share."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.constants: list[str] = []

    def function(self, signature: str, program: Program, outputs: tuple[str, ...]) -> str:
        lines = [f"{signature} {{"]
        lines += [f"    (void){value.name};" for value in program.inputs]
        lines += [f"    float {o.result.name}[{o.result.size}];" for o in program.operations]
        for operation in program.operations:
            lines += self._statements(operation)
        for name, value in zip(outputs, program.outputs, strict=True):
            lines.append(f"    memmove({name}, {self._array(value)}, {value.size} * sizeof(float));")
        return "\n".join([*lines, "}", ""])

    def _statements(self, operation: Operation) -> list[str]:
        result, size = operation.result.name, operation.result.size
        loop = f"    for (int i = 0; i < {size}; i++)"
        if isinstance(operation, Apply):
            formula = FUNCTIONS[operation.function].format(*map(self._element, operation.operands))
            return [f"{loop} {result}[i] = {formula};"]
        if isinstance(operation, Product):
            matrix, vector = self._constant(operation.matrix), self._array(operation.vector)
            inner = f"    for (int j = 0; j < {operation.vector.size}; j++)"
            return [
                f"{loop} {result}[i] = 0.0f;",
                # Row by row: the compiler makes vector instructions of the inner loop.
                f"{inner} {{",
                f"        const float x = {vector}[j];",
                f"        for (int i = 0; i < {size}; i++) {result}[i] += x * {matrix}[j * {size} + i];",
                "    }",
            ]
        if isinstance(operation, Pick):
            return self._moves(operation)
        places = self._constant(operation.places)
        width = operation.places.shape[1]
        return [
            f"{loop} {{",
            f"        {result}[i] = 0.0f;",
            f"        for (int j = 0; j < {width}; j++) "
            f"{result}[i] += {self._array(operation.source)}[{places}[i * {width} + j]];",
            "    }",
        ]

    def _moves(self, operation: Pick) -> list[str]:
        """One loop for each run of neighbours."""
        places, lines, first = operation.places, [], 0
        steps = np.diff(places, axis=0)
        breaks = np.flatnonzero((steps[:, 0] != 0) | (steps[:, 1] != 1)) + 1
        for last in [*breaks.tolist(), len(places)]:
            source, begin = self._array(operation.sources[places[first, 0]]), places[first, 1]
            count = last - first
            lines.append(
                f"    memcpy({operation.result.name} + {first}, {source} + {begin}, {count} * sizeof(float));"
            )
            first = last
        return lines

    def _element(self, value: Value) -> str:
        if value.constant is not None and value.size == 1:
            return _number(float(value.constant[0]))
        return f"{self._array(value)}[{'0' if value.size == 1 else 'i'}]"

    def _array(self, value: Value) -> str:
        return value.name if value.constant is None else self._constant(value.constant)

    def _constant(self, values: ndarray) -> str:
        name, flat = f"{self.name}_c{len(self.constants)}", values.ravel()
        kind, text = ("float", _number) if values.dtype.kind == "f" else ("int", lambda x: str(int(x)))
        numbers = ", ".join(text(float(number)) for number in flat)
        self.constants.append(f"static const {kind} {name}[{flat.size}] = {{{numbers}}};")
        return name


def _number(value: float) -> str:
    """In nine digits, which single precision has exactly one number for."""
    text = f"{value:.9g}"
    return f"{text}f" if any(sign in text for sign in ".en") else f"{text}.0f"
