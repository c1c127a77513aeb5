"""ModelConstants: constants of an ONNX model by name, each in its own domain."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import count
from typing import Protocol

import numpy as np

from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.onnx import folding
from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import wrong
from penstock.frontends.onnx.operators import DEQUANTISE, EIGHT_BITS, MOVING, SAME
from penstock.frozen import frozen
from penstock.ir.foreign import MALFORMED
from penstock.ir.graph import Value
from penstock.ir.tensor import FILE_TYPES, Array, Data, DType, Quantisation, TensorType

# The quantisation that a QuantizeLinear or DequantizeLinear of an ONNX model defines.
#
# In the graph, elements of 8 bits are int8, element = stored + offset; zero points follow them,
# which preserves real values.


class Numbers(Protocol):
    """Constants by name."""

    def numbers(self, name: str) -> Array | None:
        """Elements of a constant of plain numbers; None if there is no such constant."""
        ...


def activation_scale(
    node: FileNode, constants: Numbers, dtype: str | None = None, offset: int | None = None
) -> Quantisation:
    """The quantisation of stored int8 that a QuantizeLinear or DequantizeLinear defines.

    int8.  Raises UnsupportedError unless it has one scale and an 8-bit type."""
    found = _parameters(node, constants, dtype, offset)
    if len(found.scales) != 1:
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} has {len(found.scales)} scales, must have one",
            where=node.where,
            why="computed tensors have one scale; only weights and biases have one per channel",
            help="quantise activations per tensor",
        )
    return found


def constant_scale(node: FileNode, elements: Array, constants: Numbers) -> Quantisation:
    """Quantisation of a constant, as int8 or int32; `axis` is set if there are several scales."""
    found = _parameters(node, constants, elements.dtype.name)
    if len(found.scales) == 1:
        return Quantisation(found.scales, found.zero_points)
    axis = node.attributes.get("axis", 1)
    rank = elements.ndim
    fits = isinstance(axis, int) and -rank <= axis < rank
    along = axis % rank if isinstance(axis, int) and fits else 0
    if not fits or elements.shape[along] != len(found.scales):
        raise ModelError(
            "onnx-005",
            f"{node.name}: {len(found.scales)} scales along axis {axis} of shape "
            f"{list(elements.shape)}, must be one for each index",
            where=node.where,
            help=MALFORMED,
        )
    return Quantisation(found.scales, found.zero_points, along)


def _parameters(
    node: FileNode, constants: Numbers, dtype: str | None, offset: int | None = None
) -> Quantisation:
    """Scales and zero points of a node; those of uint8 are converted to int8."""
    scales = constants.numbers(node.inputs[1]) if len(node.inputs) > 1 else None
    point = next(iter(node.inputs[2:]), "")
    zeros = constants.numbers(point) if point else None
    if scales is None or (point and zeros is None) or not node.outputs:
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} has a computed scale or zero point, must be constant",
            where=node.where,
            why="the quantisation of a tensor is fixed at compile time",
            help="quantise the model statically, with representative inputs (--quantise)",
            cause="dynamic quantisation",
        )
    if node.attributes.get("block_size"):
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} has scales in blocks, must have one for each tensor or channel",
            where=node.where,
            help="quantise the model per tensor or per channel",
        )
    kind = zeros.dtype.name if zeros is not None else dtype or "uint8"
    allowed = EIGHT_BITS if dtype is None else (*EIGHT_BITS, "int32")
    if kind not in allowed:
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} is between real numbers and {kind}, must be {' or '.join(allowed)}",
            where=node.where,
            help="quantise the model to 8 bits",
        )
    if scales.dtype.kind in "iub":
        raise wrong(node, f"its scale is {scales.dtype}, must be a real number")
    values = tuple(float(s) for s in scales.ravel())
    if np.inf in values:
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} has an infinite scale",
            where=node.where,
            why="the calibration saw infinite numbers, such as those of an attention mask",
            help="mask by a finite number, such as -1e4, or exclude the nodes that add the mask "
            "from quantisation (nodes_to_exclude)",
            cause="infinite scale",
        )
    if not values or not all(0 < s < np.inf for s in values):
        raise wrong(node, "a scale is no positive number")
    points = np.zeros(1, np.int64) if zeros is None else zeros.ravel().astype(np.int64)
    points = np.broadcast_to(points, len(values)) if points.size == 1 else points
    if len(points) != len(values):
        raise wrong(node, f"{len(values)} scales and {len(points)} zero points")
    less = (128 if kind == "uint8" else 0) if offset is None else offset
    return Quantisation(values, tuple(int(z) - less for z in points))


# Nodes whose results are elements of input 0, whatever these represent.
SELECTING = (*MOVING, "Expand", "Gather", "Slice", "Split", "Tile")


@frozen
class ModelConstant:
    """Integers or float32 as the model has them; or, with a `quantisation`, real numbers that a
    DequantizeLinear computes from these elements, of which uint8 has become int8."""

    elements: Array
    quantisation: Quantisation | None = None

    @property
    def is_operand(self) -> bool:
        """Whether the elements are data of the network, not a list of axes or extents."""
        return self.quantisation is not None or self.elements.dtype.kind in "fb"

    @property
    def reals(self) -> Array:
        """The numbers that the model computes with: float32, or plain integers."""
        q = self.quantisation
        if q is None:
            return self.elements
        shape = [1] * self.elements.ndim
        if q.axis is not None:
            shape[q.axis] = -1
        scales = np.array(q.scales, np.float32)
        zeros = np.array(q.zero_points, np.int64)
        parts = (x.reshape(shape) if q.axis is not None else x[0] for x in (scales, zeros))
        scale, zero = parts
        return (self.elements.astype(np.int64) - zero).astype(np.float32) * scale

    def value(self, name: str) -> Value:
        """A constant of the graph; element types that the graph lacks become int64."""
        elements = self.elements
        if elements.dtype.name not in FILE_TYPES:
            elements = elements.astype(np.int64)
        type = TensorType(elements.shape, DType(elements.dtype.name), self.quantisation)
        return Value(name, type, Data.of(elements))

    def stored(self, name: str, label: Quantisation, offset: int) -> Value | None:
        """Integer elements as int8 of the graph, element = stored + offset; None if that does not
        hold them."""
        found = self.elements.astype(np.int64) - offset
        if ((found < -128) | (found > 127)).any():
            return None
        elements = found.astype(np.int8)
        return Value(name, TensorType(elements.shape, DType.INT8, label), Data.of(elements))


class ModelConstants:
    """Constants known so far: those of the file, and results of nodes of constants."""

    def __init__(self, file: File) -> None:
        self._opset = file.opset
        self._found = {name: ModelConstant(x) for name, x in file.constants.items()}
        self._named: dict[str, tuple[TensorType, Data]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def __getitem__(self, name: str) -> ModelConstant:
        return self._found[name]

    def names(self) -> Iterator[str]:
        return iter(self._found)

    def put(self, name: str, elements: Array) -> None:
        """Adds plain numbers."""
        self._found[name] = ModelConstant(elements)

    def put_stored(self, name: str, elements: Array, quantisation: Quantisation) -> None:
        """Adds stored elements of integers, under a quantisation."""
        self._found[name] = ModelConstant(elements, quantisation)

    def numbers(self, name: str) -> Array | None:
        """Elements of a constant of plain numbers; None if there is no such constant."""
        found = self._found.get(name)
        return found.elements if found is not None and found.quantisation is None else None

    def is_operand(self, name: str) -> bool:
        """Whether the name is that of a constant with data of the network."""
        return name in self._found and self._found[name].is_operand

    def compute(self, node: FileNode) -> bool:
        """Adds the outputs of a node whose inputs are all constant; returns whether they are.

        Raises ModelError if it cannot be computed, UnsupportedError if its operator is not."""
        if not all(name in self._found or not name for name in node.inputs):
            return False
        kept = self._selected(node)
        if kept is not None:
            self._found[node.y] = kept
            return True
        arrays = [self._found[name].reals if name else None for name in node.inputs]
        found = folding.folded(node, arrays, self._opset)
        if found is None:
            raise UnsupportedError(
                "model-020",
                f"{node.name} of constants is not supported",
                where=node.where,
                help="export the model with constant folding",
                cause=f"operator {node.name}",
            )
        for name, elements in zip(node.outputs, found, strict=True):
            self.put(name, elements)
        return True

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

    def _selected(self, node: FileNode) -> ModelConstant | None:
        """The output of a node that dequantises integers, or that selects elements of quantised
        numbers, which stay quantised; None for other nodes."""
        if not node.inputs or not node.x:
            return None
        found = self._found[node.x]
        q = found.quantisation
        if node.name == DEQUANTISE and q is None:
            return _dequantised(node, found.elements, self)
        if q is None or node.name not in SELECTING or len(node.outputs) != 1:
            return None
        if node.name in SAME:
            return found
        arrays = [found.elements, *(self.numbers(name) for name in node.inputs[1:])]
        moved = folding.folded(node, arrays, self._opset)
        if moved is None:
            return None
        if q.axis is None:
            return ModelConstant(moved[0], q)
        axis = _axis_after(node, found.elements.shape, q.axis, moved[0].shape)
        return None if axis is None else ModelConstant(moved[0], replace(q, axis=axis))


def _axis_after(
    node: FileNode, before: tuple[int, ...], axis: int, after: tuple[int, ...]
) -> int | None:
    """The axis that keeps the indices of an axis of the input; None if there is none."""
    if node.name == "Transpose":
        return folding.permutation(node, len(before)).index(axis)
    if node.name not in MOVING:
        return None
    outer = int(np.prod(before[:axis]))
    same = (
        k
        for k, extent in enumerate(after)
        if extent == before[axis] and int(np.prod(after[:k])) == outer
    )
    return next(same, None)


def _dequantised(node: FileNode, elements: Array, constants: ModelConstants) -> ModelConstant:
    """A constant with its scale.  uint8 becomes int8."""
    if elements.dtype.name not in (*EIGHT_BITS, "int32"):
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} of a constant of type {elements.dtype}, must be int8, uint8 or int32",
            where=node.where,
            help="quantise the weights to 8 bits",
        )
    scale = constant_scale(node, elements, constants)
    if elements.dtype == np.uint8:
        elements = (elements.astype(np.int16) - 128).astype(np.int8)
    return ModelConstant(elements, scale)
