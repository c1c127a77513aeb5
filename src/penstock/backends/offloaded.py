"""Offloaded: a composite (matched nodes as one node) that an accelerator may run, as the functions
of a backend receive it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.backends.accelerator import AcceleratorTarget
from penstock.backends.description import Facts
from penstock.backends.operator_names import is_called
from penstock.errors import BackendError
from penstock.ir.composite import Attribute, Composite
from penstock.ir.graph import Node, Value
from penstock.ir.op import Kernel, Types, Work
from penstock.ir.tensor import Array, Region, TensorType, row_axis
from penstock.opkit.layers import as_if_narrow
from penstock.ops.channel_packs import UnpackChannels
from penstock.ops.conversions import Cast, ShiftZero
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice
from penstock.ops.transpose import Transpose
from penstock.tiling.layer import Layer, layer_of
from penstock.tiling.nest import Tiler


@dataclass(frozen=True)
class Offloaded:
    """A composite that an accelerator may run: the argument of constraints and cost functions.

    node: the composite (matched nodes as one operator) as a node of the graph.
    target: the accelerator.
    memory_assignment: names of the accelerator's memories that hold each input and, last, the
        output, for example ("sram", "", "sram").  "" stands for a constant, or for a memory outside
        the accelerator.  An empty tuple stands for "" everywhere, or for an assignment that is
        not known yet.
    schedule: the tiler that the implementation states in the argument `schedule` of
        `OpStrategy.add_implementation`; None if it states none."""

    node: Node
    target: AcceleratorTarget
    memory_assignment: tuple[str, ...] = field(default=(), kw_only=True)
    schedule: Tiler | None = field(default=None, kw_only=True)

    @cached_property
    def cache(self) -> dict[object, Any]:
        """A dictionary in which functions of a backend may cache values, under any keys.

        It saves time because cost functions are called often for the same composite."""
        return {}

    @cached_property
    def composite(self) -> Composite:
        """The operator of `node`; its field `nodes` holds the matched nodes.

        Raises BackendError if `node` is no composite: the accelerator has not claimed it."""
        if not isinstance(self.node.op, Composite):
            raise BackendError(
                "backend-102",
                f'{self.target.name} does not run "{self.node.name}", a {self.node.kind}',
                where=f"Offloaded for {self.target.name}",
                why="no pattern matches the node, or a constraint refuses it, such as tiles that "
                "do not fit",
                help="the table of CPU fallbacks that `penstock compile` prints states the reason",
            )
        return self.node.op

    @property
    def attrs(self) -> Mapping[str, Attribute]:
        """The attributes that graph passes have added to the composite, by name."""
        return Facts(self.composite.attributes)

    @cached_property
    def main(self) -> Node:
        """The main node of the composite: by default, the node with the most operations (MACs)."""
        return main_node(self.composite)

    @cached_property
    def kernel(self) -> Kernel:
        """The portable C kernel of the main node, which the processor would run.

        Its parameters and tables define the exact arithmetic of TFLite.  They contain shapes,
        windows, zero points, and the multiplier and shift of each output channel.  Of a layer whose
        weights int8 does not hold, it is the kernel for others, with the same parameters."""
        return self.main.op.kernel(as_if_narrow(self.main))

    @cached_property
    def parameters(self) -> Mapping[str, int]:
        """The integer parameters of the main node's arithmetic, by name.

        `penstock ops NAME` lists the names for an operator."""
        return Facts(self.kernel.params)

    @cached_property
    def tables(self) -> Mapping[str, Array]:
        """The array parameters of the main node's arithmetic, by name.

        Examples are multipliers, shifts and look-up tables."""
        return Facts({name: table.array for name, table in self.kernel.tables})

    @property
    def inputs(self) -> Types:
        """The types of the composite's inputs."""
        return self.node.site.inputs

    @property
    def output(self) -> TensorType:
        """The type of the composite's output."""
        return self.node.site.output

    def constant(self, k: int) -> Array:
        """Return the elements of input `k` of the main node, which must be a constant."""
        return self.main.site.constant(k)

    def input_index(self, k: int) -> int:
        """Return the index of the composite's input that provides input `k` of the main node.

        Before the main node reads it, nodes of the composite may unpack, transpose, slice, reshape
        or convert the input.  Raises IndexError if any other operator computes input `k` within the
        composite."""
        found = self.source_index(self.main.inputs[k])
        if found is None:
            raise IndexError(f"input {k} of {self.main.kind} is computed within the composite")
        return found

    def source_index(self, value: Value) -> int | None:
        """Return the index of the composite's input from which a value within the composite stems.

        The value is this input, or nodes of the composite unpack, transpose, slice, reshape or
        convert the input to obtain it.  Returns None if a node with another operator computes the
        value."""
        made = {node.name: node for node in self.composite.nodes}
        name = value.name
        while name not in self.composite.inputs:
            node = made[name]
            if not isinstance(node.op, MOVING):
                return None
            name = node.inputs[0].name
        return self.composite.inputs.index(name)

    def tiler(self, default: Tiler) -> Tiler:
        """Return the tiler, which divides the main operator into tiles that fit local memories.

        The result is the first of these that exists:

        - the tiler that was registered last for the composite's pattern or main operator;
        - `schedule`, the tiler of the implementation;
        - `default`."""
        own = self.composite.name
        found = (t for op, t in self.target.tilers if op == own or is_called(op, self.main))
        return next(found, self.schedule or default)

    def layer(self, rows: int | None = None) -> Layer:
        """Return the main operator as a loop nest, the form that a tiler takes.

        Its axes are the axes of the output and, if the operator sums over input channels, "sum".
        The axes of the output are called n, h, w and c for an image, n and c for a matrix.  The
        tensors are called "input 0", "input 1" (weights), "input 2" (biases) and "output".

        rows: the number of consecutive output rows that the loop nest computes; None for all
            rows."""
        layer = layer_of(self.main.op, self.main.site, self.main.name)
        shape = self.main.site.output.shape
        if rows is None or len(shape) < 2:
            return layer
        return layer.stripe(layer.axes[row_axis(len(shape))].name, rows)

    def macs(self, rows: int) -> int:
        """Return the number of multiply-accumulates that the first `rows` output rows take.

        It includes multiply-accumulates on padding."""
        return self.work(rows).macs

    def work(self, rows: int) -> Work:
        """Return the work of computing the first `rows` rows of the output.

        It consists of the numbers of multiply-accumulates, of other operations on elements
        (usually one per output element), and of executions of the innermost loop."""
        return self.node.op.work(self.node.site, self._first(rows))

    def bytes(self, rows: int) -> int:
        """Return the number of bytes read and written to compute the first `rows` output rows.

        It is the size of these output rows, plus the size of all elements of inputs and constants
        that are needed to compute them.  Each element counts once."""
        out = self._first(rows)
        needs = (*self.node.op.needs(self.node.site, out), out)
        types = (*self.inputs, self.output)
        return sum(
            region.elements * type.dtype.size_bytes
            for type, region in zip(types, needs, strict=True)
        )

    def _first(self, rows: int) -> Region:
        # For an output with fewer than three axes, it is the whole output, whatever `rows` is.
        shape = self.output.shape
        out = Region.whole(shape)
        if len(shape) > 2:
            out = out.replace(len(shape) - 3, (0, min(rows, shape[len(shape) - 3])))
        return out


MOVING = (UnpackChannels, Transpose, Slice, Reshape, ShiftZero, Cast)
"""Operators between an input of a composite and its main node."""
MAIN = "main"  # Name of the attribute of a composite whose value is the name of its main node.


def main_node(composite: Composite) -> Node:
    """Return the main node of a composite, which determines its strategies and its arithmetic.

    A graph pass may state the name of this node in the composite's attribute "main".  By
    default, it is the first of the nodes with the most multiply-accumulates."""
    named = dict(composite.attributes).get(MAIN)
    if named is not None:
        return next(node for node in composite.nodes if node.name == named)

    def macs(node: Node) -> int:
        return node.op.work(node.site, Region.whole(node.output.shape)).macs

    return max(composite.nodes, key=macs)
