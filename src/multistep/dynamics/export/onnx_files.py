"""A model as an ONNX file: its start, one step, or a rollout of fixed length, of the few operators that
do-mpc reads, in the form in which it reads them."""

import hashlib
import json
from typing import Any

import numpy as np
from numpy import ndarray

from multistep.dynamics.export.facts import Facts
from multistep.dynamics.export.program import Apply, Operation, Pick, Product, Program, Value
from multistep.errors import InputError

OPERATORS = {
    "tanh": "Tanh", "sin": "Sin", "cos": "Cos", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
    "logistic": "Sigmoid", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div",
}  # fmt: skip
READ_BY_DO_MPC = ("Tanh", "Sigmoid", "Relu", "Add", "Sub", "Mul", "MatMul", "Concat", "Slice")
"""Those of ours; it knows a few more."""
OPSET, IR_VERSION = 9, 8
"""The last opset in which the places of a Slice are attributes: do-mpc looks for them there."""


def onnx_bytes(program: Program, facts: Facts, output_names: tuple[str, ...]) -> bytes:
    """The file's content; every tensor has the shape (1, numbers).

    **Arguments:**

    - `program`: a start, a step or a rollout.
    - `facts`: what is to be known of the model; it is in the file's metadata.
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

    def described(name: str, size: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size], _meaning(name, facts))

    graph = helper.make_graph(
        writer.nodes,
        facts.name,
        [described(value.name, value.size) for value in program.inputs if value.size],
        [described(name, value.size) for name, value in zip(output_names, program.outputs, strict=True)],
        list(writer.constants.values()),
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="multistep")
    helper.set_model_props(model, {"multistep": json.dumps(facts.plain)})
    checker.check_model(model)
    return model.SerializeToString()


def not_read_by_do_mpc(content: bytes) -> list[str]:
    """Operators of an ONNX file of ours that do-mpc does not know."""
    from onnx import ModelProto

    operators = {node.op_type for node in ModelProto.FromString(content).graph.node}
    return sorted(operators - set(READ_BY_DO_MPC))


def _meaning(name: str, facts: Facts) -> str:
    """What the numbers of an input or output are, for those who look at the file."""
    signals = facts.actions if "action" in name else facts.states
    if "memory" in name and facts.num_past > 1:
        return "what the model carries from step to step"
    return ", ".join(s.name if s.unit is None else f"{s.name} [{s.unit}]" for s in signals)


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
            self._apply(operation.function, list(operation.operands), result)
        elif isinstance(operation, Product):
            self.node("MatMul", [self.text(operation.vector), self._constant(operation.matrix)], result)
        elif isinstance(operation, Pick):
            self._pick(operation, result)
        else:
            picks = np.zeros((operation.source.size, operation.result.size))
            np.add.at(picks, (operation.places.T, np.arange(operation.result.size)[None]), 1)
            self.node("MatMul", [self.text(operation.source), self._constant(picks)], result)

    def _apply(self, function: str, operands: list[Value], result: str) -> None:
        """By operators that do-mpc knows, where that is possible."""
        first, last = operands[0], operands[-1].constant
        text = self.text(first)
        if function == "max" and last is not None and not np.any(last):
            self.node("Relu", [text], result)
        elif function in ("max", "min"):  # a + relu(b - a), a - relu(a - b)
            other = self.text(operands[1])
            pair = [other, text] if function == "max" else [text, other]
            above = self.node("Relu", [self.node("Sub", pair, f"{result}_difference")], f"{result}_above")
            self.node("Add" if function == "max" else "Sub", [text, above], result)
        elif function == "abs":
            parts = self.node("Relu", [text], f"{result}_above"), self._negative(text, f"{result}_negative")
            self.node("Add", [parts[0], self.node("Relu", [parts[1]], f"{result}_below")], result)
        elif function == "neg":
            self._negative(text, result)
        elif function == "square":
            self.node("Mul", [text] * 2, result)
        elif function == "div" and last is not None:
            inverse = self._constant((1 / last.astype(np.float64))[None])
            self.node("Mul", [text, inverse], result)
        else:
            self.node(OPERATORS[function], [self.text(operand) for operand in operands], result)

    def _negative(self, text: str, result: str) -> str:
        return self.node("Mul", [text, self._constant(np.array([[-1.0]]))], result)

    def _pick(self, operation: Pick, result: str) -> None:
        """A slice for each run of neighbours, joined."""
        parts = []
        for first, last in operation.runs:
            source, begin = operation.sources[operation.places[first, 0]], int(operation.places[first, 1])
            text, end = self.text(source), begin + last - first
            if (begin, end) != (0, source.size):
                output = f"{result}_{len(parts)}"
                text = self.node("Slice", [text], output, axes=[1], ends=[end], starts=[begin])
            parts.append(text)
        self.node("Concat", parts, result, axis=1)

    def text(self, value: Value) -> str:
        return value.name if value.constant is None else self._constant(value.constant[None])

    def _constant(self, values: ndarray) -> str:
        from onnx import numpy_helper

        array = np.ascontiguousarray(values, np.float32)
        content = f"{array.dtype}{array.shape}".encode() + array.tobytes()
        name = f"c_{hashlib.sha256(content).hexdigest()[:16]}"
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(array, name)
        return name
