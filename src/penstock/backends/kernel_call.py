"""kernel_call: the inputs of an accelerator's kernel: the node to compute, and the addresses of its
tensors.
"""

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
from penstock.program.program import (
    END,
    FIRST,
    Address,
    Command,
    Driver,
    DriverRecord,
    Invoke,
    Issue,
    TensorRows,
    Transfer,
    View,
)
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


@dataclass(frozen=True)
class Operand:
    """A tensor in memory, as commands address it."""

    view: View

    @property
    def type(self) -> TensorType:
        """The type of the tensor."""
        return self.view.type

    @property
    def row_bytes(self) -> int:
        """Bytes of a row: the last two axes."""
        return self.view.row_bytes

    @property
    def contiguous(self) -> bool:
        """Whether all rows are stored consecutively."""
        return self.view.contiguous

    @property
    def address(self) -> Address:
        """The address of the first byte of a contiguous tensor.  Raises ValueError for others."""
        if not self.contiguous:
            raise ValueError(
                f'the rows of "{self.view.tensor}" do not lie one behind the other: take row(r)'
            )
        return Address(self.view.buffer, self.view.offset)

    def row(self, row: Expr, offset_bytes: Expr = 0) -> Address:
        """The address of a row, wherever the schedule has placed it, plus `offset_bytes`."""
        rows = self.view.rows
        if rows.table is not None:
            place: Expr = TableEntry(rows.table, row)
        else:
            wrapped = row if self.contiguous else binary("%", row, rows.ring)
            place = binary("*", wrapped, rows.pitch)
        inside = binary("+", place, self.view.offset)
        return Address(self.view.buffer, binary("+", inside, offset_bytes))

    def rows(self, lower: Expr, upper: Expr, offset_bytes: int = 0) -> TensorRows:
        """Rows [lower, upper), wherever the schedule has placed them; each begins `offset_bytes`
        bytes into the row."""
        view = self.view
        offset = binary("+", view.offset, offset_bytes)
        return TensorRows(view.buffer, view.rows, lower, upper, offset)


@dataclass(frozen=True)
class KernelCall(Offloaded):
    """A call of a kernel: computes rows [first, end) of the output, at most `rows` rows.

    `operands` are the inputs of the composite, in order; `result` is its output.  `places` maps
    each table of the kernel to its buffer."""

    operands: tuple[Operand, ...]
    result: Operand
    rows: int
    places: Mapping[str, str]
    scratch_buffer: str | None
    fetched_buffer: str | None

    first: Expr = FIRST
    end: Expr = END

    def operand(self, k: int) -> Operand:
        """Input k of the main node.  Raises IndexError if there is no such input, and ValueError if
        the input is computed within the composite."""
        names = [value.name for value in self.main.inputs]
        if not 0 <= k < len(names):
            raise IndexError(f"there is no input {k} of {self.main.kind}, which has {len(names)}")
        return self.operands[self.composite.inputs.index(names[k])]

    def table(self, name: str) -> Address:
        """The address of a table of the kernel."""
        return Address(Facts(self.places)[name])

    @property
    def scratch(self) -> Address:
        """The address of the scratch that the implementation has requested.  Raises ValueError if
        it has requested none."""
        if self.scratch_buffer is None:
            raise ValueError("the implementation states no scratch_bytes")
        return Address(self.scratch_buffer)

    @property
    def fetched(self) -> Address:
        """The address of the prefetched constants.  Raises ValueError if the implementation
        prefetches none."""
        if self.fetched_buffer is None:
            raise ValueError("the implementation fetches nothing")
        return Address(self.fetched_buffer)

    @staticmethod
    def invoke(driver: Driver, *arguments: Expr | Address) -> Invoke:
        """A call of a function of the accelerator's driver."""
        return Invoke(driver, arguments)

    @staticmethod
    def invoke_record(driver: Driver, record: DriverRecord) -> Invoke:
        """A call of a function of the accelerator's driver, whose arguments are the fields of a
        frozen dataclass, in order.

        The functional model receives the record, with numbers and bytes in its fields; an encoder
        finds it in `StreamCommand.record`, with numbers and places."""
        return Invoke(driver, record)

    def issue(
        self,
        operation: object,
        inputs: Sequence[TensorRows],
        result: TensorRows | None = None,
        *,
        tables: Sequence[Address] = (),
        scratch: Address | None = None,
        prefetched: Address | None = None,
    ) -> Issue:
        """An operation for the command stream: computes rows [first, end) of the output.

        `operation` is a frozen dataclass of the accelerator; its encoder receives it unchanged, in
        a `StreamOperation`.  `inputs` and `result` are rows of operands (`Operand.rows`); `result`
        defaults to the rows of the output that the call computes."""
        result = result or self.result.rows(self.first, self.end)
        return Issue(
            operation,
            self.first,
            self.end,
            tuple(inputs),
            result,
            tuple(tables),
            scratch,
            prefetched,
        )

    @staticmethod
    def transfer(source: Address, target: Address, size_bytes: int) -> Transfer:
        """A copy for the command stream."""
        return Transfer(source, target, size_bytes)


Compute = Callable[[KernelCall], Sequence[Command]]
"""An accelerator's kernel: returns the commands of a call."""


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
    """The kernel whose commands `compute` returns; the other arguments are those of `Kernel`."""

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
