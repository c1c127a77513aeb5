"""stream_commands: the commands that an encoder turns into bytes, with every address resolved.

An address in a stream is relative: the driver receives the base addresses at submission, and a
`Place` names one of them and an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Place:
    """An address in a stream: `offset_bytes` bytes after base number `base` of the submission, in
    the memory of that name."""

    base: int
    offset_bytes: int
    memory: str = ""


class StreamRows(NamedTuple):
    """Rows of a tensor, from row `lower` on: the base and memory that hold all of them, and the
    offset of each row in bytes."""

    base: int
    lower: int
    offsets: Sequence[int]
    memory: str = ""

    def between(self, lower: int, upper: int) -> Sequence[int]:
        """The offsets of rows [lower, upper)."""
        return self.offsets[lower - self.lower : upper - self.lower]

    def place(self, row: int) -> Place:
        """The address of a row."""
        return Place(self.base, self.offsets[row - self.lower], self.memory)


@dataclass(frozen=True, slots=True)
class StreamCommand:
    """An `Invoke`: the name of the driver function, and its arguments in order.

    `record` is the frozen dataclass of a call that was made with `invoke_record`, with numbers and
    places in its fields; otherwise None."""

    name: str
    arguments: tuple[int | Place, ...]
    record: object = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The arguments that are numbers."""
        return tuple(n for n in self.arguments if isinstance(n, int))

    @property
    def places(self) -> tuple[Place, ...]:
        """The arguments that are addresses."""
        return tuple(p for p in self.arguments if isinstance(p, Place))


@dataclass(frozen=True, slots=True)
class StreamOperation(Generic[Record]):
    """An `Issue`: the accelerator's operation record, unchanged, with the memory that it uses.

    The operation computes rows [`first`, `end`) of its result.  `inputs` are in the order of the
    `Issue`; each covers the rows that this call reads."""

    operation: Record
    first: int
    end: int
    inputs: tuple[StreamRows, ...]
    result: StreamRows
    tables: tuple[Place, ...] = ()
    scratch: Place | None = None
    prefetched: Place | None = None


@dataclass(frozen=True, slots=True)
class StreamTransfer:
    """A `Transfer`: a copy of `size_bytes` bytes."""

    source: Place
    target: Place
    size_bytes: int


AnyStreamCommand = StreamCommand | StreamOperation[object] | StreamTransfer

Encoder = Callable[[Sequence[AnyStreamCommand]], bytes]
"""Encodes the commands of one call, in order."""
