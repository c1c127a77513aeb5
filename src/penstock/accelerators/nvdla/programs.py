"""programs: commands of a call as a stream that can be moved, and its loader.

A call says what it computes (`BEGIN`, a Task), where weights, table and working memory lie
(`PLACES`), where each row that it reads or writes lies (`ROW`), and which rows it computes (`RUN`);
it may do so several times, one task after the other.  The encoder makes hardware layers of that: of
as many rows at a time as lie evenly apart, in rings as in whole tensors.  Rows of one window that
do not are first copied, one under the other.

Where tensors lie is known late, so a write of an address says how far behind one of the bases of
the submission it is.  A stream begins with what its loader must know:

    words  configuration | number of places | for each place: its write, its base | the writes

To the word of a place, the address of its base is added; then the writes are done, one after the
other (`stream.py`).  The highest bit of a base says that it lies in the feature buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from penstock.accelerators.nvdla.address_map import registers
from penstock.accelerators.nvdla.configurations import (
    CONFIGURATIONS,
    FEATURE_BUFFER,
    Configuration,
)
from penstock.accelerators.nvdla.layer import Memory
from penstock.accelerators.nvdla.model import execute
from penstock.accelerators.nvdla.stream import FORMAT, Write
from penstock.accelerators.nvdla.task import NUMBERS, Task, copies
from penstock.uma import Array, Driver, Place, RowCall, StreamCommand

HEAD = struct.Struct("<II")
"""Configuration and number of places; or a place."""
BASE_BYTES = 256
"""To a multiple of which the functional model puts every base."""
FIRST, SECOND, RESULT = range(3)
"""Tensors of a call, by number."""
SOURCES = ("CDMA.D_DAIN_ADDR_LOW_0", "WINDOW.D_DAIN_ADDR_LOW")
WEIGHTS = ("CDMA.D_WEIGHT_ADDR_LOW", "WINDOW.D_WEIGHT_ADDR_LOW")
TABLE, OTHER = "POST.D_TABLE_ADDR_LOW", "POST.D_SECOND_ADDR_LOW"
OUTPUT = "SDP.D_DST_BASE_ADDR_LOW"
MEMORY_OF = {
    SOURCES[0]: "CDMA.D_DAIN_RAM_TYPE",
    SOURCES[1]: "WINDOW.D_DAIN_RAM_TYPE",
    OTHER: "POST.D_SECOND_RAM_TYPE",
    OUTPUT: "SDP.D_DST_DMA_CFG",
}
"""By register of an address of features, the one that says in which memory it lies."""
IN_FEATURE_BUFFER = 1 << 31
"""The bit of a base that lies there."""

Placed = tuple[Write, Place | None]
"""A write, and the place from which its address is counted."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A task, where its weights, table and working memory lie, the rows of each tensor, and which
    of the output are computed: [first, end)."""

    task: Task
    places: tuple[Place, ...]
    rows: Mapping[int, Mapping[int, Place]]
    first: int
    end: int

    @staticmethod
    def of(commands: Sequence[StreamCommand]) -> _Run:
        """What the commands from a BEGIN to its RUN say."""
        call = RowCall.of(commands)
        return _Run(Task(*call.numbers), call.places, call.rows, call.first, call.end)

    def layers(self) -> Iterator[Sequence[Placed]]:
        """The hardware layers."""
        first, end = self.first, self.end
        while first < end:
            reads = self.task.reads(first, first + 1)
            if self._pitch(FIRST, *reads, self.task.in_row_bytes) is None:
                yield from self._gathered(first)
                first += 1
                continue
            until = first + 1
            while until < end and self._even(first, until + 1):
                until += 1
            yield from self._even_rows(first, until)
            first = until

    def _even(self, first: int, end: int) -> bool:
        """Whether all that rows [first, end) touch lies evenly apart."""
        spans = {FIRST: self.task.reads(first, end), SECOND: (first, end), RESULT: (first, end)}
        return all(self._pitch(k, *spans[k], self._row_bytes(k)) is not None for k in self.rows)

    def _row_bytes(self, tensor: int) -> int:
        return self.task.in_row_bytes if tensor == FIRST else self.task.out_row_bytes

    def _pitch(self, tensor: int, lower: int, upper: int, row_bytes: int) -> int | None:
        """Bytes between rows [lower, upper) of a tensor; None where they differ."""
        places = [self.rows[tensor][row] for row in range(lower, upper)]
        offsets = [place.offset_bytes for place in places]
        steps = {b - a for a, b in pairwise(offsets)} or {row_bytes}
        same = len({place.base for place in places}) == 1 and len(steps) == 1
        (step, *_) = steps
        return step if same and step >= row_bytes else None

    def _even_rows(self, first: int, end: int) -> Iterator[Sequence[Placed]]:
        """The layers of rows that lie evenly apart."""
        lower, upper = self.task.reads(first, end)
        pitches = [
            self._pitch(FIRST, lower, upper, self._row_bytes(FIRST)),
            self._pitch(RESULT, first, end, self._row_bytes(RESULT)),
            self._pitch(SECOND, first, end, self._row_bytes(SECOND)) if SECOND in self.rows else 0,
        ]
        source = self.rows[FIRST][lower]
        for layer in self.task.layers(first, end, *(pitch or 0 for pitch in pitches)):
            yield self._placed(layer, source, first)

    def _gathered(self, first: int) -> Iterator[Sequence[Placed]]:
        """The layers of one row, whose window's rows are copied to the working memory before."""
        lower, upper = self.task.reads(first, first + 1)
        size = self.task.in_row_bytes
        *_, scratch = self.places
        for row in range(lower, upper):
            target = replace(scratch, offset_bytes=scratch.offset_bytes + (row - lower) * size)
            for layer in copies(self.task).layers(0, 1, size, size):
                yield _at(layer, {SOURCES[1]: self.rows[FIRST][row], OUTPUT: target})
        second = size if SECOND not in self.rows else self.task.out_row_bytes
        for layer in self.task.layers(first, first + 1, size, self.task.out_row_bytes, second):
            yield self._placed(layer, scratch, first)

    def _placed(self, layer: Sequence[Write], source: Place, first: int) -> Sequence[Placed]:
        """The writes of a layer whose first rows lie there."""
        known = {register: source for register in SOURCES}
        known[OUTPUT] = self.rows[RESULT][first]
        if SECOND in self.rows:
            known[OTHER] = self.rows[SECOND][first]
        if self.task.requantise:
            weights, table, *_ = self.places
            known |= {register: weights for register in WEIGHTS} | {TABLE: table}
        return _at(layer, known)


def _at(layer: Sequence[Write], known: Mapping[str, Place]) -> Sequence[Placed]:
    """The writes of a layer with the places of addresses, and the memories in which these lie."""
    memories = {
        MEMORY_OF[register]: Memory.FEATURE_BUFFER
        for register, place in known.items()
        if register in MEMORY_OF and place.memory == FEATURE_BUFFER
    }
    return [
        (replace(write, word=memories.get(write.register, write.word)), known.get(write.register))
        for write in layer
    ]


def encode(commands: Sequence[StreamCommand]) -> bytes:
    """The stream of a call's commands."""
    ends = [k + 1 for k, command in enumerate(commands) if command.name == RUN.name]
    runs = [_Run.of(commands[first:end]) for first, end in pairwise((0, *ends))]
    writes = [write for run in runs for layer in run.layers() for write in layer]
    return to_stream(runs[0].task.configuration, writes)


def to_stream(configuration: int, writes: Sequence[Placed]) -> bytes:
    """The bytes of writes."""
    places: list[bytes] = []
    body: list[bytes] = []
    for k, (write, place) in enumerate(writes):
        word = write.word
        if place is not None:
            there = IN_FEATURE_BUFFER if place.memory == FEATURE_BUFFER else 0
            places.append(HEAD.pack(k, place.base | there))
            word += place.offset_bytes
        body.append(FORMAT.pack(registers()[write.register].address, word))
    return b"".join((HEAD.pack(configuration, len(places)), *places, *body))


def decode(stream: bytes) -> tuple[Configuration, tuple[tuple[int, int, Memory], ...], bytes]:
    """The configuration; of each place its write, its base and the memory in which that lies; and
    the writes as they were encoded."""
    number, count = HEAD.unpack_from(stream)
    end = HEAD.size * (1 + count)
    places = tuple(
        (write, base & ~IN_FEATURE_BUFFER, _memory(base))
        for write, base in HEAD.iter_unpack(stream[HEAD.size : end])
    )
    return CONFIGURATIONS[NUMBERS[number]], places, stream[end:]


def _memory(base: int) -> Memory:
    return Memory.FEATURE_BUFFER if base & IN_FEATURE_BUFFER else Memory.MAIN


def moved(writes: bytes, places: Sequence[tuple[int, int, Memory]], bases: Sequence[int]) -> bytes:
    """The writes, with the addresses of bases in their places."""
    words = np.frombuffer(writes, "<u4").reshape(-1, 2).copy()
    for write, base, _ in places:
        words[write, 1] += bases[base]
    return words.tobytes()


def submit(device: object, stream: Array, size: int, *bases: Array) -> None:
    """Runs a stream: every base is put into a memory of a functional model, the one in which the
    stream says that it lies, and what has changed is taken back: bases may overlap."""
    del device
    configuration, places, writes = decode(stream[:size].tobytes())
    homes = {base: memory for _, base, memory in places}
    ends, starts = dict.fromkeys(Memory, 0), list[int]()
    for k, base in enumerate(bases):
        home = homes.get(k, Memory.MAIN)
        starts.append(ends[home])
        ends[home] += -(-len(base) // BASE_BYTES) * BASE_BYTES
    memories = {memory: np.zeros(end, np.uint8) for memory, end in ends.items()}
    mine = [
        memories[homes.get(k, Memory.MAIN)][start : start + len(base)]
        for k, (start, base) in enumerate(zip(starts, bases, strict=True))
    ]
    for part, base in zip(mine, bases, strict=True):
        part[:] = base
    before = [part.copy() for part in mine]
    execute(moved(writes, places, starts), memories, configuration.extended(0, 0))
    for part, base, old in zip(mine, bases, before, strict=True):
        changed = part != old
        if changed.any():  # constants cannot be written
            base[changed] = part[changed]


def _in_streams_only(device: object, *arguments: object) -> None:
    raise AssertionError("commands of a call are encoded, not done one by one")


SUBMIT = Driver("nvdla_submit", "nvdla", submit, object)
BEGIN, PLACES, ROW, RUN = (
    Driver(f"nvdla_{name}", "nvdla", _in_streams_only, object)
    for name in ("begin", "places", "row", "run")
)
"""A Task's numbers; weights, table, working memory; (tensor, row, place); (first, end)."""
