"""A dynamics as a short list of plain operations, which any language can repeat: products with constant
matrices, functions of each number, and picking numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.flatten_util import ravel_pytree
from numpy import ndarray

from multistep.data import Past
from multistep.dynamics.base import AbstractDynamics
from multistep.errors import InputError

UNARY = {
    "tanh": "tanh", "sin": "sin", "cos": "cos", "exp": "exp", "log": "log", "neg": "neg", "sqrt": "sqrt",
    "abs": "abs", "logistic": "logistic", "copy": "copy", "convert_element_type": "copy", "square": "square",
}  # fmt: skip
"""Functions of each number, by JAX's name and by ours."""
BINARY = {
    "add": "add", "add_any": "add", "sub": "sub", "mul": "mul", "div": "div", "max": "max", "min": "min",
}  # fmt: skip
MOVES = (
    "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "slice", "rev", "transpose", "split",
    "concatenate", "stack", "tile",
)  # fmt: skip
INDEXED = ("gather", "dynamic_slice")
CALLS = ("pjit", "jit", "custom_jvp_call", "custom_vjp_call", "closed_call", "core_call", "remat")


@dataclass(frozen=True, eq=False)
class Value:
    """Numbers of a program: a constant, an input, or what an operation before has left; always flat."""

    name: str
    size: int
    constant: ndarray | None = None


@dataclass(frozen=True, eq=False)
class Apply:
    """result[i] = function(a[i]) or function(a[i], b[i]); an operand of one number stands for all."""

    result: Value
    function: str
    operands: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Product:
    """result = vector times matrix."""

    result: Value
    vector: Value
    matrix: ndarray
    """Inputs by outputs."""


@dataclass(frozen=True, eq=False)
class Pick:
    """result[i] = sources[k][j] with (k, j) = places[i]."""

    result: Value
    sources: tuple[Value, ...]
    places: ndarray

    @property
    def runs(self) -> list[tuple[int, int]]:
        """Where in the result each run of neighbours in the same source begins and ends."""
        steps = np.diff(self.places, axis=0)
        breaks = np.flatnonzero((steps[:, 0] != 0) | (steps[:, 1] != 1)) + 1
        return list(pairwise([0, *breaks.tolist(), len(self.places)]))

    @property
    def joined_places(self) -> ndarray:
        """The places in all sources, one after the other."""
        offsets = np.cumsum([0, *(source.size for source in self.sources)])
        return offsets[self.places[:, 0]] + self.places[:, 1]

    @property
    def takes_all(self) -> bool:
        """Whether it is all of the sources, one after the other."""
        return np.array_equal(self.joined_places, np.arange(sum(source.size for source in self.sources)))


@dataclass(frozen=True, eq=False)
class Total:
    """result[i] = sum over j of source[places[i, j]]."""

    result: Value
    source: Value
    places: ndarray


Operation = Apply | Product | Pick | Total


@dataclass(frozen=True, eq=False)
class Program:
    """Operations in order, from inputs to outputs."""

    inputs: tuple[Value, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class StepPrograms:
    """A dynamics as two programs: the memory after the past, and one step."""

    memory_size: int
    start: Program
    """From past states and past actions, each flat with the oldest first, to the memory."""
    step: Program
    """From memory and action to the memory after it and what is observed then."""


def programs_of(model: AbstractDynamics, state_size: int, action_size: int) -> StepPrograms:
    """The model's start and step.

    **Arguments:**

    - `model`: in the user's units.
    - `state_size`, `action_size`: numbers of states and actions.
    """
    past = Past(jnp.zeros((model.num_past, state_size)), jnp.zeros((model.num_past - 1, action_size)))
    flat, restore = ravel_pytree(model.start(past))

    def start(states: jax.Array, actions: jax.Array) -> jax.Array:
        shaped = Past(states.reshape(past.states.shape), actions.reshape(past.actions.shape))
        return ravel_pytree(model.start(shaped))[0]

    def step(memory: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        following = model.step(restore(memory), action)
        return ravel_pytree(following)[0], model.predict(following).mean

    sizes = {"past_states": past.states.size, "past_actions": past.actions.size}
    return StepPrograms(
        flat.size,
        lower(start, sizes),
        lower(step, {"memory": flat.size, "action": action_size}),
    )


def rollout_program(model: AbstractDynamics, state_size: int, action_size: int, num_steps: int) -> Program:
    """From memory and so many actions, one after the other, to what is observed after each; step by step."""
    past = Past(jnp.zeros((model.num_past, state_size)), jnp.zeros((model.num_past - 1, action_size)))
    flat, restore = ravel_pytree(model.start(past))

    def rollout(memory: jax.Array, actions: jax.Array) -> jax.Array:
        carried, outputs = restore(memory), []
        for number in range(num_steps):
            carried = model.step(carried, actions[number * action_size : (number + 1) * action_size])
            outputs.append(model.predict(carried).mean)
        return jnp.concatenate(outputs)

    return lower(rollout, {"memory": flat.size, "actions": num_steps * action_size})


def lower(function: Callable[..., Any], sizes: Mapping[str, int]) -> Program:
    """The operations of a function of flat arrays of these sizes."""
    closed = jax.make_jaxpr(function)(*(jnp.zeros(size) for size in sizes.values()))
    lowering = _Lowering()
    inputs = tuple(Value(name, size) for name, size in sizes.items())
    outputs = lowering.run(closed.jaxpr, closed.consts, list(inputs))
    return Program(inputs, tuple(lowering.operations), tuple(outputs))


class _Lowering:
    """The walk through JAX's own intermediate form."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def run(self, jaxpr: Any, constants: Any, arguments: list[Value]) -> list[Value]:
        known: dict[Any, Value] = {}
        for variable, constant in zip(jaxpr.constvars, constants, strict=True):
            known[variable] = self._constant(constant)
        known.update(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> Value:
            return self._constant(atom.val) if isinstance(atom, core.Literal) else known[atom]

        for equation in jaxpr.eqns:
            operands = [read(atom) for atom in equation.invars]
            results = self._equation(equation, operands)
            known.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, operands: list[Value]) -> list[Value]:
        name, parameters = equation.primitive.name, equation.params
        shapes = [atom.aval.shape for atom in equation.invars]
        out = equation.outvars[0].aval
        if name in CALLS:
            inner = parameters.get("jaxpr") or parameters.get("call_jaxpr")
            closed = inner if hasattr(inner, "consts") else None
            jaxpr, constants = (closed.jaxpr, closed.consts) if closed is not None else (inner, ())
            return self.run(jaxpr, constants, operands)
        if all(operand.constant is not None for operand in operands):
            values = [
                np.asarray(o.constant).reshape(shape) for o, shape in zip(operands, shapes, strict=True)
            ]
            return [self._constant(equation.primitive.bind(*map(jnp.asarray, values), **parameters))]
        if name in MOVES:
            return self._pick(equation, operands, shapes)
        if name in INDEXED and all(operand.constant is not None for operand in operands[1:]):
            return self._pick(equation, operands, shapes, num_moved=1)
        if name in UNARY:
            return [self._apply(UNARY[name], operands, out.size)]
        if name in BINARY:
            spread = [self._spread(*pair, out.shape) for pair in zip(operands, shapes, strict=True)]
            return [self._apply(BINARY[name], spread, out.size)]
        if name == "integer_pow" and parameters["y"] == 2:
            return [self._apply("square", operands, out.size)]
        if name == "dot_general":
            return [self._product(operands, shapes, parameters["dimension_numbers"], out.size)]
        if name == "reduce_sum":
            places = np.arange(operands[0].size).reshape(shapes[0])
            places = np.moveaxis(places, parameters["axes"], range(-len(parameters["axes"]), 0))
            self.operations.append(Total(self._new(out.size), operands[0], places.reshape(out.size, -1)))
            return [self.operations[-1].result]
        raise InputError(
            f"The model has an operation, {name}, that no export knows of: export a network, a line, or one "
            "of them with lags or a hidden state."
        )

    def _pick(
        self, equation: Any, operands: list[Value], shapes: list[Any], num_moved: int | None = None
    ) -> list[Value]:
        """Where each number comes from is found by moving the numbers of the places instead; operands after
        the first `num_moved` are where to look."""
        where = [] if num_moved is None else operands[num_moved:]
        indices = [
            jnp.asarray(np.asarray(operand.constant).reshape(shape))
            for operand, shape in zip(where, shapes[len(shapes) - len(where) :], strict=True)
        ]
        operands = operands[:num_moved]
        offsets = np.cumsum([0] + [operand.size for operand in operands])
        moved = [
            jnp.asarray(offset + np.arange(operand.size).reshape(shape), jnp.int32)
            for offset, operand, shape in zip(offsets, operands, shapes, strict=False)
        ]
        bound = equation.primitive.bind(*moved, *indices, **equation.params)
        several = bound if equation.primitive.multiple_results else [bound]
        return [self._picked(np.asarray(places).ravel(), operands, offsets) for places in several]

    def _picked(self, places: ndarray, operands: list[Value], offsets: ndarray) -> Value:
        if len(operands) == 1 and np.array_equal(places, np.arange(operands[0].size)):
            return operands[0]
        which = np.searchsorted(offsets, places, side="right") - 1
        result = self._new(places.size)
        pairs = np.stack([which, places - offsets[which]], axis=1)
        self.operations.append(Pick(result, tuple(operands), pairs))
        return result

    def _spread(self, operand: Value, shape: tuple[int, ...], wanted: tuple[int, ...]) -> Value:
        """The operand with the numbers that the other one has; one number stands for all as it is."""
        if operand.size == 1 or shape == wanted:
            return operand
        places = np.broadcast_to(np.arange(operand.size).reshape(shape), wanted).ravel()
        if operand.constant is not None:
            return self._constant(operand.constant[places])
        return self._picked(places, [operand], np.array([0, operand.size]))

    def _product(self, operands: list[Value], shapes: list[Any], numbers: Any, size: int) -> Value:
        ((left,), (right,)), batch = numbers[0], numbers[1]
        first, second = operands
        if batch != ((), ()) or len(shapes[0]) > 2 or len(shapes[1]) > 2:
            raise InputError("The model has a product of more than a vector and a matrix: it has no export.")
        if second.constant is not None and len(shapes[0]) == 1:
            matrix = np.moveaxis(second.constant.reshape(shapes[1]), right, 0).astype(np.float64)
            vector = first
        elif first.constant is not None and len(shapes[1]) == 1:
            matrix = np.moveaxis(first.constant.reshape(shapes[0]), left, 0).astype(np.float64)
            vector = second
        else:
            raise InputError("The model has a product of two things that vary: it has no export.")
        result = self._new(size)
        self.operations.append(Product(result, vector, matrix.reshape(vector.size, size)))
        return result

    def _apply(self, function: str, operands: list[Value], size: int) -> Value:
        if function == "copy":
            return operands[0]
        result = self._new(size)
        self.operations.append(Apply(result, function, tuple(operands)))
        return result

    def _constant(self, value: Any) -> Value:
        flat = np.asarray(value).ravel()
        return Value("", flat.size, flat)

    def _new(self, size: int) -> Value:
        return Value(f"v{len(self.operations)}", size)
