"""Presentation: the nodes of an ONNX model as operator files import them.

An operator states the order of axes that its tensors must have (`AxisOrder`); a `Presenter`
supplies the inputs in that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.errors import UnsupportedError, UsageError
from penstock.frontends.onnx import folding
from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import wrong
from penstock.frontends.onnx.model_constants import ModelConstants
from penstock.frontends.onnx.tensors import Order, Tensors, channels_last, own
from penstock.frontends.reading import Reading
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder
from penstock.ir.tensor import DType, Quantisation, TensorType

# The element types of inputs and outputs in an ONNX file, compared with those in the graph.


def check_interface(file: File, graph: Graph, reading: Reading) -> None:
    """Raises UsageError if an input or output, states excepted, has another element type in the
    graph than in the file, and `reading` asks for the same."""
    if not reading.same_interface:
        return
    states = {name for pair in reading.states for name in pair}
    roles = (("input", file.inputs, graph.inputs), ("output", file.outputs, graph.outputs))
    for role, borders, values in roles:
        for border, value in zip(borders, values, strict=True):
            found = value.dtype.value
            if border.dtype != found and border.name not in states:
                raise UsageError(
                    "usage-123",
                    f"--io model is not supported for the {role}s of this ONNX model",
                    where=f'{file.name}: {role} "{border.name}"',
                    why=f"it is {border.dtype} in the file and {found} in the generated code: the "
                    "conversions at the border of an ONNX model are not compiled",
                    help="leave --io model out; the generated header has functions that convert",
                )


IMAGE_RANK = 4


@frozen
class Presenter:
    """Turns nodes of the file into `OnnxNode`s.  Their inputs and outputs are names of `tensors` or
    `constants`."""

    file: File
    reading: Reading
    constants: ModelConstants
    tensors: Tensors

    def presented(
        self, node: FileNode, axes: AxisOrder, scales: Sequence[Quantisation | None]
    ) -> OnnxNode:
        """The node with its inputs in that order of axes; `scales`: the quantisation of each
        output."""
        shown = self._shown(node, axes)
        outputs = zip(shown.outputs, scales, strict=True)
        return replace(shown, outputs=tuple(_quantised(v, scale) for v, scale in outputs))

    def _shown(self, node: FileNode, axes: AxisOrder) -> OnnxNode:
        match axes:
            case AxisOrder.CHANNELS_LAST:
                return self._with_channels_last(node)
            case AxisOrder.ROWS:
                return self._with_rows(node)
            case AxisOrder.ALIKE | AxisOrder.VECTORS:
                return self._with_one_order(node, vectors=axes is AxisOrder.VECTORS)
            case AxisOrder.MODEL:
                return self._onnx_node(node, map(self._in_model_order, node.inputs), ())

    def _with_channels_last(self, node: FileNode) -> OnnxNode:
        """Input 0 as (N, H, W, C), whatever its rank; the others as they are."""
        # With the attribute `channels_last`, which some of onnxruntime's own operators have, it has
        # that order in the model.
        first = self._computed_input(node)
        shape = self.tensors.shape(first)
        is_own = bool(node.attributes.get("channels_last"))
        order = own(len(shape)) if is_own else channels_last(len(shape))
        x = self.tensors.in_order(first, order)
        suffix = ""
        if 1 < len(shape) < IMAGE_RANK:
            extents = (*x.shape[:-1], *(1,) * (IMAGE_RANK - len(shape)), x.shape[-1])
            x = self.tensors.viewed(x, extents, self.tensors.name(f"{node.y}/as_image"))
            suffix = "/image"
        others = tuple(self._in_model_order(name) for name in node.inputs[1:])
        return self._onnx_node(node, (x, *others), order, suffix)

    def _with_rows(self, node: FileNode) -> OnnxNode:
        """Input 0 as the tensor that it is flattened from; else every input in the model's
        order."""
        if node.inputs and node.x in self.constants:
            return self._onnx_node(node, map(self._in_model_order, node.inputs), ())
        first = self._computed_input(node)
        flat = self.tensors.flat(first)
        others = tuple(self._in_model_order(name) for name in node.inputs[1:])
        matrix = others[0] if others else None
        is_plain = matrix is not None and matrix.data is not None and matrix.rank <= 2
        if flat is not None and is_plain:
            shown = self._onnx_node(node, (flat.source.value, *others), own(2))
            return replace(shown, columns=flat.columns)
        rank = len(self.tensors.shape(first))
        inputs = (self.tensors.in_order(first, own(rank)), *others)
        return self._onnx_node(node, inputs, ())

    def _with_one_order(self, node: FileNode, *, vectors: bool) -> OnnxNode:
        """Every tensor of the node in one order and rank; `vectors`: with their axis last."""
        variables = [name for name in node.inputs if name in self.tensors]
        operands = [n for n in node.inputs if n in self.tensors or self.constants.is_operand(n)]
        rank = max((len(self._shape(name)) for name in operands), default=0)
        orders = [self.tensors.order(n) for n in variables if len(self._shape(n)) == rank]
        order = next((o for o in orders if o != own(rank)), own(rank))
        if vectors and rank:
            axis = self._vector_axis(node, rank)
            order = (*(a for a in order if a != axis), axis)
        inputs = tuple(
            self._in_rank(name, order) if name in operands else self._in_model_order(name)
            for name in node.inputs
        )
        return self._onnx_node(node, inputs, order)

    def _vector_axis(self, node: FileNode, rank: int) -> int:
        """The axis along which the vectors lie."""
        # Before opset 13 vectors run along that axis and all later ones, which must have extent 1.
        old = self.file.opset < 13
        axis = folding.whole(node, "axis", 1 if old else -1)
        if not -rank <= axis < rank:
            raise wrong(node, f"axis is {axis}, rank is {rank}")
        axis %= rank
        shape = self._shape(node.x)
        if old and any(extent != 1 for extent in shape[axis + 1 :]):
            raise UnsupportedError(
                "model-020",
                f"{node.name}: along axes {axis} to {rank - 1} of {list(shape)} as one",
                where=node.where,
                help="export the model with opset_version 13 or later",
            )
        return axis

    def _shape(self, name: str) -> tuple[int, ...]:
        """The model's shape of a tensor or constant."""
        if name in self.tensors:
            return self.tensors.shape(name)
        return self.constants[name].elements.shape

    def _in_rank(self, name: str, order: Order) -> Value:
        """An operand in that order of axes; leading axes of extent 1 supply missing ranks."""
        shape = self._shape(name)
        wide = (1,) * (len(order) - len(shape)) + shape
        if name in self.constants:
            found = self.constants[name]
            if found.quantisation is not None and found.quantisation.axis is not None:
                found = replace(found, elements=found.reals, quantisation=None)
            moved = found.elements.reshape(wide).transpose(order)
            return replace(found, elements=moved.copy()).value(name)
        if wide != shape:
            widened = self.tensors.name(f"{name}/rank{len(order)}")
            self.tensors.reshape(name, widened, wide)
            name = widened
        return self.tensors.in_order(name, order)

    def _in_model_order(self, name: str) -> Value | None:
        """An input in the model's order of axes; None if it is absent."""
        if not name:
            return None
        if name in self.constants:
            return self.constants[name].value(name)
        return self.tensors.in_order(name, own(len(self.tensors.shape(name))))

    def _computed_input(self, node: FileNode) -> str:
        """Name of input 0.  Raises ModelError unless it is computed."""
        if not node.inputs or node.x not in self.tensors:
            raise wrong(node, "its first input is missing or constant")
        return node.x

    def _onnx_node(
        self, node: FileNode, inputs: Iterable[Value | None], order: Order, suffix: str = ""
    ) -> OnnxNode:
        """`suffix` marks names of outputs that still have to be reshaped."""
        outputs = tuple(
            Value(
                self.tensors.name(f"{name}{suffix}") if suffix else name,
                TensorType((), DType.INT8),
            )
            for name in node.outputs
        )
        return OnnxNode(
            node.name,
            node.where,
            tuple(inputs),
            outputs,
            node.attributes,
            order=order,
            opset=self.file.opset,
            assumed=self.reading.assume_int8,
        )


def _quantised(value: Value, scale: Quantisation | None) -> Value:
    return replace(value, type=replace(value.type, quantisation=scale))
