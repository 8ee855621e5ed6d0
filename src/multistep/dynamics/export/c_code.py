"""A model as one C99 file: no allocation, no library but the mathematical one."""

from collections.abc import Iterable

import numpy as np
from numpy import ndarray

from multistep.dynamics.export.facts import Facts, Signal, lows_and_highs
from multistep.dynamics.export.program import Apply, Operation, Pick, Product, Program, StepPrograms, Value

FUNCTIONS = {
    "tanh": "FUNCTION(tanh)({0})",
    "sin": "FUNCTION(sin)({0})",
    "cos": "FUNCTION(cos)({0})",
    "exp": "FUNCTION(exp)({0})",
    "log": "FUNCTION(log)({0})",
    "neg": "-{0}",
    "sqrt": "FUNCTION(sqrt)({0})",
    "abs": "FUNCTION(fabs)({0})",
    "square": "{0} * {0}",
    "logistic": "1.0f / (1.0f + FUNCTION(exp)(-{0}))",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "max": "FUNCTION(fmax)({0}, {1})",
    "min": "FUNCTION(fmin)({0}, {1})",
}
"""With FUNCTION(tanh) for tanh or tanhf."""
FILE = """\
/* {name}: a dynamics model, exported by multistep. C99, no allocation, nothing static that is written to;
   needs -lm. Numbers are float; with -D{NAME}_DOUBLE they are double, here and where the functions are
   called. A step has about {stack} numbers on the stack; there are {constants} constants.

   One step is {time_step}.

   int {name}_start(past_states, past_actions, memory)
       Fills memory[{memory_size}] from {past}.
   int {name}_step(memory, action, next_memory, outputs)
       From memory and action[{num_actions}] to the memory one step later and outputs[{num_states}], the
       states then. next_memory may be memory itself.{memory_note}

   Both return how many of the numbers they were given are outside of the range of the training data (or are
   not numbers): above 0 the model is a guess. Count the steps where it is.{watched}

   int {name}_outside(state, action)
       The same of any state and action; with NULL for one of them, of the other.

   Order, units and range of the training data:
{table}

   For the declarations alone, as in other files of the same program:
       #define {NAME}_DECLARATIONS_ONLY
       #include "{name}.c"
*/
#ifndef {NAME}_DECLARED
#define {NAME}_DECLARED
#ifdef {NAME}_DOUBLE
typedef double {name}_real;
#else
typedef float {name}_real;
#endif

{sizes}

#ifdef __cplusplus
extern "C" {{
#endif
int {name}_start(const {name}_real *past_states, const {name}_real *past_actions, {name}_real *memory);
int {name}_step(const {name}_real *memory, const {name}_real *action, {name}_real *next_memory,
    {name}_real *outputs);
int {name}_outside(const {name}_real *state, const {name}_real *action);
#ifdef __cplusplus
}}
#endif
#endif

#ifndef {NAME}_DECLARATIONS_ONLY
#include <math.h>
#include <string.h>
#ifdef {NAME}_DOUBLE
#define {NAME}_FUNCTION(name) name
#else
#define {NAME}_FUNCTION(name) name##f
#endif

{arrays}

int {name}_outside(const {name}_real *state, const {name}_real *action) {{
    int count = 0;
    for (int i = 0; state && i < {num_states}; i++)
        count += !(state[i] >= {name}_state_low[i] && state[i] <= {name}_state_high[i]);
    for (int i = 0; action && i < {num_actions}; i++)
        count += !(action[i] >= {name}_action_low[i] && action[i] <= {name}_action_high[i]);
    return count;
}}

int {name}_start(const {name}_real *past_states, const {name}_real *past_actions, {name}_real *memory) {{
    int outside = 0;
    for (int i = 0; i < {num_past}; i++)
        outside += {name}_outside(past_states + i * {num_states}, 0);
    for (int i = 0; i < {num_past} - 1; i++)
        outside += {name}_outside(0, past_actions + i * {num_actions});
{start}
    return outside;
}}

int {name}_step(const {name}_real *memory, const {name}_real *action, {name}_real *next_memory,
    {name}_real *outputs) {{
    int outside = {name}_outside({state_then}, action);
{step}
    return outside{state_later};
}}
#endif
"""


def c_code(programs: StepPrograms, facts: Facts) -> str:
    """The file's text.

    **Arguments:**

    - `programs`: the model's start and step.
    - `facts`: what is to be known of the model; its name is what the names of the functions begin with.
    """
    name, writer = facts.name, _Writer(facts.name)
    for of, signals in (("state", facts.states), ("action", facts.actions)):
        for end, values in zip(("low", "high"), lows_and_highs(signals), strict=True):
            writer.keep(f"{name}_real", f"{name}_{of}_{end}", [_limit(value, name) for value in values])
    start = writer.body(programs.start, ("memory",))
    step = writer.body(programs.step, ("next_memory", "outputs"))
    is_state = facts.num_past == 1
    unit = (
        ""
        if facts.time_step is None
        else f"{facts.time_step:g} in the unit of the training data's time column"
    )
    sizes = {
        "NUM_PAST": facts.num_past,
        "NUM_STATES": len(facts.states),
        "NUM_ACTIONS": len(facts.actions),
        "MEMORY_SIZE": facts.memory_size,
    }
    return FILE.format(
        name=name,
        NAME=name.upper(),
        time_step=unit or "as long as it was in the training data",
        past=_past(facts),
        memory_note="\n       The memory is the state itself: a measured state can be put in its place."
        * is_state,
        watched="\n   A step looks at the action and the outputs." * (not is_state),
        table=_table(facts),
        sizes="\n".join(f"#define {name.upper()}_{what} {size}" for what, size in sizes.items()),
        arrays="\n".join(writer.arrays),
        stack=sum(operation.result.size for operation in programs.step.operations),
        constants=writer.num_constants,
        start=start,
        step=step,
        state_then="memory" if is_state else "0",
        state_later="" if is_state else f" + {name}_outside(outputs, 0)",
        memory_size=facts.memory_size,
        num_past=facts.num_past,
        num_states=len(facts.states),
        num_actions=len(facts.actions),
    )


def _past(facts: Facts) -> str:
    states = f"past_states[{facts.num_past * len(facts.states)}]"
    if facts.num_past == 1:
        return f"{states}, one state; past_actions is not read and may be NULL"
    actions = f"past_actions[{(facts.num_past - 1) * len(facts.actions)}]"
    return (
        f"{states}, {facts.num_past} samples one after the other,\n"
        f"       the oldest first, and {actions}, the actions between them"
    )


def _table(facts: Facts) -> str:
    """A line for each number of a state and of an action."""
    rows = [
        (f"{of}[{number}]", _in_comment(signal.name), _in_comment(signal.unit or "-"), *_ends(signal))
        for of, signals in (("state", facts.states), ("action", facts.actions))
        for number, signal in enumerate(signals)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "       " + "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _ends(signal: Signal) -> tuple[str, str]:
    if signal.low is None or signal.high is None:
        return "range not kept, or any", ""
    return f"{signal.low:.6g} to", f"{signal.high:.6g}"


def _in_comment(text: str) -> str:
    """Without what would end the comment or begin another, on one line."""
    return " ".join(text.split()).replace("*/", "* /").replace("/*", "/ *")


class _Writer:
    """Bodies of functions, and the constants that they share."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arrays: list[str] = []
        self.num_constants = 0

    def body(self, program: Program, outputs: tuple[str, ...]) -> str:
        lines = [f"(void){value.name};" for value in program.inputs]
        lines += [f"{self.name}_real {o.result.name}[{o.result.size}];" for o in program.operations]
        for operation in program.operations:
            lines += self._statements(operation)
        for name, value in zip(outputs, program.outputs, strict=True):
            lines.append(f"memmove({name}, {self._array(value)}, {value.size} * sizeof *{name});")
        return "\n".join(f"    {line}" for line in lines)

    def _statements(self, operation: Operation) -> Iterable[str]:
        result, size = operation.result.name, operation.result.size
        loop = f"for (int i = 0; i < {size}; i++)"
        if isinstance(operation, Apply):
            formula = FUNCTIONS[operation.function].replace("FUNCTION", f"{self.name.upper()}_FUNCTION")
            return [f"{loop} {result}[i] = {formula.format(*map(self._element, operation.operands))};"]
        if isinstance(operation, Product):
            matrix, vector = self.array(operation.matrix), self._array(operation.vector)
            return [
                f"{loop} {result}[i] = 0.0f;",
                # Row by row: the compiler makes vector instructions of the inner loop.
                f"for (int j = 0; j < {operation.vector.size}; j++) {{",
                f"    const {self.name}_real x = {vector}[j];",
                f"    {loop} {result}[i] += x * {matrix}[j * {size} + i];",
                "}",
            ]
        if isinstance(operation, Pick):
            return self._moves(operation)
        places, width = self.array(operation.places), operation.places.shape[1]
        source = self._array(operation.source)
        return [
            f"{loop} {{",
            f"    {result}[i] = 0.0f;",
            f"    for (int j = 0; j < {width}; j++) {result}[i] += {source}[{places}[i * {width} + j]];",
            "}",
        ]

    def _moves(self, operation: Pick) -> Iterable[str]:
        """One move for each run of neighbours."""
        result = operation.result.name
        for first, last in operation.runs:
            source, begin = operation.places[first]
            text = f"{self._array(operation.sources[source])} + {begin}"
            yield f"memcpy({result} + {first}, {text}, {last - first} * sizeof *{result});"

    def _element(self, value: Value) -> str:
        if value.constant is not None and value.size == 1:
            return _number(float(value.constant[0]))
        return f"{self._array(value)}[{'0' if value.size == 1 else 'i'}]"

    def _array(self, value: Value) -> str:
        return value.name if value.constant is None else self.array(value.constant)

    def array(self, values: ndarray) -> str:
        """The name of a constant with these values."""
        is_real, name = values.dtype.kind == "f", f"{self.name}_c{len(self.arrays)}"
        texts = [_number(float(value)) if is_real else str(int(value)) for value in values.ravel()]
        return self.keep(f"{self.name}_real" if is_real else "int", name, texts)

    def keep(self, kind: str, name: str, texts: list[str]) -> str:
        texts = texts or ["0"]  # C has no empty arrays
        self.arrays.append(f"static const {kind} {name}[{len(texts)}] = {{{', '.join(texts)}}};")
        self.num_constants += len(texts)
        return name


def _number(value: float) -> str:
    """In nine digits, which single precision has exactly one number for."""
    if not np.isfinite(value):
        return "NAN" if np.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    text = f"{value:.9g}"
    return f"{text}f" if any(sign in text for sign in ".e") else f"{text}.0f"


def _limit(value: float, name: str) -> str:
    """Of a range, in whatever precision there is: 0.7 is within 0.7 in both."""
    return f"({name}_real){value!r}" if np.isfinite(value) else _number(value)
