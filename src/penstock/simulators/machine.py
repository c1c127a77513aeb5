"""Machine: executes a Program on modelled memories; knows neither schedule nor backend.

Every byte of memory remembers which buffer wrote it, and in a ring or row table which row it
belongs to.  A read of a byte that another buffer, another row or nobody wrote is an error: that is
how it poisons memory that is free, overwritten, or the target of a copy not yet waited for.  Each
view and region is checked against its buffer's bounds.  Counts multiply-accumulates and the bytes
of regions moved per memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.errors import InternalError
from penstock.ir.op import row_axis, row_count
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.program.expr import Expr, evaluate
from penstock.program.program import (
    Box,
    Buffer,
    Call,
    Command,
    Copy,
    Loop,
    Program,
    Rows,
    View,
    Wait,
)

POISON = 0xA5
NOBODY = -1

Trace = Callable[[str, Region, Array], None]
"""Told of every computed region: tensor, region, elements."""

Operand = tuple[View, Region]
"""A region of a view without variables."""


@dataclass(slots=True)
class Counts:
    """What a run did: nominal multiply-accumulates, and bytes of regions read and written."""

    macs: int = 0
    read_bytes: dict[str, int] = field(default_factory=dict[str, int])
    written_bytes: dict[str, int] = field(default_factory=dict[str, int])


class Machine:
    """A program loaded into its memories.  State lives from run to run."""

    def __init__(self, program: Program, trace: Trace | None = None) -> None:
        self._program = program
        self._trace = trace
        self.counts = Counts()
        self._bytes = {m.name: np.full(m.size_bytes, POISON, np.uint8) for m in program.memories}
        self._owner = {m.name: np.full(m.size_bytes, NOBODY, np.int64) for m in program.memories}
        self._index = {b.name: i for i, b in enumerate(program.buffers)}
        self._buffers = {b.name: b for b in program.buffers}
        self._pending: dict[tuple[str, str], list[Copy]] = {}
        for buffer in program.buffers:
            self._load(buffer)
        self._execute(program.init, {})
        self._execute(program.reset, {})

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One inference: elements of every input by name -> of every output by name."""
        for view in self._program.inputs:
            self._write(view, Region.whole(view.type.shape), inputs[view.tensor], {})
        last = _last_uses(self._program)
        for step, command in enumerate(self._program.run):
            self._execute((command,), {})
            self._free(last.get(step, ()))
        if self._pending:
            raise InternalError("machine-006", f"copies never waited for: {sorted(self._pending)}")
        return {
            view.tensor: self._read(view, Region.whole(view.type.shape), {})
            for view in self._program.outputs
        }

    def _load(self, buffer: Buffer) -> None:
        memory = self._bytes[buffer.memory]
        upper = buffer.address + buffer.size_bytes
        if buffer.address < 0 or upper > len(memory):
            raise InternalError(
                "machine-001",
                f'buffer "{buffer.name}" is [{buffer.address}, {upper}), '
                f"memory {buffer.memory} has {len(memory)} bytes",
            )
        if buffer.data is not None:
            if len(buffer.data.raw) != buffer.size_bytes:
                raise InternalError(
                    "machine-001",
                    f'buffer "{buffer.name}" has {buffer.size_bytes} bytes, its data '
                    f"{len(buffer.data.raw)}",
                )
            memory[buffer.address : upper] = np.frombuffer(buffer.data.raw, np.uint8)
            self._owner[buffer.memory][buffer.address : upper] = self._tag(buffer.name, 0)

    def _execute(self, commands: tuple[Command, ...], variables: Mapping[str, int]) -> None:
        for command in commands:
            match command:
                case Loop():
                    lower = evaluate(command.lower, variables)
                    upper = evaluate(command.upper, variables)
                    for value in range(lower, upper, command.step):
                        self._execute(command.body, {**variables, command.variable: value})
                case Call():
                    self._call(command, variables)
                case Copy():
                    self._copy(command, variables)
                case Wait():
                    self._wait(command, variables)

    def _call(self, call: Call, variables: Mapping[str, int]) -> None:
        out = region_of(call.out, variables)
        if out.empty:
            return
        needed = call.op.needs(call.site, out)
        inputs = tuple(
            self._window(view, need, variables)
            for view, need in zip(call.inputs, needed, strict=True)
        )
        self._check_apart(call, out, needed, variables)
        if call.scratch is not None:
            self._take(self._buffers[call.scratch])
        result = call.op.evaluate(call.site, inputs, out)
        self._write(call.output, out, result, variables)
        self._count(call, out, needed)
        if self._trace:
            self._trace(call.output.tensor, out, result)

    def _check_apart(
        self, call: Call, out: Region, needed: tuple[Region, ...], variables: Mapping[str, int]
    ) -> None:
        """A kernel writes while it reads: its output may overlap an input only element for element,
        where the operator allows it, and its scratch overlaps nothing."""
        output = _fixed(call.output, variables), out
        inputs = [(_fixed(v, variables), n) for v, n in zip(call.inputs, needed, strict=True)]
        for k, x in enumerate(inputs):
            in_place = k in call.op.in_place(call.site) and self._lie_alike(output, x)
            if not in_place and self._overlap(output, x):
                raise _overlapping(call, x)
        if call.scratch is not None:
            size = self._buffers[call.scratch].size_bytes
            type = TensorType((size,), DType.INT8)
            scratch = View.whole(call.scratch, type, call.scratch), Region.whole((size,))
            for x in (*inputs, output):
                if self._overlap(scratch, x):
                    raise _overlapping(call, x)

    def _window(self, view: View, need: Region, variables: Mapping[str, int]) -> Array:
        """A whole input in which only the needed region is there; the rest is poison."""
        poison = np.full(view.type.elements * view.type.dtype.size_bytes, POISON, np.uint8)
        window = poison.view(view.type.dtype.value).reshape(view.type.shape).copy()
        if not need.empty:
            window[need.slices] = self._read(view, need, variables)
        return window

    def _copy(self, copy: Copy, variables: Mapping[str, int]) -> None:
        rows = (evaluate(copy.lower, variables), evaluate(copy.upper, variables))
        region = rows_region(copy.source.type.shape, *rows)
        if region.empty:
            return
        fixed = _fixed(copy.source, variables), _fixed(copy.target, variables)
        if self._overlap((fixed[0], region), (fixed[1], region)):
            raise InternalError("machine-007", f'"{copy.source.tensor}" is copied over itself')
        elements = self._read(copy.source, region, variables)
        self._moved(copy.source, copy.target, elements.nbytes)
        self._write(copy.target, region, elements, variables)
        if copy.token is not None:
            for lower, upper, _ in self._spans(copy.target, region, variables):
                self._owner[self._buffers[copy.target.buffer].memory][lower:upper] = NOBODY
            self._pending.setdefault((copy.engine, copy.token), []).append(
                Copy(*fixed, *rows, copy.engine)
            )

    def _wait(self, wait: Wait, variables: Mapping[str, int]) -> None:
        for copy in self._pending.pop((wait.engine, wait.token), []):
            region = rows_region(copy.source.type.shape, int_of(copy.lower), int_of(copy.upper))
            self._write(copy.target, region, self._read(copy.source, region, {}), {})

    def _read(self, view: View, region: Region, variables: Mapping[str, int]) -> Array:
        buffer = self._buffers[view.buffer]
        memory, owner = self._bytes[buffer.memory], self._owner[buffer.memory]
        spans = tuple(self._spans(view, region, variables))
        rows = np.concatenate([memory[lower:upper] for lower, upper, _ in spans])
        mine = np.concatenate([owner[lower:upper] == tag for lower, upper, tag in spans])
        around, inner = _whole_rows(view.type.shape, region)
        if not mine.reshape(*around.shape, -1)[inner.slices].all():
            raise InternalError(
                "machine-002",
                f'"{view.tensor}" is read where it is not (any more): region {region.intervals} in '
                f'buffer "{buffer.name}" of {buffer.memory}',
            )
        return rows.view(view.type.dtype.value).reshape(around.shape)[inner.slices]

    def _write(
        self, view: View, region: Region, elements: Array, variables: Mapping[str, int]
    ) -> None:
        buffer = self._buffers[view.buffer]
        if buffer.data is not None:
            raise InternalError("machine-003", f'constant "{buffer.name}" is written')
        memory, owner = self._bytes[buffer.memory], self._owner[buffer.memory]
        around, inner = _whole_rows(view.type.shape, region)
        item = view.type.dtype.size_bytes
        rows = np.zeros((*around.shape, item), np.uint8)
        rows[inner.slices] = (
            np.ascontiguousarray(elements).view(np.uint8).reshape(*elements.shape, item)
        )
        written = np.zeros(rows.shape, bool)
        written[inner.slices] = True
        flat, mask, start = rows.ravel(), written.ravel(), 0
        self._check_no_copy_under_way((_fixed(view, variables), region))
        for lower, upper, tag in self._spans(view, region, variables):
            part = slice(start, start + upper - lower)
            memory[lower:upper][mask[part]] = flat[part][mask[part]]
            owner[lower:upper][mask[part]] = tag
            start = part.stop

    def _spans(
        self, view: View, region: Region, variables: Mapping[str, int]
    ) -> Iterator[tuple[int, int, int]]:
        """(lower, upper, owner) of every row of `region` in memory, whole rows."""
        buffer = self._buffers[view.buffer]
        first, last = row_interval(view.type.shape, region)
        valid = evaluate(view.lower, variables), evaluate(view.upper, variables)
        offset = evaluate(view.offset, variables)
        if first < valid[0] or last > valid[1]:
            raise InternalError(
                "machine-004",
                f'rows [{first}, {last}) of "{view.tensor}" are touched, the view has '
                f"[{valid[0]}, {valid[1]})",
            )
        whole = Rows.whole(view.type)
        scattered = (
            view.rows.table is not None
            or view.rows.ring < whole.ring
            or view.rows.pitch != whole.pitch
        )
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
            tag = self._tag(buffer.name, row + 1 if scattered else 0)
            yield buffer.address + lower, buffer.address + upper, tag

    def _overlap(self, one: Operand, other: Operand) -> bool:
        """Whether two operands share a byte."""
        if one[1].empty or other[1].empty:
            return False
        if self._buffers[one[0].buffer].memory != self._buffers[other[0].buffer].memory:
            return False
        (lower, upper), (other_lower, other_upper) = self._extent(one), self._extent(other)
        if lower >= other_upper or other_lower >= upper:
            return False
        here, there = self._addresses(one), self._addresses(other)
        return bool(np.isin(here, there).any())

    def _lie_alike(self, one: Operand, other: Operand) -> bool:
        """Whether every element of one operand lies where the same element of the other does."""
        same_memory = self._buffers[one[0].buffer].memory == self._buffers[other[0].buffer].memory
        return same_memory and np.array_equal(self._addresses(one), self._addresses(other))

    def _extent(self, operand: Operand) -> tuple[int, int]:
        """From the first to the last byte of the rows of an operand."""
        spans = tuple(self._spans(*operand, {}))
        return min(lower for lower, _, _ in spans), max(upper for _, upper, _ in spans)

    def _addresses(self, operand: Operand) -> Array:
        """The address of every byte, in the order of the elements."""
        view, region = operand
        around, inner = _whole_rows(view.type.shape, region)
        rows = [np.arange(lower, upper) for lower, upper, _ in self._spans(view, region, {})]
        return np.concatenate(rows).reshape(*around.shape, -1)[inner.slices].ravel()

    def _check_no_copy_under_way(self, written: Operand) -> None:
        """Neither source nor target of a copy may be written before it has been waited for."""
        for copy in (copy for copies in self._pending.values() for copy in copies):
            region = rows_region(copy.source.type.shape, int_of(copy.lower), int_of(copy.upper))
            for view in (copy.source, copy.target):
                if self._overlap(written, (view, region)):
                    raise InternalError(
                        "machine-008",
                        f'"{written[0].tensor}" is written over "{view.tensor}", of which a copy '
                        f"is under way on {copy.engine}",
                    )

    def _tag(self, buffer: str, row: int) -> int:
        return (self._index[buffer] << 32) + row

    def _free(self, buffers: tuple[str, ...]) -> None:
        for name in buffers:
            self._poison(self._buffers[name])

    def _take(self, buffer: Buffer) -> None:
        """The buffer's bytes, whoever wrote them, are overwritten with nothing of use."""
        part = slice(buffer.address, buffer.address + buffer.size_bytes)
        self._bytes[buffer.memory][part] = POISON
        self._owner[buffer.memory][part] = self._tag(buffer.name, 0)

    def _poison(self, buffer: Buffer) -> None:
        """Forget what the buffer holds; bytes that another buffer has taken over stay."""
        part = slice(buffer.address, buffer.address + buffer.size_bytes)
        owner = self._owner[buffer.memory][part]
        mine = owner >> 32 == self._index[buffer.name]
        owner[mine] = NOBODY
        self._bytes[buffer.memory][part][mine] = POISON

    def _count(self, call: Call, out: Region, needed: tuple[Region, ...]) -> None:
        self.counts.macs += call.op.work(call.site, out).macs
        for view, need in zip(call.inputs, needed, strict=True):
            size = need.elements * view.type.dtype.size_bytes
            _add(self.counts.read_bytes, self._buffers[view.buffer].memory, size)
        size = out.elements * call.output.type.dtype.size_bytes
        _add(self.counts.written_bytes, self._buffers[call.output.buffer].memory, size)

    def _moved(self, source: View, target: View, size: int) -> None:
        _add(self.counts.read_bytes, self._buffers[source.buffer].memory, size)
        _add(self.counts.written_bytes, self._buffers[target.buffer].memory, size)


def _add(counts: dict[str, int], memory: str, size: int) -> None:
    counts[memory] = counts.get(memory, 0) + size


def _overlapping(call: Call, operand: Operand) -> InternalError:
    return InternalError(
        "machine-007",
        f'the call that computes "{call.output.tensor}" writes over "{operand[0].tensor}", '
        "which it uses itself",
    )


def int_of(expr: Expr) -> int:
    """The value of an expression without variables."""
    return evaluate(expr, {})


def _fixed(view: View, variables: Mapping[str, int]) -> View:
    """The view with its expressions evaluated."""
    lower, upper = evaluate(view.lower, variables), evaluate(view.upper, variables)
    offset = evaluate(view.offset, variables)
    return View(view.tensor, view.type, view.buffer, view.rows, lower, upper, offset)


def region_of(box: Box, variables: Mapping[str, int]) -> Region:
    """The region that a box is for given loop variables."""
    return Region(
        tuple(evaluate(x, variables) for x in box.lower),
        tuple(evaluate(x, variables) for x in box.upper),
    )


def row_interval(shape: tuple[int, ...], region: Region) -> tuple[int, int]:
    """The interval of flattened row indices of the whole rows that contain the region."""
    if len(shape) < 2:
        return 0, 1
    around, _ = _whole_rows(shape, region)
    axis = row_axis(len(shape))
    first = int(np.ravel_multi_index(around.lower[: axis + 1], shape[: axis + 1]))
    return first, first + row_count(around.shape)


def rows_region(shape: tuple[int, ...], lower: int, upper: int) -> Region:
    """The region of whole rows [lower, upper) of a tensor with one leading index above its rows."""
    axis = row_axis(len(shape))
    return Region.whole(shape).replace(axis, (lower, upper))


def _whole_rows(shape: tuple[int, ...], region: Region) -> tuple[Region, Region]:
    """The smallest region of whole rows, consecutive in memory, that contains `region`; and
    `region` as seen from its start."""
    around = Region.whole(shape)
    if len(shape) >= 2:
        for axis in range(row_axis(len(shape)) + 1):
            around = around.replace(axis, region.intervals[axis])
            if around.shape[axis] > 1:
                break
    return around, region.shift(tuple(-x for x in around.lower))


def _last_uses(program: Program) -> dict[int, tuple[str, ...]]:
    """By step of the run entry, the buffers that no later step and no output reads."""
    last: dict[str, int] = {}
    for step, command in enumerate(program.run):
        for name in _buffers_of(command):
            last[name] = step
    for view in program.outputs:
        last.pop(view.buffer, None)
    kept = {b.name for b in program.buffers if b.data is not None or b.kind.value == "state"}
    found: dict[int, tuple[str, ...]] = {}
    for name, step in last.items():
        if name not in kept:
            found[step] = (*found.get(step, ()), name)
    return found


def _buffers_of(command: Command) -> Iterator[str]:
    match command:
        case Call():
            yield from (view.buffer for view in (*command.inputs, command.output))
            if command.scratch is not None:
                yield command.scratch
        case Copy():
            yield from (command.source.buffer, command.target.buffer)
        case Loop():
            for inner in command.body:
                yield from _buffers_of(inner)
        case Wait():
            pass
