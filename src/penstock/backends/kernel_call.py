"""Arguments of an accelerator's kernel: the composite (matched nodes as one node) to compute, and
the addresses of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.backends.description import Facts
from penstock.backends.offloaded import Offloaded
from penstock.ir.op import Kernel
from penstock.ir.tensor import TensorType
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
    """A tensor in memory, with methods that return the addresses which commands use.

    view: the type of the tensor, its buffer, its offset in the buffer, and how its rows are stored:
        contiguously, in a ring or individually."""

    view: View

    @property
    def type(self) -> TensorType:
        """The type of the tensor."""
        return self.view.type

    @property
    def row_bytes(self) -> int:
        """The size of a row in bytes.

        A row consists of the last two axes of a tensor of rank 3 or more, otherwise of the last
        axis."""
        return self.view.row_bytes

    @property
    def contiguous(self) -> bool:
        """Whether the rows of the tensor are stored consecutively, in order."""
        return self.view.contiguous

    @property
    def address(self) -> Address:
        """The address of the first byte of the tensor.

        Raises ValueError if the tensor is not contiguous."""
        if not self.contiguous:
            raise ValueError(f'the rows of "{self.view.tensor}" are not contiguous: use row(r)')
        return Address(self.view.buffer, self.view.offset)

    def row(self, row: Expr, offset_bytes: Expr = 0) -> Address:
        """Return the address of row number `row`, plus `offset_bytes`.

        Rows may be stored contiguously, in a ring buffer or individually.  For example, let rows
        have 8 bytes.  If they are contiguous, row(2, 3) is 19 bytes after the start of the tensor;
        in a ring buffer of two rows, it is 3 bytes after the start."""
        rows = self.view.rows
        if rows.table is not None:
            place: Expr = TableEntry(rows.table, row)
        else:
            wrapped = row if self.contiguous else binary("%", row, rows.ring)
            place = binary("*", wrapped, rows.pitch)
        inside = binary("+", place, self.view.offset)
        return Address(self.view.buffer, binary("+", inside, offset_bytes))

    def rows(self, lower: Expr, upper: Expr, offset_bytes: int = 0) -> TensorRows:
        """Return rows [lower, upper) as an operand of `KernelCall.issue`.

        offset_bytes: added to the address of each row."""
        view = self.view
        offset = binary("+", view.offset, offset_bytes)
        return TensorRows(view.buffer, view.rows, lower, upper, offset)


@dataclass(frozen=True)
class KernelCall(Offloaded):
    """A call of an accelerator's kernel, for which a function of the backend returns the commands.

    operands: the inputs of the composite (matched nodes as one node), in order.
    result: the output of the composite.
    rows: the largest number of rows that a call of this kernel computes: an upper bound, for sizes
        that are fixed at compile time.  The first and the last stripes of a layer may have fewer
        rows; `computed_rows` is the exact number.
    places: the name of the buffer that holds each table of the kernel, by the table's name.
    scratch_buffer: the name of the buffer for working memory; None if the kernel requests none.
    prefetch_buffer: the name of the buffer for prefetched constants; None if there are none.
    first, end: the call computes rows [first, end) of the output; both are expressions, since they
        vary from call to call."""

    operands: tuple[Operand, ...]
    result: Operand
    rows: int
    places: Mapping[str, str]
    scratch_buffer: str | None
    prefetch_buffer: str | None

    first: Expr = FIRST
    end: Expr = END

    @property
    def computed_rows(self) -> Expr:
        """The number of rows that this call computes, `end` - `first`: at most `rows`."""
        return binary("-", self.end, self.first)

    def operand(self, k: int) -> Operand:
        """Return input `k` of the main node, with its addresses.

        By default, the main node is the one with the most multiply-accumulates.
        Raises IndexError if there is no such input, and ValueError if another node of the composite
        computes this input, so that it has no address."""
        names = [value.name for value in self.main.inputs]
        if not 0 <= k < len(names):
            raise IndexError(f"there is no input {k} of {self.main.kind}, which has {len(names)}")
        return self.operands[self.composite.inputs.index(names[k])]

    def table(self, name: str) -> Address:
        """Return the address of table `name` of the kernel, an array computed at compile time."""
        return Address(Facts(self.places)[name])

    @property
    def scratch(self) -> Address:
        """The address of the working memory that the implementation requested.

        Raises ValueError if it requested none."""
        if self.scratch_buffer is None:
            raise ValueError("the implementation states no scratch_bytes")
        return Address(self.scratch_buffer)

    @property
    def prefetched(self) -> Address:
        """The address of the prefetched constants.

        Raises ValueError if the implementation prefetches none."""
        if self.prefetch_buffer is None:
            raise ValueError("the implementation prefetches nothing")
        return Address(self.prefetch_buffer)

    @staticmethod
    def invoke(driver: Driver, *arguments: Expr | Address) -> Invoke:
        """Return a command that calls a function of the accelerator's driver with `arguments`."""
        return Invoke(driver, arguments)

    @staticmethod
    def invoke_record(driver: Driver, record: DriverRecord) -> Invoke:
        """Return a command that calls a driver function with the fields of `record` as arguments.

        record: a frozen dataclass, whose fields are expressions and addresses in the order of the
            arguments.

        The functional model of the driver function and the encoder of a command stream each receive
        a copy of `record`, in which values replace the expressions.  For the functional model, the
        bytes stored at an address replace the address; for the encoder, a `Place` replaces it
        (`StreamCommand.record`)."""
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
        """Return a command that appends an operation to the command stream.

        operation: what the accelerator does, as a frozen dataclass that the backend defines.  The
            encoder receives it in a `StreamOperation`.
        inputs: the rows that the operation reads (`Operand.rows`).
        result: the rows that it writes; None for all output rows of the call.
        tables: addresses of constants that it uses.
        scratch: the address of the working memory that it uses; None for none.
        prefetched: the address of prefetched constants that it uses; None for none."""
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
        """Return a stream command that copies `size_bytes` bytes from `source` to `target`."""
        return Transfer(source, target, size_bytes)


# A function of a backend that returns the commands of a kernel call.
Compute = Callable[[KernelCall], Sequence[Command]]


def offloading_kernel(offloaded: Offloaded, compute: Compute, facts: Kernel) -> Kernel:
    """Return the kernel of a composite, whose calls have the commands that `compute` returns.

    facts: the other fields of the kernel; the constant inputs that it reads are added."""

    def body(
        inputs: tuple[View, ...],
        output: View,
        rows: int,
        places: Mapping[str, str],
        scratch: str | None,
        prefetched: str | None,
    ) -> tuple[Command, ...]:
        node, target = offloaded.node, offloaded.target
        operands, result = tuple(map(Operand, inputs)), Operand(output)
        memory = (rows, places, scratch, prefetched)
        call = KernelCall(node, target, operands, result, *memory, schedule=offloaded.schedule)
        return tuple(compute(call))

    constants = tuple(
        (k, f"input {k}")
        for k, v in enumerate(offloaded.node.inputs)
        if v.data and k not in facts.folded
    )
    return replace(facts, body=body, constants=constants)
