"""Program: what a machine is told, with addresses.

    buffers     where bytes lie: address in a memory, size, kind
    entries     init, reset, run: each a sequence of commands
    commands    Call (a kernel, on views), Invoke (an accelerator), Copy, Wait, Pull, Loop

The grammar is complete for all that is to come: rings and rows placed one by one are views; a
cascade is a loop whose bounds and views are expressions of its variable; a copy engine works
between an issuing Copy and its Wait.  No control depends on data, so every program can be unrolled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from penstock.brief import Brief
from penstock.ir.op import Kernel, Op, Site, row_count
from penstock.ir.tensor import Data, TensorType
from penstock.program.expr import Expr, Var


class Kind(Enum):
    """What a buffer is for."""

    ARENA = "arena"
    IO = "io"
    SCRATCH = "scratch"
    STATE = "state"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes [address, address + size_bytes) of a memory.  Constants have data; their address is the
    linker's to choose, and is an offset into the memory's constants here; `type` is
    that of a constant that no view shows; `is_stream`: it holds command streams."""

    name: str
    kind: Kind
    memory: str
    address: int
    size_bytes: int
    data: Data | None = None
    type: TensorType | None = None
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the rows of a tensor lie in a buffer: row r at table[r], else at (r % ring) * pitch."""

    pitch: int
    ring: int
    table: tuple[int, ...] | None = None

    @staticmethod
    def whole(type: TensorType) -> Rows:
        """All rows, one after the other."""
        count = row_count(type.shape)
        return Rows(type.size_bytes // count, count)

    def offset(self, row: int) -> int:
        """Offset of a row in bytes."""
        return self.table[row] if self.table is not None else row % self.ring * self.pitch


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as a kernel sees it: `type` says its shape, `rows` where each row lies behind
    `offset` bytes of `buffer`; rows outside [lower, upper) must not be touched."""

    tensor: str
    type: TensorType
    buffer: str
    rows: Rows
    lower: Expr
    upper: Expr
    offset: Expr = 0

    @staticmethod
    def whole(tensor: str, type: TensorType, buffer: str) -> View:
        """A tensor that a buffer holds from its first byte, whole."""
        return View(tensor, type, buffer, Rows.whole(type), 0, row_count(type.shape))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.type.size_bytes // row_count(self.type.shape)

    @property
    def contiguous(self) -> bool:
        """Whether every row has its place, one behind the other."""
        whole = Rows.whole(self.type)
        rows = self.rows
        return rows.table is None and rows.ring >= whole.ring and rows.pitch == whole.pitch


@dataclass(frozen=True, slots=True)
class Box:
    """A region whose bounds are expressions."""

    lower: tuple[Expr, ...]
    upper: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Call(Brief):
    """Compute region `out` of the tensor that `output` shows, with a kernel on an engine.

    `op` and `site` are the kernel's meaning; `inputs` shows every input, constants included.
    `body`: how an accelerator does it: loops and invocations, for the rows [FIRST, END).
    `fetched`: constants of the kernel's that the memory of tensors holds; `fills`: those of other
    calls and of its own that the body brings there where it computes row 0."""

    op: Op
    site: Site
    kernel: Kernel
    engine: str
    inputs: tuple[View, ...]
    output: View
    out: Box
    scratch: str | None = None
    origin: str = ""
    body: tuple[Command, ...] = ()
    fetched: View | None = None
    fills: tuple[View, ...] = ()


FIRST, END = Var("first"), Var("end")
"""In the body of a call: the interval of rows of the output that the call computes."""


@dataclass(frozen=True, slots=True)
class Driver:
    """A function of an accelerator's driver.

    `model`: what it does, on NumPy: takes the accelerator's state, then the arguments; a number for
    an expression, for an Address the bytes (uint8) from there to the end of its memory, which it
    may write.  `device` makes the state; functions of one accelerator share it.
    `cycles`: how long an invocation takes, by its arguments, of which addresses are None."""

    name: str
    engine: str
    model: Callable[..., None]
    device: Callable[[], Any]
    cycles: Callable[..., float] | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """The byte at `offset` of a buffer."""

    buffer: str
    offset: Expr = 0


@dataclass(frozen=True, slots=True)
class Invoke:
    """Call a function of an accelerator's driver; it is done when the call returns."""

    driver: Driver
    arguments: tuple[Expr | Address, ...]


class Body(Protocol):
    """Makes the commands by which an accelerator computes rows [FIRST, END) of a call's output:
    Loop and Invoke.  `rows`: how many at most; `tables`: the buffer of each of the kernel's;
    `fetched`: that of its fetched constants."""

    def __call__(
        self,
        inputs: tuple[View, ...],
        output: View,
        rows: int,
        tables: dict[str, str],
        scratch: str | None,
        fetched: str | None,
    ) -> tuple[Command, ...]: ...


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy rows [lower, upper) between two views of one tensor.  With a token the engine only
    begins here, and its target must not be read, nor its source written, before the Wait."""

    source: View
    target: View
    lower: Expr
    upper: Expr
    engine: str
    token: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Go on when the engine has done what it began under `token`."""

    engine: str
    token: str


@dataclass(frozen=True, slots=True)
class Pull:
    """Take rows [lower, upper) of the network's input `target.tensor` from the caller, who hands
    over the rows of a streamed input in order, each once."""

    target: View
    lower: Expr
    upper: Expr


@dataclass(frozen=True, slots=True, repr=False)
class Loop(Brief):
    """For `variable` = lower, lower + step, .. below upper: the body."""

    variable: str
    lower: Expr
    upper: Expr
    step: int
    body: tuple[Command, ...]


Command = Call | Invoke | Copy | Wait | Pull | Loop


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory that the program's buffers use: bytes from 0 to `size_bytes`."""

    name: str
    size_bytes: int
    writable: bool


@dataclass(frozen=True, slots=True, repr=False)
class Program(Brief):
    """Commands of the three entries, over buffers in memories.

    `inputs` are views that the caller fills before `run`; inputs that are streamed are not among
    them, but targets of Pull."""

    name: str
    memories: tuple[Memory, ...]
    buffers: tuple[Buffer, ...]
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    init: tuple[Command, ...]
    reset: tuple[Command, ...]
    run: tuple[Command, ...]

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name."""
        return next(b for b in self.buffers if b.name == name)

    def ram(self) -> tuple[Memory, ...]:
        """The writable memories that hold buffers, at least one, in order."""
        used = {b.memory for b in self.buffers}
        writable = tuple(m for m in self.memories if m.writable)
        return tuple(m for m in writable if m.name in used) or writable[:1]
