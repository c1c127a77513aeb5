"""The commands that an encoder converts to bytes, with integers instead of expressions.

Addresses in a stream are relative to base addresses, which the driver receives at submission.  A
`Place` states the index of a base address and an offset in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Place:
    """An address in a stream: `offset_bytes` bytes after a base address of the submission.

    base: the index of the base address.
    memory: the name of the memory region that contains the address; "" if not stated."""

    base: int
    offset_bytes: int
    memory: str = ""


class StreamRows(NamedTuple):
    """The addresses of consecutive rows of a tensor.

    base: the index of the base address, the same for all rows.
    lower: the index of the first row in the tensor.
    offsets: the offset of each row from the base address, in bytes.
    memory: the name of the memory region that contains the rows; "" if not stated."""

    base: int
    lower: int
    offsets: Sequence[int]
    memory: str = ""

    def between(self, lower: int, upper: int) -> Sequence[int]:
        """Return the offset of each row in [lower, upper) from the base address, in bytes."""
        return self.offsets[lower - self.lower : upper - self.lower]

    def place(self, row: int) -> Place:
        """Return the address of row `row` of the tensor."""
        return Place(self.base, self.offsets[row - self.lower], self.memory)


@dataclass(frozen=True, slots=True)
class StreamCommand:
    """The call of a driver function in a stream: its name, and its arguments in order.

    It is made from an `Invoke` command: integers replace expressions, and places (each a base
    address and an offset) replace addresses.

    record: for commands from `KernelCall.invoke_record`, the dataclass with these integers and
        places in its fields; None for commands from `KernelCall.invoke`."""

    name: str
    arguments: tuple[int | Place, ...]
    record: object = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The arguments that are integers, in order."""
        return tuple(n for n in self.arguments if isinstance(n, int))

    @property
    def places(self) -> tuple[Place, ...]:
        """The arguments that are addresses, in order."""
        return tuple(p for p in self.arguments if isinstance(p, Place))


@dataclass(frozen=True, slots=True)
class StreamOperation(Generic[Record]):
    """An operation of the accelerator in a stream, and the addresses that it uses.

    It is made from an `Issue` command.

    operation: the dataclass that the kernel passed to `KernelCall.issue`, unchanged.
    first, end: the operation computes rows [first, end) of its result.
    inputs: the rows that it reads of each input, in the order of the `Issue`.
    result: the rows that it writes.
    tables, scratch, prefetched: addresses of constants, of working memory, and of prefetched
        constants; () or None if it uses none."""

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
    """A copy of `size_bytes` bytes in a stream, made from a `Transfer` command."""

    source: Place
    target: Place
    size_bytes: int


AnyStreamCommand = StreamCommand | StreamOperation[object] | StreamTransfer

# Returns the stream of bytes for the commands of one call, which are given in order.
Encoder = Callable[[Sequence[AnyStreamCommand]], bytes]
