"""programs: the command stream of a kernel call, its encoder and its loader.

A kernel call issues one or more instances of `Task`, which the encoder converts to hardware layers.
A hardware layer computes consecutive output rows; the rows that it accesses have a constant pitch
in every tensor.  If even the input rows of a single window have no constant pitch, they are first
copied to scratch.

Streams are relocatable.  If a register holds an address, the write to this register contains an
offset from a base address.  The generated C passes all base addresses to the driver function
(`submit` is its functional model).  A stream begins with a header for its loader:

    words  configuration | number of relocations | relocations | register writes

The first word is the sum of the index of the configuration and the size in bytes of a bank of the
memory at the second port.  This size is a multiple of 256; it is 0 if layers may read and write the
same bank, or if there is no such memory.

A relocation consists of two words: the index of a write, and the index of the base address to which
the write is relative.  The highest bit of the second word is set if the base address is in CVSRAM.
The loader adds the base address to the word of each relocated write and then executes the writes in
order (`stream.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import pairwise
from operator import add
from typing import NamedTuple, Protocol

import numpy as np

from penstock.uma import (
    Array,
    Breakdown,
    Driver,
    Offloaded,
    Place,
    PlacedCall,
    PlacedRows,
    StreamOperation,
)
from penstock_nvdla.bindings import registers
from penstock_nvdla.configurations import CONFIGURATIONS, CVSRAM, NvdlaConfiguration
from penstock_nvdla.dataflow import rows_cycles
from penstock_nvdla.kernels import tasks
from penstock_nvdla.layer import NvdlaMemory
from penstock_nvdla.model import execute
from penstock_nvdla.sequencer import Sequencer
from penstock_nvdla.stream import FORMAT, Write
from penstock_nvdla.task import Base, Task, copy_task

# Divides the output rows of a call into intervals whose rows have constant pitches.
#
# A hardware layer accesses the rows of a tensor at one pitch (distance in bytes), but the distances
# between rows in a ring buffer or a row table may vary.


class RowAddresses(Protocol):
    """The addresses of the rows of a tensor, or their offsets from a base address."""

    def between(self, lower: int, upper: int) -> Sequence[int]:
        """Return the address or offset of each row in [lower, upper), in bytes."""
        ...


class TaskPiece(NamedTuple):
    """Output rows [first, end) of a task that are computed together.

    gathered: True if the piece is a single output row whose input rows have no constant pitch, so
        that they must first be copied to scratch.  If False, the rows that the piece reads and
        writes have a constant pitch in every tensor."""

    first: int
    end: int
    gathered: bool


def pieces(task: Task, rows: Sequence[RowAddresses], first: int, end: int) -> Iterator[TaskPiece]:
    """Divide output rows [first, end) of a task into intervals, and yield them in order.

    rows: the rows of each input, followed by the rows of the output."""
    # Intervals are as long as possible, but in every tensor, the rows that an interval accesses
    # must have a constant pitch.  The exception is an output row whose own input rows have no
    # constant
    while first < end:
        if pitches_of_rows(task, rows, first, end) is not None:
            yield TaskPiece(first, end, gathered=False)
            return
        reads = task.reads(first, first + 1)
        if _pitch(rows[0], *reads, task.in_row_bytes) is None:
            yield TaskPiece(first, first + 1, gathered=True)
            first += 1
            continue
        until = first + 1
        while until < end and pitches_of_rows(task, rows, first, until + 1) is not None:
            until += 1
        yield TaskPiece(first, until, gathered=False)
        first = until


def pitches_of_rows(
    task: Task, rows: Sequence[RowAddresses], first: int, end: int
) -> tuple[int, int, int] | None:
    """Return the row pitches in bytes, as (input, output, second input).

    Only the rows that are accessed to compute output rows [first, end) are considered.  The last
    pitch is 0 if there is no second input.  The result is None if the pitch in one of the tensors
    varies or is less than the size of a row.

    rows: the rows of each input, followed by the rows of the output."""
    source, *others, result = rows
    found = [
        _pitch(source, *task.reads(first, end), task.in_row_bytes),
        _pitch(result, first, end, task.out_row_bytes),
        *(_pitch(other, first, end, task.out_row_bytes) for other in others),
    ]
    pitches = [pitch for pitch in found if pitch is not None]
    if len(pitches) < len(found):
        return None
    return pitches[0], pitches[1], pitches[2] if others else 0


def _pitch(rows: RowAddresses, lower: int, upper: int, row_bytes: int) -> int | None:
    """The pitch of rows [lower, upper) of a tensor: the distance in bytes from row to row.

    The result is None if the pitch varies or is less than `row_bytes`, the size of a row.  For a
    single row, it is `row_bytes`."""
    steps = {b - a for a, b in pairwise(rows.between(lower, upper))} or {row_bytes}
    (step, *others) = steps
    return step if not others and step >= row_bytes else None


# Two words: configuration and number of relocations, or one relocation.
HEAD = struct.Struct("<II")
BANK_MASK = 255  # The bits of a stream's first word that are the index of the configuration.
BASE_BYTES = 256  # Alignment in bytes of every base in the functional model.
CHIPS = tuple(CONFIGURATIONS.values())  # A stream contains the index of one.
SOURCE, OUTPUT = "SDP_RDMA.D_SRC_BASE_ADDR_LOW", "SDP.D_DST_BASE_ADDR_LOW"
# For each register that holds an address of features, the register that selects the memory, and
# the bit that is set for main memory.
MEMORY_OF = {
    "CDMA.D_DAIN_ADDR_LOW_0": ("CDMA.D_DAIN_RAM_TYPE", 1),
    SOURCE: ("SDP_RDMA.D_SRC_DMA_CFG", 1),
    OUTPUT: ("SDP.D_DST_DMA_CFG", 1),
    "SDP_RDMA.D_BS_BASE_ADDR_LOW": ("SDP_RDMA.D_BRDMA_CFG", 1 << 5),
    "SDP_RDMA.D_BN_BASE_ADDR_LOW": ("SDP_RDMA.D_NRDMA_CFG", 1 << 5),
    "SDP_RDMA.D_EW_BASE_ADDR_LOW": ("SDP_RDMA.D_ERDMA_CFG", 1 << 5),
    "PDP_RDMA.D_SRC_BASE_ADDR_LOW": ("PDP_RDMA.D_SRC_RAM_CFG", 1),
    "PDP.D_DST_BASE_ADDR_LOW": ("PDP.D_DST_RAM_CFG", 1),
}
IN_CVSRAM = 1 << 31  # The bit that marks a base in CVSRAM.

# A write, and the place to which its word is relative; None if the word is not an address.
Placed = tuple[Write, Place | None]
Issued = StreamOperation[Task]


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Encodes one task of a kernel call as register writes.

    call: the task, the output rows [first, end) that it computes, and the addresses of the rows
        that it reads and writes."""

    call: Issued

    @property
    def task(self) -> Task:
        return self.call.operation

    def layers(self) -> Iterator[Sequence[Placed]]:
        """The register writes of each hardware layer, in order."""
        # A hardware layer can access rows only at a constant pitch.  The output rows are therefore
        # divided into pieces (`pieces`) whose rows have a constant pitch in every tensor.  If the
        # input rows of a single output row are spaced irregularly, additional hardware layers first
        # copy them to scratch.
        rows = (*self.call.inputs, self.call.result)
        for piece in pieces(self.task, rows, self.call.first, self.call.end):
            if piece.gathered:
                yield from self._gathered(piece.first)
            else:
                yield from self._strided(piece.first, piece.end)

    def _strided(self, first: int, end: int) -> Iterator[Sequence[Placed]]:
        """Yield, for each hardware layer that computes some of output rows [first, end), its
        register writes.  The accessed rows of each tensor must have a constant pitch (stride)."""
        lower, _ = self.task.reads(first, end)
        pitches = pitches_of_rows(self.task, (*self.call.inputs, self.call.result), first, end)
        assert pitches is not None
        source = self.call.inputs[0].place(lower)
        yield from self._steps(source, first, end, pitches)

    def _gathered(self, first: int) -> Iterator[Sequence[Placed]]:
        """Yield, for each hardware layer that is needed to compute output row `first`, its register
        writes.  The input rows of the output row need not have a constant pitch."""
        # The first layers each copy (gather) an input row to scratch; the others compute the output
        # row from the copies.
        lower, upper = self.task.reads(first, first + 1)
        size, scratch = self.task.in_row_bytes, self.call.scratch
        assert scratch is not None
        for row in range(lower, upper):
            target = replace(scratch, offset_bytes=scratch.offset_bytes + (row - lower) * size)
            source = self.call.inputs[0].place(row)
            for step in copy_task(self.task).even_steps(0, 1):
                yield _with_places(step.writes, {SOURCE: source, OUTPUT: target})
        yield from self._steps(scratch, first, first + 1, (size, self.task.out_row_bytes, 0))

    def _steps(
        self, source: Place, first: int, end: int, pitches: tuple[int, int, int]
    ) -> Iterator[Sequence[Placed]]:
        """The register writes of each hardware layer that computes output rows [first, end)."""
        places = {Base.INPUT: source, Base.OUTPUT: self.call.result.place(first)}
        for name, table in zip(self.task.tables, self.call.tables, strict=True):
            places[Base.WEIGHTS if name == "weights" else Base.OPERANDS] = table
        if self.call.scratch is not None:
            places[Base.SCRATCH] = self.call.scratch
        for other in self.call.inputs[1:]:
            places[Base.SECOND] = other.place(first)
        for step in self.task.steps(first, end, *pitches):
            known = {register: places[base] for register, base in step.bases.items()}
            yield _with_places(step.writes, known)


def _with_places(layer: Sequence[Write], known: Mapping[str, Place]) -> Sequence[Placed]:
    """(write, place) for each write of a layer.  If the write sets an address register, it
    writes an offset in bytes from `place`; for any other write, `place` is None."""
    main = dict(
        MEMORY_OF[register]
        for register, place in known.items()
        if register in MEMORY_OF and place.memory == CVSRAM
    )
    return [
        (replace(w, word=w.word & ~main.get(w.register, 0)), known.get(w.register)) for w in layer
    ]


def encode(commands: Sequence[Issued]) -> bytes:
    """Return the stream of a kernel call that issues the tasks `commands`.  This function is the
    entry point of the encoder."""
    writes = [write for call in commands for layer in _Encoder(call).layers() for write in layer]
    return to_stream(commands[0].operation.hardware, writes)


def to_stream(hardware: NvdlaConfiguration, writes: Sequence[Placed]) -> bytes:
    """Return a relocatable stream of register writes for the configuration `hardware`.

    writes: pairs of a write and the `Place` to which its word is relative; None instead of the
        `Place` if the word is not an address."""
    places: list[bytes] = []
    body: list[bytes] = []
    for k, (write, place) in enumerate(writes):
        word = write.word
        if place is not None:
            there = IN_CVSRAM if place.memory == CVSRAM else 0
            places.append(HEAD.pack(k, place.base | there))
            word += place.offset_bytes
        body.append(FORMAT.pack(registers()[write.register].address, word))
    index = [chip.name for chip in CHIPS].index(hardware.name)
    head = HEAD.pack(index + hardware.sram_bank_bytes, len(places))
    return b"".join((head, *places, *body))


def decode(
    stream: bytes,
) -> tuple[NvdlaConfiguration, tuple[tuple[int, int, NvdlaMemory], ...], bytes]:
    """Return the contents of a stream: (configuration, relocations, writes)."""
    # Each relocation is (index of the write, index of the base address, memory of the base
    # address).  The writes are pairs of little-endian uint32: register address, word before
    # relocation.
    word, count = HEAD.unpack_from(stream)
    bank_bytes, number = word & ~BANK_MASK, word & BANK_MASK
    end = HEAD.size * (1 + count)
    places = tuple(
        (write, base & ~IN_CVSRAM, _memory(base))
        for write, base in HEAD.iter_unpack(stream[HEAD.size : end])
    )
    return replace(CHIPS[number], sram_bank_bytes=bank_bytes), places, stream[end:]


def _memory(base: int) -> NvdlaMemory:
    """The memory to which a base address belongs."""
    return NvdlaMemory.CVSRAM if base & IN_CVSRAM else NvdlaMemory.MAIN


def relocated(
    writes: bytes, places: Sequence[tuple[int, int, NvdlaMemory]], bases: Sequence[int]
) -> bytes:
    """Return register writes with absolute addresses: each relocation adds a base address to the
    word of one write.

    places: the relocations, each (index of the write, index in `bases`, memory of the base); the
        memory is not used here.
    bases: the base addresses in bytes."""
    words = np.frombuffer(writes, "<u4").reshape(-1, 2).copy()
    for write, base, _ in places:
        words[write, 1] += bases[base]
    return words.tobytes()


def submit(sequencer: Sequencer, stream: Array, size: int, *bases: Array) -> None:
    """Execute a stream on the functional model, in the role of the C function `nvdla_submit`.

    stream: an array whose first `size` bytes are the stream."""
    # The model executes the stream at once; the sequencer counts the cycles of its layers.
    #
    # Before execution, each array is copied to the modelled memory (main memory or CVSRAM)
    # that the stream's relocations state for its base address.  Afterwards, only the bytes that
    # changed are copied back, because the arrays may overlap.  Each base address in the
    # memory at the second port is the beginning of a bank.
    configuration, places, writes = decode(stream[:size].tobytes())
    memory_of_base = {base: memory for _, base, memory in places}
    ends, starts = dict.fromkeys(NvdlaMemory, 0), list[int]()
    for k, base in enumerate(bases):
        memory = memory_of_base.get(k, NvdlaMemory.MAIN)
        starts.append(ends[memory])
        ends[memory] += -(-len(base) // BASE_BYTES) * BASE_BYTES
    memories = {memory: np.zeros(end, np.uint8) for memory, end in ends.items()}
    mine = [
        memories[memory_of_base.get(k, NvdlaMemory.MAIN)][start : start + len(base)]
        for k, (start, base) in enumerate(zip(starts, bases, strict=True))
    ]
    for part, base in zip(mine, bases, strict=True):
        part[:] = base
    before = [part.copy() for part in mine]
    execute(relocated(writes, places, starts), memories, configuration, sequencer)
    for part, base, old in zip(mine, bases, before, strict=True):
        changed = part != old
        if changed.any():  # constants cannot be written
            base[changed] = part[changed]


def wait(sequencer: Sequencer) -> None:
    """Wait until all streams are complete, in the role of the C function `nvdla_wait`: they are."""
    del sequencer


SUBMIT = Driver("nvdla_submit", "nvdla", submit, Sequencer)
WAIT = Driver("nvdla_wait", "nvdla", wait, Sequencer)


# Cycles of kernel calls, given the addresses of the rows of their tensors.
#
# The addresses determine how many hardware layers a call takes.  In a ring that wraps around, for
# example, rows have no constant pitch.  Several layers then compute the output rows; if even the
# input rows of one window have no constant pitch, further layers first copy them to scratch
# (`row_pieces.pieces`).


@dataclass(frozen=True, slots=True)
class AddressedRows:
    """The addresses of the rows of a tensor; implements `row_pieces.RowAddresses`.

    rows: the rows of the tensor, with their addresses."""

    rows: PlacedRows

    def between(self, lower: int, upper: int) -> Sequence[int]:
        """Return the address in bytes of each row in [lower, upper)."""
        return self.rows.addresses[lower:upper].tolist()


def placed_cycles(offloaded: Offloaded, call: PlacedCall) -> Breakdown:
    """Return the cycles of a call.

    call: the output rows to compute, and the addresses of the rows of all tensors."""
    found: list[Breakdown] = []
    for one in tasks(offloaded):
        inputs = [call.inputs[k] for k in one.inputs]
        placed = [rows for rows in (*inputs, call.output) if rows is not None]
        names = (*("features", "second")[: len(inputs)], "output")
        inside = frozenset(
            name
            for name, rows in zip(names, placed, strict=True)
            if rows.memory != call.beside  # scratch is in main memory
        )
        addressed = [AddressedRows(rows) for rows in placed]
        every = pieces(one.task, addressed, call.first, call.end)
        found += (piece_cycles(one.task, piece, inside) for piece in every)
    return reduce(add, found)


@lru_cache(maxsize=1 << 14)
def piece_cycles(task: Task, piece: TaskPiece, inside: frozenset[str]) -> Breakdown:
    """Return the cycles of the hardware layers that compute some rows of a task.

    inside: the tensors in CVSRAM, each named by its field of `LayerTraffic`, such as
        "output".  All others are in main memory."""
    rows = piece.first, piece.end
    if not piece.gathered:
        return rows_cycles(task, *rows, inside)
    lower, upper = task.reads(*rows)
    copied = rows_cycles(copy_task(task), 0, 1, inside & {"features"})
    computed = rows_cycles(task, *rows, inside - {"features"})
    return reduce(add, [copied] * (upper - lower), computed)
