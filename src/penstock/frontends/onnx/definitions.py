"""Definition: the nodes that define one node by other operators, under construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import onnx

from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import along
from penstock.ir.foreign import Attribute
from penstock.ir.tensor import Array

Shapes = Mapping[str, tuple[int, ...] | None]
"""Of the tensors of a model, by name; None where one is not known."""


Input = str | tuple[int, ...] | float | Array
"""Of a new node: a name, or the integers, the real number or the elements of a new constant."""


@dataclass(slots=True)
class Definition:
    """The nodes that define `node`, the `index`-th of `file`, and their constants.

    `types` and `shapes` are those of the tensors of the file, as far as they are known."""

    node: FileNode
    index: int
    file: File
    types: Mapping[str, str]
    shapes: Shapes
    nodes: list[FileNode] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def constant(self, elements: Array) -> str:
        """The name of a new constant."""
        name = f"{self.node.y}#{self.index}/constant{len(self.constants)}"
        self.constants[name] = elements
        return name

    def integers(self, *numbers: int) -> str:
        """The name of a new list of integers."""
        return self.constant(np.array(numbers, np.int64))

    def real(self, number: float) -> str:
        """The name of a new real number."""
        return self.constant(np.array(number, np.float32))

    def _named(self, given: Input) -> str:
        match given:
            case str():
                return given
            case tuple():
                return self.integers(*given)
            case int() | float():
                return self.real(given)
            case _:
                return self.constant(given)

    def made(self, operator: str, *given: Input, **attributes: Attribute) -> str:
        """The name of the result of a new node, some inputs of which may be new constants."""
        inputs = tuple(map(self._named, given))
        # A definition may turn nodes into constants, which keep their names.
        name = f"{self.node.y}#{self.index}/{len(self.nodes) + len(self.constants)}"
        self.nodes.append(FileNode(operator, self.node.where, inputs, (name,), attributes))
        return name

    def made_all(self, operator: str, *inputs: Input, count: int) -> tuple[str, ...]:
        """The names of the results of a new node with several."""
        first = self.made(operator, *inputs)
        names = (first, *(f"{first}/{k}" for k in range(1, count)))
        self.nodes[-1] = replace(self.nodes[-1], outputs=names)
        return names

    def made_along(self, operator: str, x: str, *axes: int, **attributes: Attribute) -> str:
        """The name of the result of a new node along some axes."""
        name = self.made(operator, x, **attributes)
        self.nodes[-1] = along(self.nodes[-1], axes, self.file.opset, self.constant)
        return name

    def as_real(self, name: str) -> str:
        """A tensor as real numbers."""
        return self.made("Cast", name, to=int(onnx.TensorProto.FLOAT))

    def given(self, position: int) -> str:
        """The input of the defined node at a position; empty if it is absent."""
        return self.node.inputs[position] if position < len(self.node.inputs) else ""

    def number(self, name: str, default: float) -> float:
        """An attribute of the defined node."""
        found = self.node.attributes.get(name, default)
        return found if isinstance(found, (int, float)) else default

    def name_output(self, name: str, position: int = 0) -> None:
        """Let the result of a new node be an output of the defined one, if that is read."""
        if position >= len(self.node.outputs) or not (output := self.node.outputs[position]):
            return
        self.nodes = [
            replace(
                node,
                inputs=tuple(output if n == name else n for n in node.inputs),
                outputs=tuple(output if n == name else n for n in node.outputs),
            )
            for node in self.nodes
        ]


Define = Callable[[Definition], bool]
"""Adds the nodes that define a node, and names its outputs; False if that is not possible."""
