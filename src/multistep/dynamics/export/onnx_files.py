"""A model as an ONNX file: one step, or a rollout of fixed length, made of few kinds of operators."""

import hashlib
import json
from typing import Any

import numpy as np
from numpy import ndarray

from multistep.dynamics.export.program import Apply, Operation, Pick, Product, Program, Value
from multistep.errors import InputError

OPERATORS = {
    "tanh": "Tanh", "sin": "Sin", "cos": "Cos", "exp": "Exp", "log": "Log", "neg": "Neg", "sqrt": "Sqrt",
    "abs": "Abs", "logistic": "Sigmoid", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div",
    "max": "Max", "min": "Min",
}  # fmt: skip
OPSET, IR_VERSION = 17, 8
"""Old enough for every runtime of the last years."""


def onnx_bytes(program: Program, facts: dict[str, Any], output_names: tuple[str, ...]) -> bytes:
    """The file's content; every tensor has the shape (1, numbers).

    **Arguments:**

    - `program`: a step or a rollout.
    - `facts`: what is to be known of the model, as plain values; they are in the file's metadata.
    - `output_names`: names of the program's outputs.
    """
    try:
        from onnx import TensorProto, checker, helper
    except ImportError as error:
        raise InputError('An ONNX file needs another package: pip install "multistep[onnx]".') from error
    writer = _Writer()
    for operation in program.operations:
        writer.add(operation)
    for name, value in zip(output_names, program.outputs, strict=True):
        writer.node("Concat", [writer.text(value)], name, axis=1)
    number = TensorProto.FLOAT
    graph = helper.make_graph(
        writer.nodes,
        "multistep",
        [helper.make_tensor_value_info(value.name, number, [1, value.size]) for value in program.inputs],
        [
            helper.make_tensor_value_info(name, number, [1, value.size])
            for name, value in zip(output_names, program.outputs, strict=True)
        ],
        list(writer.constants.values()),
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="multistep")
    helper.set_model_props(model, {"multistep": json.dumps(facts)})
    checker.check_model(model)
    return model.SerializeToString()


class _Writer:
    """Nodes and constants of a graph; equal constants are kept once."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def add(self, operation: Operation) -> None:
        result = operation.result.name
        if isinstance(operation, Apply):
            self._apply(operation, result)
        elif isinstance(operation, Product):
            self.node("MatMul", [self.text(operation.vector), self._constant(operation.matrix)], result)
        elif isinstance(operation, Pick):
            self._pick(operation, result)
        else:
            picks = np.zeros((operation.source.size, operation.result.size))
            np.add.at(picks, (operation.places.T, np.arange(operation.result.size)[None]), 1)
            self.node("MatMul", [self.text(operation.source), self._constant(picks)], result)

    def _apply(self, operation: Apply, result: str) -> None:
        function, operands = operation.function, operation.operands
        last = operands[-1].constant
        if function == "max" and last is not None and not np.any(last):
            self.node("Relu", [self.text(operands[0])], result)
        elif function == "square":
            self.node("Mul", [self.text(operands[0])] * 2, result)
        elif function == "div" and last is not None:
            # A product is known to more readers than a quotient.
            inverse = self._constant((1 / last.astype(np.float64))[None])
            self.node("Mul", [self.text(operands[0]), inverse], result)
        else:
            self.node(OPERATORS[function], list(map(self.text, operands)), result)

    def _pick(self, operation: Pick, result: str) -> None:
        """A slice for each run of neighbours, joined."""
        places, parts, first = operation.places, [], 0
        steps = np.diff(places, axis=0)
        breaks = np.flatnonzero((steps[:, 0] != 0) | (steps[:, 1] != 1)) + 1
        for last in [*breaks.tolist(), len(places)]:
            source, begin = operation.sources[places[first, 0]], int(places[first, 1])
            text = self.text(source)
            if (begin, last - first) != (0, source.size):
                ends = (self._integers(number) for number in (begin, begin + last - first, 1))
                begin_text, end_text, axis = ends
                text = self.node("Slice", [text, begin_text, end_text, axis], f"{result}_{len(parts)}")
            parts.append(text)
            first = last
        self.node("Concat", parts, result, axis=1)

    def text(self, value: Value) -> str:
        return value.name if value.constant is None else self._constant(value.constant[None])

    def _constant(self, values: ndarray) -> str:
        return self._kept(np.ascontiguousarray(values, np.float32))

    def _integers(self, number: int) -> str:
        return self._kept(np.array([number], np.int64))

    def _kept(self, array: ndarray) -> str:
        from onnx import numpy_helper

        content = f"{array.dtype}{array.shape}".encode() + array.tobytes()
        name = f"c_{hashlib.sha256(content).hexdigest()[:16]}"
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(array, name)
        return name
