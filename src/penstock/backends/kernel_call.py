"""What an accelerator's kernels are told: the node that they compute, and where its tensors lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from penstock.backends.accelerator import AcceleratorTarget
from penstock.backends.description import Facts
from penstock.backends.operator_names import is_called
from penstock.ir.breakdown import Breakdown
from penstock.ir.composite import Attribute, Composite
from penstock.ir.graph import Node
from penstock.ir.op import Fetch, Kernel, Table, Work, row_axis
from penstock.ir.placed_call import FilledCost, PlacedCost
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.ops.channel_packs import UnpackChannels
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice
from penstock.program.expr import Expr, TableEntry, binary
from penstock.program.program import END, FIRST, Address, Command, Driver, Invoke, View
from penstock.tiling.layer import Layer
from penstock.tiling.layer_of import layer_of
from penstock.tiling.tiler import Tiler


@dataclass(frozen=True)
class Offloaded:
    """A composite that an accelerator may run.

    `main`: the node inside that does the most multiply-accumulates, the first of them.
    `homes`: where costs are asked for, () or, for each input and for the output, the name of the
    accelerator's memory in which it lives, "" for any other."""

    node: Node
    target: AcceleratorTarget
    homes: tuple[str, ...] = field(default=(), kw_only=True)

    @cached_property
    def notes(self) -> dict[object, Any]:
        """What its author's functions remember of it, by keys of theirs: costs are asked often."""
        return {}

    @cached_property
    def composite(self) -> Composite:
        assert isinstance(self.node.op, Composite)
        return self.node.op

    @property
    def attrs(self) -> Mapping[str, Attribute]:
        """What graph passes said of the composite."""
        return Facts(self.composite.attributes)

    @cached_property
    def main(self) -> Node:
        return main_node(self.composite)

    @cached_property
    def kernel(self) -> Kernel:
        """The processor's kernel of the main node: its parameters are those of TFLite's arithmetic
        (shapes, windows, zero points, multipliers and shifts by output channel)."""
        return self.main.op.kernel(self.main.site)

    @cached_property
    def parameters(self) -> Mapping[str, int]:
        """Numbers of the main node's arithmetic by name, as `penstock ops NAME` lists them."""
        return Facts(self.kernel.params)

    @cached_property
    def tables(self) -> Mapping[str, Array]:
        """Arrays of the main node's arithmetic by name: multipliers, shifts, look-up tables."""
        return Facts({name: table.array for name, table in self.kernel.tables})

    @property
    def inputs(self) -> tuple[TensorType, ...]:
        return self.node.site.inputs

    @property
    def output(self) -> TensorType:
        return self.node.site.output

    def constant(self, k: int) -> Array:
        """Elements of constant input k of the main node."""
        return self.main.site.constant(k)

    def source(self, k: int) -> int:
        """Which input of the composite holds input k of the main node, in any memory layout."""
        made = {node.name: node for node in self.composite.nodes}
        name = self.main.inputs[k].name
        while name not in self.composite.inputs:
            node = made[name]
            if not isinstance(node.op, UnpackChannels | Slice | Reshape):
                raise IndexError(f"input {k} of {self.main.kind} is computed within the composite")
            name = node.inputs[0].name
        return self.composite.inputs.index(name)

    def tiler(self, default: Tiler) -> Tiler:
        """Who cuts it for local memories: the tiler that was registered last for its pattern or
        its main operator, else the accelerator's own."""
        own = self.composite.name
        found = (t for op, t in self.target.tilers if op == own or is_called(op, self.main))
        return next(found, default)

    def layer(self, rows: int | None = None) -> Layer:
        """The main operator as a tiler sees it; of a call that computes so many rows of the output,
        wherever they are."""
        layer = layer_of(self.main.op, self.main.site, self.main.name)
        shape = self.main.site.output.shape
        if rows is None or len(shape) < 2:
            return layer
        return layer.stripe(layer.axes[row_axis(len(shape))].name, rows)

    def macs(self, rows: int) -> int:
        """Nominal multiply-accumulates of the first rows of the output, so many."""
        return self.work(rows).macs

    def work(self, rows: int) -> Work:
        """What computing the first rows of the output takes."""
        return self.node.op.work(self.node.site, self._first(rows))

    def bytes(self, rows: int) -> int:
        """Bytes of the first rows of the output, and of what they need of inputs and constants."""
        out = self._first(rows)
        needs = (*self.node.op.needs(self.node.site, out), out)
        types = (*self.inputs, self.output)
        return sum(
            region.elements * type.dtype.size_bytes
            for type, region in zip(types, needs, strict=True)
        )

    def _first(self, rows: int) -> Region:
        """The first rows of the output, so many."""
        shape = self.output.shape
        out = Region.whole(shape)
        if len(shape) > 2:
            out = out.replace(len(shape) - 3, (0, min(rows, shape[len(shape) - 3])))
        return out


MAIN = "main"
"""The attribute of a composite that names its main node."""


def main_node(composite: Composite) -> Node:
    """The node inside that a pass has named, else the one that does the most multiply-accumulates,
    the first of several."""
    named = dict(composite.attributes).get(MAIN)
    if named is not None:
        return next(node for node in composite.nodes if node.name == named)

    def macs(node: Node) -> int:
        return node.op.work(node.site, Region.whole(node.output.type.shape)).macs

    return max(composite.nodes, key=macs)


@dataclass(frozen=True)
class Operand:
    """A tensor in memory, as commands address it."""

    view: View

    @property
    def type(self) -> TensorType:
        return self.view.type

    @property
    def row_bytes(self) -> int:
        """Bytes of a row: the last two axes."""
        return self.view.row_bytes

    @property
    def contiguous(self) -> bool:
        """Whether every row has its place, one behind the other."""
        return self.view.contiguous

    @property
    def address(self) -> Address:
        """The first byte of a tensor that lies contiguous."""
        if not self.contiguous:
            raise ValueError(
                f'the rows of "{self.view.tensor}" do not lie one behind the other: take row(r)'
            )
        return Address(self.view.buffer, self.view.offset)

    def row(self, row: Expr, offset_bytes: Expr = 0) -> Address:
        """The byte at an offset into a row, wherever the schedule has put that row."""
        rows = self.view.rows
        if rows.table is not None:
            place: Expr = TableEntry(rows.table, row)
        else:
            wrapped = row if self.contiguous else binary("%", row, rows.ring)
            place = binary("*", wrapped, rows.pitch)
        inside = binary("+", place, self.view.offset)
        return Address(self.view.buffer, binary("+", inside, offset_bytes))


@dataclass(frozen=True)
class KernelCall(Offloaded):
    """A call of a kernel: rows [first, end) of the output, at most `rows` of them.

    `operands`: the main node's and other inputs of the composite, in its order; `result`: its
    output; `places`: buffers of the kernel's own tables, by name."""

    operands: tuple[Operand, ...]
    result: Operand
    rows: int
    places: Mapping[str, str]
    scratch_buffer: str | None
    fetched_buffer: str | None

    first: Expr = FIRST
    end: Expr = END

    def operand(self, k: int) -> Operand:
        """Input k of the main node, which must come from outside the composite."""
        names = [value.name for value in self.main.inputs]
        if not 0 <= k < len(names):
            raise IndexError(f"there is no input {k} of {self.main.kind}, which has {len(names)}")
        return self.operands[self.composite.inputs.index(names[k])]

    def table(self, name: str) -> Address:
        """The first byte of a table of the kernel's own."""
        return Address(Facts(self.places)[name])

    @property
    def scratch(self) -> Address:
        """The first byte of the working memory that the kernel asked for."""
        if self.scratch_buffer is None:
            raise ValueError("the implementation states no scratch_bytes")
        return Address(self.scratch_buffer)

    @property
    def fetched(self) -> Address:
        """The first byte of the constants that the implementation has fetched."""
        if self.fetched_buffer is None:
            raise ValueError("the implementation fetches nothing")
        return Address(self.fetched_buffer)

    @staticmethod
    def invoke(driver: Driver, *arguments: Expr | Address) -> Invoke:
        """A call of a function of the accelerator's driver."""
        return Invoke(driver, arguments)


Compute = Callable[[KernelCall], Sequence[Command]]
"""An accelerator's kernel: the commands of a call."""


def offloading_kernel(
    offloaded: Offloaded,
    name: str,
    compute: Compute,
    *,
    cycles: Callable[[int, tuple[str, ...]], float | Breakdown],
    traffic: Callable[[int, int], Mapping[str, int]] | None = None,
    tables: Mapping[str, Array],
    by_rows: bool,
    scratch_bytes: int,
    folded: tuple[int, ...] = (),
    alignment_bytes: int = 1,
    fetch: Fetch | None = None,
    placed: PlacedCost | None = None,
    filled: FilledCost | None = None,
) -> Kernel:
    """A kernel whose commands `compute` makes; `cycles`: see Kernel."""

    def body(
        inputs: tuple[View, ...],
        output: View,
        rows: int,
        places: Mapping[str, str],
        scratch: str | None,
        fetched: str | None,
    ) -> tuple[Command, ...]:
        operands = tuple(map(Operand, inputs))
        return tuple(
            compute(
                KernelCall(
                    offloaded.node,
                    offloaded.target,
                    operands,
                    Operand(output),
                    rows,
                    places,
                    scratch,
                    fetched,
                )
            )
        )

    return Kernel(
        name,
        tables=tuple((name, Table.of(np.ascontiguousarray(a))) for name, a in tables.items()),
        constants=tuple(
            (k, f"input {k}")
            for k, v in enumerate(offloaded.node.inputs)
            if v.data and k not in folded
        ),
        folded=folded,
        alignment_bytes=alignment_bytes,
        fetch=fetch,
        placed=placed,
        filled=filled,
        scratch_bytes=scratch_bytes,
        by_rows=by_rows,
        body=body,
        cycles=cycles,
        traffic=traffic,
    )
