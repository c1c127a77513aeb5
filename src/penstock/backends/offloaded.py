"""Offloaded: a composite that an accelerator may run, as the functions of a backend receive it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.backends.accelerator import AcceleratorTarget
from penstock.backends.description import Facts
from penstock.backends.operator_names import is_called
from penstock.ir.composite import Attribute, Composite
from penstock.ir.graph import Node
from penstock.ir.op import Kernel, Work, row_axis
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.ops.channel_packs import UnpackChannels
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice
from penstock.tiling.layer import Layer
from penstock.tiling.layer_of import layer_of
from penstock.tiling.tiler import Tiler


@dataclass(frozen=True)
class Offloaded:
    """A composite that an accelerator may run.

    `main` is the node of the composite with the most multiply-accumulates, the first if there are
    several.  `homes` is set when costs are computed: for each input and for the output, the name of
    the accelerator's memory that holds it, or "" for any other memory; an empty tuple if that is
    not known."""

    node: Node
    target: AcceleratorTarget
    homes: tuple[str, ...] = field(default=(), kw_only=True)

    @cached_property
    def cache(self) -> dict[object, Any]:
        """A cache for the functions of the accelerator's author, by keys of their choice; costs are
        computed often."""
        return {}

    @cached_property
    def composite(self) -> Composite:
        """The operator of the node."""
        assert isinstance(self.node.op, Composite)
        return self.node.op

    @property
    def attrs(self) -> Mapping[str, Attribute]:
        """The attributes that graph passes have added to the composite."""
        return Facts(self.composite.attributes)

    @cached_property
    def main(self) -> Node:
        """The main node."""
        return main_node(self.composite)

    @cached_property
    def kernel(self) -> Kernel:
        """The processor's kernel of the main node: its parameters are those of TFLite's arithmetic
        (shapes, windows, zero points, multipliers and shifts by output channel)."""
        return self.main.op.kernel(self.main.site)

    @cached_property
    def parameters(self) -> Mapping[str, int]:
        """The integer parameters of the main node's arithmetic by name, as `penstock ops NAME`
        lists them."""
        return Facts(self.kernel.params)

    @cached_property
    def tables(self) -> Mapping[str, Array]:
        """The array parameters of the main node's arithmetic by name: multipliers, shifts, look-up
        tables."""
        return Facts({name: table.array for name, table in self.kernel.tables})

    @property
    def inputs(self) -> tuple[TensorType, ...]:
        """The types of the composite's inputs."""
        return self.node.site.inputs

    @property
    def output(self) -> TensorType:
        """The type of the composite's output."""
        return self.node.site.output

    def constant(self, k: int) -> Array:
        """The elements of constant input k of the main node."""
        return self.main.site.constant(k)

    def input_index(self, k: int) -> int:
        """The number of the composite's input that holds input k of the main node, in any memory
        layout.

        Raises IndexError if the input is computed within the composite."""
        made = {node.name: node for node in self.composite.nodes}
        name = self.main.inputs[k].name
        while name not in self.composite.inputs:
            node = made[name]
            if not isinstance(node.op, UnpackChannels | Slice | Reshape):
                raise IndexError(f"input {k} of {self.main.kind} is computed within the composite")
            name = node.inputs[0].name
        return self.composite.inputs.index(name)

    def tiler(self, default: Tiler) -> Tiler:
        """The tiler for local memories: the last one registered for the composite's pattern or main
        operator, or else `default`."""
        own = self.composite.name
        found = (t for op, t in self.target.tilers if op == own or is_called(op, self.main))
        return next(found, default)

    def layer(self, rows: int | None = None) -> Layer:
        """The main operator as a tiler sees it; if `rows` is given, of a call that computes that
        many rows of the output, at any position."""
        layer = layer_of(self.main.op, self.main.site, self.main.name)
        shape = self.main.site.output.shape
        if rows is None or len(shape) < 2:
            return layer
        return layer.stripe(layer.axes[row_axis(len(shape))].name, rows)

    def macs(self, rows: int) -> int:
        """Nominal multiply-accumulates of the first `rows` rows of the output."""
        return self.work(rows).macs

    def work(self, rows: int) -> Work:
        """The work of computing the first `rows` rows of the output."""
        return self.node.op.work(self.node.site, self._first(rows))

    def bytes(self, rows: int) -> int:
        """Bytes of the first `rows` rows of the output, and of the inputs and constants that they
        depend on."""
        out = self._first(rows)
        needs = (*self.node.op.needs(self.node.site, out), out)
        types = (*self.inputs, self.output)
        return sum(
            region.elements * type.dtype.size_bytes
            for type, region in zip(types, needs, strict=True)
        )

    def _first(self, rows: int) -> Region:
        """The region of the first `rows` rows of the output."""
        shape = self.output.shape
        out = Region.whole(shape)
        if len(shape) > 2:
            out = out.replace(len(shape) - 3, (0, min(rows, shape[len(shape) - 3])))
        return out


MAIN = "main"
"""The attribute of a composite that names its main node."""


def main_node(composite: Composite) -> Node:
    """The main node of a composite: the one that a pass has named, or else the first of those with
    the most multiply-accumulates."""
    named = dict(composite.attributes).get(MAIN)
    if named is not None:
        return next(node for node in composite.nodes if node.name == named)

    def macs(node: Node) -> int:
        return node.op.work(node.site, Region.whole(node.output.type.shape)).macs

    return max(composite.nodes, key=macs)
