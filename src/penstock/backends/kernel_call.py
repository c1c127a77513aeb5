"""kernel_call: the inputs of an accelerator's kernel: the node to compute, and the addresses of its
tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.backends.description import Facts
from penstock.backends.offloaded import Offloaded
from penstock.ir.breakdown import Breakdown
from penstock.ir.op import Fetch, Kernel, Table
from penstock.ir.placed_call import FilledCost, PlacedCost
from penstock.ir.tensor import Array, TensorType
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
