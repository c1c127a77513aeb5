"""Memories of the machine, with the owner of every byte.

The owner of a byte is the buffer that wrote it and, in a ring or row table, the row; in a ring that
rotates, the slot.  In a buffer that only holds some columns of a tensor, it is also the column.
Reading a byte of another owner is an error.  This detects reads of memory that is free,
overwritten, or the target of a copy that has not completed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from penstock.errors import InternalError
from penstock.frozen import frozen
from penstock.ir.tensor import Array, Region, row_axis, row_count
from penstock.program.expr import evaluate
from penstock.program.program import Buffer, Program, Rows, View
from penstock.program.steps import accessed_views, walk

# ConcreteOperand: a region of a view for given loop variables.


@frozen
class ConcreteOperand:
    """A region of a view whose bounds and offset contain no loop variables."""

    view: View
    region: Region

    @staticmethod
    def of(view: View, region: Region, variables: Mapping[str, int]) -> ConcreteOperand:
        """The region of a view, for given loop variables."""
        lower, upper = evaluate(view.lower, variables), evaluate(view.upper, variables)
        offset = evaluate(view.offset, variables)
        first = None if view.first_column is None else evaluate(view.first_column, variables)
        concrete = replace(view, lower=lower, upper=upper, offset=offset, first_column=first)
        return ConcreteOperand(concrete, region)

    @staticmethod
    def whole(view: View) -> ConcreteOperand:
        """The whole tensor of a view without loop variables."""
        return ConcreteOperand.of(view, Region.whole(view.type.shape), {})

    @property
    def region_of_tensor(self) -> Region:
        """The region of the whole tensor, if the view is only some columns of it."""
        first = evaluate(self.view.first_column or 0, {})
        columns = len(self.region.lower) - 2
        shift = (first if axis == columns else 0 for axis in range(len(self.region.lower)))
        return self.region.shift(tuple(shift))

    @property
    def size_bytes(self) -> int:
        return self.region.elements * self.view.type.dtype.size_bytes

    @property
    def rows(self) -> tuple[int, int]:
        """Half-open interval of flattened indices of the whole rows that contain the region."""
        shape = self.view.type.shape
        if len(shape) < 2:
            return 0, 1
        around, _ = self.whole_rows
        axis = row_axis(len(shape))
        first = int(np.ravel_multi_index(around.lower[: axis + 1], shape[: axis + 1]))
        return first, first + row_count(around.shape)

    @property
    def whole_rows(self) -> tuple[Region, Region]:
        """The smallest region of consecutive whole rows that contains the region, and the region
        relative to its start."""
        shape = self.view.type.shape
        around = Region.whole(shape)
        if len(shape) >= 2:
            for axis in range(row_axis(len(shape)) + 1):
                around = around.replace(axis, self.region.intervals[axis])
                if around.shape[axis] > 1:
                    break
        return around, self.region.shift(tuple(-x for x in around.lower))


def whole_operands(*views: View | None) -> list[ConcreteOperand]:
    """The whole tensors of views without loop variables; nothing for None."""
    return [ConcreteOperand.whole(view) for view in views if view is not None]


POISON = 0xA5
NOBODY = -1
ROW_BITS, COLUMN_BITS = 24, 20  # An owner consists of the index of a buffer, a column and a row.


class Memories:
    """The memories of a program, initialised with its constants."""

    def __init__(self, program: Program) -> None:
        self._bytes = {m.name: np.full(m.size_bytes, POISON, np.uint8) for m in program.memories}
        self._owner = {m.name: np.full(m.size_bytes, NOBODY, np.int64) for m in program.memories}
        self._writable = [m.name for m in program.memories if m.writable]
        self._index = {b.name: i for i, b in enumerate(program.buffers)}
        self.buffers = {b.name: b for b in program.buffers}
        self._of_columns = _buffers_of_columns(program)
        for buffer in program.buffers:
            self._load(buffer)

    def operand_memory(self, operand: ConcreteOperand) -> str:
        """Name of the memory that holds an operand."""
        return self.buffers[operand.view.buffer].memory

    def read(self, operand: ConcreteOperand) -> Array:
        """The elements of an operand.  Raises InternalError if it does not own all its bytes."""
        memory, owner = self._cells(operand)
        spans = tuple(self._spans(operand))
        rows = np.concatenate([memory[lower:upper] for lower, upper, _ in spans])
        mine = np.concatenate([owner[lower:upper] == tag for lower, upper, tag in spans])
        around, inner = operand.whole_rows
        if not mine.reshape(*around.shape, -1)[inner.slices].all():
            raise InternalError(
                "machine-002",
                f'"{operand.view.tensor}" is read where it is not (any more): region '
                f'{operand.region.intervals} in buffer "{operand.view.buffer}" of '
                f"{self.operand_memory(operand)}",
            )
        return rows.view(operand.view.type.dtype.value).reshape(around.shape)[inner.slices]

    def write(self, operand: ConcreteOperand, elements: Array) -> None:
        """Writes the elements of an operand.  Raises InternalError for constants."""
        if self.buffers[operand.view.buffer].data is not None:
            raise InternalError("machine-003", f'constant "{operand.view.buffer}" is written')
        memory, owner = self._cells(operand)
        around, inner = operand.whole_rows
        item = operand.view.type.dtype.size_bytes
        rows = np.zeros((*around.shape, item), np.uint8)
        raw = np.ascontiguousarray(elements).view(np.uint8)
        rows[inner.slices] = raw.reshape(*elements.shape, item)
        written = np.zeros(rows.shape, bool)
        written[inner.slices] = True
        flat, mask, start = rows.ravel(), written.ravel(), 0
        for lower, upper, tag in self._spans(operand):
            part = slice(start, start + upper - lower)
            memory[lower:upper][mask[part]] = flat[part][mask[part]]
            owner[lower:upper][mask[part]] = tag if isinstance(tag, int) else tag[mask[part]]
            start = part.stop

    def own(self, operand: ConcreteOperand) -> None:
        """Makes the operand the owner of its bytes, for bytes that a driver has written."""
        _, owner = self._cells(operand)
        around, inner = operand.whole_rows
        written = np.zeros((*around.shape, operand.view.type.dtype.size_bytes), bool)
        written[inner.slices] = True
        mask, start = written.ravel(), 0
        for lower, upper, tag in self._spans(operand):
            part = mask[start : start + upper - lower]
            owner[lower:upper][part] = tag if isinstance(tag, int) else tag[part]
            start += upper - lower

    def bytes_from(self, buffer: str, offset: int) -> Array:
        """The bytes of a memory from an offset into a buffer; constants are read-only."""
        found = self.buffers[buffer]
        if not 0 <= offset <= found.size_bytes:
            raise InternalError(
                "machine-005",
                f'byte {offset} of buffer "{buffer}" is accessed, which has {found.size_bytes} '
                "bytes",
            )
        content = self._bytes[found.memory][found.address + offset :]
        if found.memory not in self._writable:
            content = content.view()
            content.flags.writeable = False
        return content

    def all_bytes(self, memory: str) -> Array:
        """All bytes of a writable memory."""
        return self._bytes[memory]

    def copied(self) -> dict[str, Array]:
        """A copy of the contents of all writable memories."""
        return {name: self._bytes[name].copy() for name in self._writable}

    def strayed(
        self, before: dict[str, Array], output: ConcreteOperand, others: Sequence[str]
    ) -> tuple[str, int] | None:
        """Memory and address of the first byte that differs from `before` and is outside the
        operand `output` and the buffers `others`; None if there is no such byte."""
        changed = {name: self._bytes[name] != old for name, old in before.items()}
        changed[self.operand_memory(output)][self._addresses(output)] = False
        for buffer in (self.buffers[name] for name in others):
            part = slice(buffer.address, buffer.address + buffer.size_bytes)
            changed[buffer.memory][part] = False
        return next(
            ((name, int(where.argmax())) for name, where in changed.items() if where.any()), None
        )

    def disown(self, operand: ConcreteOperand) -> None:
        """Makes the rows of an operand unreadable."""
        _, owner = self._cells(operand)
        for lower, upper, _ in self._spans(operand):
            owner[lower:upper] = NOBODY

    def take(self, buffer: Buffer) -> None:
        """Makes the buffer the owner of its bytes, whose contents become undefined."""
        part = slice(buffer.address, buffer.address + buffer.size_bytes)
        self._bytes[buffer.memory][part] = POISON
        self._owner[buffer.memory][part] = self._tag(buffer.name, 0)

    def free(self, buffer: Buffer) -> None:
        """Poisons the bytes that the buffer owns; bytes that another buffer owns are unchanged."""
        part = slice(buffer.address, buffer.address + buffer.size_bytes)
        owner = self._owner[buffer.memory][part]
        mine = owner >> ROW_BITS + COLUMN_BITS == self._index[buffer.name]
        owner[mine] = NOBODY
        self._bytes[buffer.memory][part][mine] = POISON

    def overlap(self, one: ConcreteOperand, other: ConcreteOperand) -> bool:
        """Whether two operands share a byte."""
        if one.region.empty or other.region.empty or not self._in_one_memory(one, other):
            return False
        (lower, upper), (other_lower, other_upper) = self._extent(one), self._extent(other)
        if lower >= other_upper or other_lower >= upper:
            return False
        return bool(np.isin(self._addresses(one), self._addresses(other)).any())

    def lie_alike(self, one: ConcreteOperand, other: ConcreteOperand) -> bool:
        """Whether each element has the same address in both operands."""
        return self._in_one_memory(one, other) and np.array_equal(
            self._addresses(one), self._addresses(other)
        )

    def _load(self, buffer: Buffer) -> None:
        memory = self._bytes[buffer.memory]
        upper = buffer.address + buffer.size_bytes
        if buffer.address < 0 or upper > len(memory):
            raise InternalError(
                "machine-001",
                f'buffer "{buffer.name}" is [{buffer.address}, {upper}), '
                f"memory {buffer.memory} has {len(memory)} bytes",
            )
        if buffer.data is None:
            return
        if len(buffer.data.raw) != buffer.size_bytes:
            raise InternalError(
                "machine-001",
                f'buffer "{buffer.name}" has {buffer.size_bytes} bytes, its data '
                f"{len(buffer.data.raw)}",
            )
        memory[buffer.address : upper] = np.frombuffer(buffer.data.raw, np.uint8)
        self._owner[buffer.memory][buffer.address : upper] = self._tag(buffer.name, 0)

    def _cells(self, operand: ConcreteOperand) -> tuple[Array, Array]:
        memory = self.operand_memory(operand)
        return self._bytes[memory], self._owner[memory]

    def _spans(self, operand: ConcreteOperand) -> Iterator[tuple[int, int, int | Array]]:
        view, buffer = operand.view, self.buffers[operand.view.buffer]
        first, last = operand.rows
        lower, upper, offset = (evaluate(x, {}) for x in (view.lower, view.upper, view.offset))
        if first < lower or last > upper:
            raise InternalError(
                "machine-004",
                f'rows [{first}, {last}) of "{view.tensor}" are touched, the view has '
                f"[{lower}, {upper})",
            )
        whole = Rows.whole(view.type)
        columns = self._column_tags(view)
        scattered = columns is not None or not lies_whole(operand)
        pieces = [(row, row + 1) for row in range(first, last)] if scattered else [(first, last)]
        for row, end in pieces:
            lower = offset + view.rows.offset(row)
            upper = lower + (end - row) * whole.pitch
            if lower < 0 or upper > buffer.size_bytes:
                raise InternalError(
                    "machine-005",
                    f'rows [{row}, {end}) of "{view.tensor}" are bytes [{lower}, {upper}), buffer '
                    f'"{buffer.name}" has {buffer.size_bytes}',
                )
            slot = row if view.rows.rotation is None else lower // view.rows.pitch
            tag = self._tag(buffer.name, slot + 1 if _reuses_rows(view) else 0)
            every = tag if columns is None else tag + columns
            yield buffer.address + lower, buffer.address + upper, every

    def _column_tags(self, view: View) -> Array | None:
        """For each byte of a row, the share of its column in its tag; None if the buffer may hold
        whole tensors."""
        if view.buffer not in self._of_columns or view.first_column is None:
            return None
        first, (count, channels) = evaluate(view.first_column, {}), view.type.shape[-2:]
        numbers = np.arange(first, first + count, dtype=np.int64) << ROW_BITS
        return np.repeat(numbers, channels * view.type.dtype.size_bytes)

    def _in_one_memory(self, one: ConcreteOperand, other: ConcreteOperand) -> bool:
        return self.operand_memory(one) == self.operand_memory(other)

    def _extent(self, operand: ConcreteOperand) -> tuple[int, int]:
        spans = tuple(self._spans(operand))
        return min(lower for lower, _, _ in spans), max(upper for _, upper, _ in spans)

    def _addresses(self, operand: ConcreteOperand) -> Array:
        """The address of every byte of an operand, in the order of its elements."""
        around, inner = operand.whole_rows
        rows = [np.arange(lower, upper) for lower, upper, _ in self._spans(operand)]
        return np.concatenate(rows).reshape(*around.shape, -1)[inner.slices].ravel()

    def _tag(self, buffer: str, row: int) -> int:
        return (self._index[buffer] << ROW_BITS + COLUMN_BITS) + row


def _buffers_of_columns(program: Program) -> frozenset[str]:
    views = [view for command in walk(program.run) for view in accessed_views(command)]
    views += [*program.inputs, *program.outputs]
    whole = {view.buffer for view in views if view.first_column is None}
    return frozenset(view.buffer for view in views if view.buffer not in whole)


def _reuses_rows(view: View) -> bool:
    # In a section of columns, as in a whole tensor, every row has memory of its own.
    rows = view.rows
    scattered = rows.table is not None or rows.rotation is not None
    return scattered or rows.ring < row_count(view.type.shape)


def lies_whole(operand: ConcreteOperand, *, as_columns: bool = False) -> bool:
    """Whether the view holds all rows of its tensor contiguously.

    as_columns: the tensor may also be columns of a wider one."""
    view = operand.view
    if as_columns:
        view = replace(view, rows=replace(view.rows, pitch=view.row_bytes))
    return view.contiguous
