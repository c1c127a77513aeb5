"""ModelConstants: constants of an ONNX model by name, with their quantisation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from penstock.frontends.onnx import folding
from penstock.frontends.onnx.file import FileNode
from penstock.frontends.onnx.folding import wrong
from penstock.frontends.onnx.scales import DEQUANTISE, EIGHT_BITS, QUANTISE, SAME, constant_scale
from penstock.ir.graph import Value
from penstock.ir.tensor import Array, Data, DType, Quantisation, TensorType


@dataclass(frozen=True, slots=True)
class ModelConstant:
    """Elements as the model stores them; `quantisation` is None for plain numbers."""

    elements: Array
    quantisation: Quantisation | None = None

    @property
    def is_operand(self) -> bool:
        """Whether the elements are data of the network, not a list of axes or extents."""
        return self.quantisation is not None or self.elements.dtype.kind in "fb"

    def value(self, name: str) -> Value:
        """A constant of the graph; element types that the graph lacks become int64."""
        known = {dtype.value for dtype in DType}
        elements = self.elements
        if elements.dtype.name not in known:
            elements = elements.astype(np.int64)
        type = TensorType(elements.shape, DType(elements.dtype.name), self.quantisation)
        return Value(name, type, Data.of(elements))


class ModelConstants:
    """Constants known so far: those of the file, and results of nodes of constants."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays
        self._found = {name: ModelConstant(x) for name, x in arrays.items()}
        self._named: dict[str, tuple[TensorType, Data]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def __getitem__(self, name: str) -> ModelConstant:
        return self._found[name]

    def put(self, name: str, elements: Array) -> None:
        """Adds plain numbers."""
        self._found[name] = ModelConstant(elements)

    def numbers(self, name: str) -> Array | None:
        """Elements of a constant of plain numbers; None if there is no such constant."""
        found = self._found.get(name)
        return found.elements if found is not None and found.quantisation is None else None

    def is_operand(self, name: str) -> bool:
        """Whether the name is that of a constant with data of the network."""
        return name in self._found and self._found[name].is_operand

    def move(self, node: FileNode) -> None:
        """Adds the output of a node that quantises, dequantises or moves a constant.

        Raises ModelError if it would reshape a constant with several scales."""
        self._found[node.outputs[0]] = self._moved(node)

    def uniquely_named(self, value: Value, taken: Collection[str]) -> Value:
        """A constant of the graph under a name that no other value has.

        Operators derive several constants from one, and name others after their outputs; `taken`
        are the names of the model's tensors.  Equal constants share a name."""
        if value.data is None:
            return value
        names = (value.name if k == 1 else f"{value.name}#{k}" for k in count(1))
        free = (n for n in names if n in self._found or n not in taken)
        content = value.type, value.data
        name = next(n for n in free if self._named.setdefault(n, content) == content)
        return replace(value, name=name)

    def _moved(self, node: FileNode) -> ModelConstant:
        found = self._found[node.inputs[0]]
        q = found.quantisation
        if node.name == DEQUANTISE:
            return _dequantised(node, found.elements, self._arrays)
        if node.name == QUANTISE:
            return _quantised(node, found.elements, self._arrays)
        if node.name in SAME:
            return found
        if q is not None and q.axis is None:
            others = map(self.numbers, node.inputs[1:])
            moved = folding.folded(node, [found.elements, *others])
            if moved is None:
                raise wrong(node, "its input is a constant, its parameters are not")
            return replace(found, elements=moved)
        if node.name == "Transpose" and q is not None:
            axes = folding.permutation(node, found.elements.ndim)
            moved = found.elements.transpose(axes)
            return ModelConstant(moved, replace(q, axis=axes.index(q.axis or 0)))
        raise wrong(node, "a constant with several scales cannot be reshaped")


def _quantised(node: FileNode, reals: Array, constants: Mapping[str, Array]) -> ModelConstant:
    """Real constants as int8 elements, rounded half to even.  uint8 becomes int8."""
    scale = constant_scale(node, reals, constants)
    shape = [1] * reals.ndim
    if scale.axis is not None:
        shape[scale.axis] = -1
    parts = (np.array(x).reshape(shape) for x in (scale.scales, scale.zero_points))
    steps, zeros = parts if scale.axis is not None else (scale.scales[0], scale.zero_points[0])
    with np.errstate(all="ignore"):
        elements = np.clip(np.rint(reals / steps) + zeros, -128, 127).astype(np.int8)
    return ModelConstant(elements)


def _dequantised(node: FileNode, elements: Array, constants: Mapping[str, Array]) -> ModelConstant:
    """A constant with its scale.  uint8 becomes int8."""
    if elements.dtype.name not in (*EIGHT_BITS, "int32"):
        raise wrong(node, f"its input is {elements.dtype}, must be int8, uint8 or int32")
    scale = constant_scale(node, elements, constants)
    if elements.dtype == np.uint8:  # stored in the file; `_quantised` makes int8
        elements = (elements.astype(np.int16) - 128).astype(np.int8)
    return ModelConstant(elements, scale)
