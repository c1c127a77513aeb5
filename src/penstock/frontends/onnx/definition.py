"""Definition: the nodes of ONNX that define a node of another operator.

Operators on integers and operators of other domains than ONNX's are defined by functions of this
project, each a file of `functions.DEFINITIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import helper

from penstock.frontends.onnx.file import File, FileNode
from penstock.ir.foreign import Attribute
from penstock.ir.tensor import Array

Shapes = Mapping[str, tuple[int, ...] | None]
"""Of the tensors of a model, by name; None where one is not known."""
Types = Mapping[str, str]
"""Element types of the tensors of a model, by name."""


@dataclass(slots=True)
class Definition:
    """The nodes that define a node, the node `index` of the model, and their constants."""

    node: FileNode
    index: int
    nodes: list[FileNode] = field(default_factory=list[FileNode])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])

    def constant(self, elements: Array) -> str:
        """The name of a new constant."""
        name = f"{self._label}/constant{len(self.constants)}"
        self.constants[name] = elements
        return name

    def number(self, value: float) -> str:
        """The name of a new constant, a real number."""
        return self.constant(np.array(value, np.float32))

    def made(self, operator: str, *inputs: str, **attributes: Attribute) -> str:
        """The name of the result of a new node."""
        name = f"{self._label}/{len(self.nodes) + len(self.constants)}"
        self.nodes.append(FileNode(operator, self.node.where, inputs, (name,), attributes))
        return name

    def cast(self, name: str, dtype: str = "float32") -> str:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.made("Cast", name, to=int(code))

    def done(self) -> Definition:
        """The definition, whose last node computes the output."""
        self.nodes[-1] = replace(self.nodes[-1], outputs=self.node.outputs)
        return self

    @property
    def _label(self) -> str:
        return f"{self.node.outputs[0]}#{self.index}"


Define = Callable[[Definition, File, Types, Shapes], Definition | None]
"""Completes the definition of a node of a model; None if the file has none for it."""
