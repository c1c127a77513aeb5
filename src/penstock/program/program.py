"""program: a lowered network: buffers with addresses, and commands.

    buffers     address in a memory, size, kind
    entries     reset, run: each a sequence of commands
    commands    Call (a kernel, on views), Pull, Discard, Loop; Submission (calls as one stream);
                in the body of a call that an accelerator runs: Invoke, Issue, Transfer, Loop; in
                `reset`: FillTensor, LoadTensor; at the end of `run`: Advance; Invoke of a function
                that waits

Views describe whole tensors, rings, rows at arbitrary addresses, and columns of these.  A cascade
is a loop whose bounds and views are expressions of the loop variable.  The ring of a queue rotates:
its counter depends on the number of runs since the last reset only.  Control flow does not depend
on data, so every program can be unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, fields, replace
from enum import Enum
from typing import Any, ClassVar, Protocol

from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.ir.op import Kernel, Op, Site
from penstock.ir.tensor import Data, TensorType, row_count
from penstock.program.expr import Expr, Var, binary


class Kind(Enum):
    """The purpose of a buffer."""

    ARENA = "arena"
    IO = "io"
    SCRATCH = "scratch"
    STATE = "state"
    CONSTANT = "constant"


@frozen
class Buffer:
    """Bytes [address, address + size_bytes) of a memory.

    Constants have `data`.  The linker chooses their addresses; here, `address` is an offset into
    the constants of the memory.  `type` is set for a constant that no view refers to, and
    `is_stream` for command streams.  `alignment_bytes`: alignment of constants, if more than the
    default."""

    name: str
    kind: Kind
    memory: str
    address: int
    size_bytes: int
    data: Data | None = None
    type: TensorType | None = None
    is_stream: bool = False
    alignment_bytes: int = 1


@frozen
class Rows:
    """The offsets of a tensor's rows in a buffer: row r at table[r], or else at (r % ring) * pitch.

    If there is a rotation, row r is in the slot that it determines; programs then have no table."""

    pitch: int
    ring: int
    table: tuple[int, ...] | None = None
    rotation: Rotation | None = None

    @staticmethod
    def whole(type: TensorType) -> Rows:
        """All rows of a tensor, contiguous."""
        count = row_count(type.shape)
        return Rows(type.size_bytes // count, count)

    def offset(self, row: int) -> int:
        """The offset of a row in bytes; with a rotation, for rows with a table."""
        return self.table[row] if self.table is not None else row % self.ring * self.pitch

    def rotated(self, count: int) -> Rows:
        """The rows of a ring with the table of their offsets when its counter is `count`."""
        assert self.rotation is not None
        slots = ((self.rotation.first + count + row) % self.ring for row in range(self.ring))
        return replace(self, table=tuple(slot * self.pitch for slot in slots))


@frozen(repr=False)
class View(Brief):
    """A tensor in memory, as a kernel accesses it: `type` states its shape, and `rows` the offset
    of each row, from `offset` bytes into `buffer` on.  Only rows [lower, upper) may be accessed.
    With a `first_column`, the view is only some columns of the tensor, from this one on."""

    tensor: str
    type: TensorType
    buffer: str
    rows: Rows
    lower: Expr
    upper: Expr
    offset: Expr = 0
    first_column: Expr | None = None

    @staticmethod
    def whole(tensor: str, type: TensorType, buffer: str) -> View:
        """A contiguous tensor at the beginning of a buffer."""
        return View(tensor, type, buffer, Rows.whole(type), 0, row_count(type.shape))

    @property
    def row_bytes(self) -> int:
        """Size of a row in bytes."""
        return self.type.size_bytes // row_count(self.type.shape)

    @property
    def contiguous(self) -> bool:
        """Whether all rows are stored consecutively."""
        whole = Rows.whole(self.type)
        rows = self.rows
        scattered = rows.table is not None or rows.rotation is not None
        return not scattered and rows.ring >= whole.ring and rows.pitch == whole.pitch


@frozen(repr=False)
class Call(Brief):
    """Computes rows [lower, upper) of the tensor of `output`, with a kernel on an engine.

    `op` and `site` define the result; `inputs` include constants.  `body` holds the commands of an
    accelerator for rows [FIRST, END), with variables for offsets (`steps.offset_name`) that depend
    on loops.  `prefetched` refers to prefetched constants of the kernel.  `prefetches` are the
    targets of prefetches by the body, at row 0.  `members`: the calls, bodiless, of a region."""

    op: Op
    site: Site
    kernel: Kernel
    engine: str
    inputs: tuple[View, ...]
    output: View
    lower: Expr
    upper: Expr
    scratch: str | None = None
    origin: str = ""
    body: tuple[Command, ...] = ()
    prefetched: View | None = None
    prefetches: tuple[View, ...] = ()
    members: tuple[Call, ...] = ()


FIRST, END = Var("first"), Var("end")
"""In the body of a call: the interval of output rows that the call computes."""


@frozen
class Driver:
    """A function of an accelerator's driver.

    `model` is its functional model on NumPy.  It receives the state of the accelerator, then the
    arguments: for an expression its value, for an `Address` the bytes (uint8) from there to the end
    of the memory, which the model may write.  If the arguments are a record, the model receives the
    state and the record, with these values in its fields.

    `device` creates the state, which all functions of an accelerator share.  `cycles` returns the
    duration of an invocation.  It runs after the model with the same arguments, but None for an
    address outside a record.  Schedules ignore it; `verify` prints the sum beside the estimate."""

    name: str
    engine: str
    model: Callable[..., None]
    device: Callable[[], Any]
    cycles: Callable[..., float] | None = None


@frozen
class Address:
    """The byte at `offset` of a buffer."""

    buffer: str
    offset: Expr = 0


@frozen
class WholeMemory:
    """The first byte of a writable memory, as an argument that stands for all of its bytes."""

    memory: str


class DriverRecord(Protocol):
    """A frozen dataclass whose fields are expressions or addresses."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Argument = Expr | Address | WholeMemory
Arguments = tuple[Argument, ...] | DriverRecord


@frozen
class Invoke:
    """Call a function of an accelerator's driver.

    `given` holds the arguments: a tuple, or a frozen dataclass with the arguments as fields."""

    driver: Driver
    given: Arguments

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments in order."""
        if isinstance(self.given, tuple):
            return self.given
        values = (getattr(self.given, field.name) for field in fields(self.given))
        return tuple(int(value) if isinstance(value, int) else value for value in values)

    def with_values(self, values: Sequence[Any]) -> Any:
        """The record with the values of its fields, given in order; None for a tuple of arguments.

        Numbers of the record keep their type: a flag stays a bool, an enumerator an enumerator."""
        if isinstance(self.given, tuple):
            return None
        old = {field.name: getattr(self.given, field.name) for field in fields(self.given)}
        pairs = zip(old.items(), values, strict=True)
        new = {name: kept if isinstance(kept, int) else value for (name, kept), value in pairs}
        return type(self.given)(**new)


@frozen
class TensorRows:
    """Rows [lower, upper) of a tensor: row r begins at byte `offset` + `rows.offset(r)`."""

    buffer: str
    rows: Rows
    lower: Expr
    upper: Expr
    offset: Expr = 0


@frozen
class Issue:
    """Append an operation to the command stream of an accelerator.

    `operation` is a frozen record of the accelerator, which its encoder receives unchanged.  The
    operation computes rows [`first`, `end`) of its result from `inputs`.  `tables` are the
    addresses of its constants, in an order that the accelerator defines.  `prefetched` is the
    address of the constants that an earlier call has copied for this one."""

    operation: object
    first: Expr
    end: Expr
    inputs: tuple[TensorRows, ...]
    result: TensorRows
    tables: tuple[Address, ...] = ()
    scratch: Address | None = None
    prefetched: Address | None = None


@frozen
class Transfer:
    """Append a copy of `size_bytes` bytes to the command stream of an accelerator."""

    source: Address
    target: Address
    size_bytes: int


class Body(Protocol):
    """Returns the commands by which an accelerator computes rows [FIRST, END) of a call's output:
    Loop, Invoke, Issue and Transfer.

    `rows` is the most rows of a call.  `tables` maps each table of the kernel to its buffer;
    `prefetched` is the buffer of prefetched constants."""

    def __call__(
        self,
        inputs: tuple[View, ...],
        output: View,
        rows: int,
        tables: dict[str, str],
        scratch: str | None,
        prefetched: str | None,
    ) -> tuple[Command, ...]: ...


@frozen
class Pull:
    """Takes rows [lower, upper) of a streamed input from the caller, who supplies each row once."""

    target: View
    lower: Expr
    upper: Expr


@frozen
class RowCounter:
    """A variable that counts the rows that several loops have computed, from `begin` on."""

    name: str
    begin: int


@frozen
class Counted:
    """A loop that begins at a counter and, if its upper bound is above, leaves the counter there.

    In the body, the variable `limit` is the upper bound, so that the bodies of all loops that a
    counter counts are equal."""

    counter: str
    limit: str


@frozen(repr=False)
class Loop(Brief):
    """Executes the body for `variable` = lower, lower + step, ... below upper.

    `period`: if stated, also for each multiple of it, and from there on in steps.
    `counters`: those that begin with the loop; loops in the body may refer to them.
    `counted`: the counter that `lower` is."""

    variable: str
    lower: Expr
    upper: Expr
    step: int
    body: tuple[Command, ...]
    counted: Counted | None = None
    counters: tuple[RowCounter, ...] = ()
    period: int | None = None

    def after(self, value: Expr) -> Expr:
        """The next value of the variable, which may lie beyond the upper bound."""
        stepped = binary("+", value, self.step)
        if self.period is None:
            return stepped
        periods = binary("+", binary("//", value, self.period), 1)
        return binary("min", stepped, binary("*", periods, self.period))


# Executes a stream of several calls, call by call: a generator of a functional model.  It receives
# the state of the accelerator, the bytes from the stream's first one on, the offset in bytes at
# which the part of each call ends, and the further arguments of the driver function.
Parts = Callable[..., Iterator[None]]


@frozen(repr=False)
class Submission(Brief):
    """Calls of an accelerator, possibly in loops, that its driver receives as one stream.

    `run` holds these calls and loops; the bodies of the calls state what the stream contains.
    `submit` invokes the driver function.  `number`: the number of the stream that it submits, which
    depends on the loops around the submission.  `ends`: for each number, the offset in bytes at
    which the part of each call ends, in order of execution; () if there is no call, and nothing is
    submitted.  `parts`: the functional model that executes a stream in parts."""

    run: tuple[Command, ...]
    submit: Invoke
    number: Expr
    ends: tuple[tuple[int, ...], ...]
    parts: Parts

    def __hash__(self) -> int:
        return hash(self.submit)  # Its stream distinguishes it; the calls inside are many.

    @property
    def buffer(self) -> str:
        """The constant that contains the streams."""
        stream = self.submit.arguments[0]
        assert isinstance(stream, Address)
        return stream.buffer


@frozen
class FillTensor:
    """Sets every byte of a tensor, whose rows are contiguous, to `byte` (0 to 255)."""

    target: View
    byte: int


@frozen
class LoadTensor:
    """Copies a constant to a tensor, whose rows are contiguous, as often as it takes to fill it."""

    target: View
    source: View


@frozen
class Advance:
    """Rotates the ring of a queue at the end of a run: drops the first rows of `window`, and row r
    becomes row r - `step`.  Adds `step` to the ring's counter, modulo its number of slots."""

    window: View
    counter: View
    step: int


@frozen
class Discard:
    """The contents of a buffer are undefined from here on, which the reference machine checks."""

    buffer: str


Command = (
    Call | Invoke | Issue | Transfer | Pull | Discard | Loop | Submission | FillTensor | LoadTensor
    | Advance
)  # fmt: skip


@frozen
class Memory:
    """A memory that holds buffers; addresses range from 0 to `size_bytes`."""

    name: str
    size_bytes: int
    writable: bool


@frozen(repr=False)
class Program(Brief):
    """The commands of the two entries, and the buffers that they use.

    The caller fills the views `inputs` before `run`.  Streamed inputs are not among them; they are
    targets of Pull.  `reset` sets the buffers of kind STATE, whose contents persist from run to
    run, to their initial contents.  `waits`: functions that wait for accelerators with a queue."""

    name: str
    memories: tuple[Memory, ...]
    buffers: tuple[Buffer, ...]
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    reset: tuple[Command, ...]
    run: tuple[Command, ...]
    waits: tuple[Driver, ...] = ()

    def buffer(self, name: str) -> Buffer:
        """The buffer of a name."""
        return next(b for b in self.buffers if b.name == name)

    def ram(self) -> tuple[Memory, ...]:
        """The writable memories that hold buffers; the first writable memory if none does."""
        used = {b.memory for b in self.buffers}
        writable = tuple(m for m in self.memories if m.writable)
        return tuple(m for m in writable if m.name in used) or writable[:1]


@frozen
class Rotation:
    """The rotation of a ring: row r is in slot (first + c + r) % ring, where c is the number in the
    buffer `counter`."""

    counter: str
    first: int
