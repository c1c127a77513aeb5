"""Op: what every operator says about itself; and Kernel: how a processor is told to run it.

An operator is a frozen value: its attributes are its fields.  It has one output; an operator of a
model file with several (a split) becomes several nodes.  What depends on the tensors that it stands
between is asked with a `Site`, the types of its inputs and output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.breakdown import Breakdown
from penstock.ir.placed_call import FilledCost, PlacedCost
from penstock.ir.region import Region
from penstock.ir.tensor import Array, Data, DType, TensorType


@dataclass(frozen=True, slots=True)
class Site:
    """Where an operator stands: types of inputs and output; `constants[k]` is the data of input k
    where the model fixes it, else None."""

    inputs: tuple[TensorType, ...]
    output: TensorType
    constants: tuple[Data | None, ...]

    def constant(self, k: int) -> Array:
        """Elements of constant input k."""
        data = self.constants[k]
        assert data is not None, f"input {k} is not constant"
        return data.array(self.inputs[k])


@dataclass(frozen=True, slots=True)
class Work:
    """What computing a region takes: nominal multiply-accumulates (padding taps included), output
    elements that need other arithmetic, and runs of an innermost loop over a window's rows."""

    macs: int
    elements: int
    loops: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Constant elements that a kernel reads: type and data."""

    type: TensorType
    data: Data

    @staticmethod
    def of(array: Array) -> Table:
        return Table(TensorType(tuple(array.shape), DType(array.dtype.name)), Data.of(array))

    @property
    def array(self) -> Array:
        return self.data.array(self.type)


@dataclass(frozen=True, slots=True)
class Fetch:
    """The first `size_bytes` of a kernel's table are copied into the memory of tensors before the
    part's first call, by its accelerator, in so many cycles; the kernel reads them there.

    `commands`: makes what copies them, from an address in memory of constants to another
    (`program.Address`): invocations of the accelerator's driver."""

    table: str
    size_bytes: int
    cycles: float
    commands: Callable[[Any, Any], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A call of the C kernel `name` in `runtime/`; or of what an accelerator has for it.

    `params`: integer members of the kernel's parameter structure, by name.
    `tables`: array members, made at compile time (multipliers, look-up tables).
    `constants`: (input, member): inputs that the kernel reads from constant memory as they stand in
        the model (weights, bias); the other inputs are seen through views, in order.
    `folded`: constant inputs whose elements are in tables, in an order of the kernel's own.
    `scratch_bytes`: working memory that the call needs, planned beside the tensors; `stack_bytes`:
        so little of it that the call has it on its stack.
    `by_rows`: the kernel computes any interval of rows (`row_axis`) and sees data through views, so
        rings and row tables serve as well as whole tensors; otherwise it takes whole tensors only.
    `accumulates`: row r of the output is row r - 1 of it, and what the inputs add; the kernel goes
        on from there, reading the row before its first one, if any, through its output's view.
    `body`: on an accelerator, what makes the commands of a call (`program.Body`); then no C kernel
        is called.
    `cycles`: on an accelerator, the cycles of a call by how many rows of the output it computes,
        and where its tensors live: () or, for each input and for the output, "" or the name of a
        memory of the accelerator's; with what they are made of, or not.
    `traffic`: by what they are, the bytes that a call for rows [first, end) of the output moves,
        where the accelerator's author says so.
    `work_cycles`: what computing the whole output takes, where the kernel knows better than its
        engine; `call_cycles`: what each call adds; `odd_cycles`: what a call adds besides that
        computes an odd number of rows.
    `alignment_bytes`: rows of its inputs and of its output begin at multiples of it.
    `fetch`: what of its constants must be there before.
    `placed`: on an accelerator whose calls take more or less time depending on where their rows
        lie, what a call takes once they have addresses.  `filled`: what a call takes that fetches
        constants, before anything has addresses.
    `classes`: letters of the cheapest proved requantisation of each output channel, or of the
        reference's, where there are weights (docs/requantisation.md).
    `constant_channels`: output channels proved to have the same value for every input, in ascending
        order.  Where `skips_constant`, the kernel has that value in a table, drops the channels'
        weights and executes no multiply-accumulate for them.
    """

    name: str
    params: tuple[tuple[str, int], ...] = ()
    tables: tuple[tuple[str, Table], ...] = ()
    constants: tuple[tuple[int, str], ...] = ()
    folded: tuple[int, ...] = ()
    scratch_bytes: int = 0
    stack_bytes: int = 0
    by_rows: bool = False
    accumulates: bool = False
    body: Callable[..., Any] | None = None
    cycles: Callable[[int, tuple[str, ...]], float | Breakdown] | None = None
    traffic: Callable[[int, int], Mapping[str, int]] | None = None
    work_cycles: int | None = None
    call_cycles: int | None = None
    odd_cycles: int = 0
    classes: str = ""
    alignment_bytes: int = 1
    fetch: Fetch | None = None
    placed: PlacedCost | None = None
    filled: FilledCost | None = None
    constant_channels: tuple[int, ...] = ()
    skips_constant: bool = False

    def executed_macs(self, nominal: int, channels: int) -> int:
        """How many of the multiply-accumulates of all output channels the kernel executes."""
        skipped = len(self.constant_channels) if self.skips_constant else 0
        return nominal * (channels - skipped) // channels if skipped else nominal

    @property
    def table_bytes(self) -> int:
        return sum(table.type.size_bytes for _, table in self.tables)

    @property
    def window_rows(self) -> int:
        """Rows of the window that the kernel slides over its input; 0 where it has none."""
        return dict(self.params).get("kernel_h", 0)


class Op(Protocol):
    """What every operator must be able to say.  Laws in `tests/laws` run over every operator.

    `needs` is exact; `affine` contains it, and equals it on unclipped regions; `evaluate` reads
    nothing outside `needs`.  An operator whose kernel accumulates is given one input more, its own
    output, of which it reads the row before `out` (`row_before`), unless `out` begins with row 0.
    """

    FOREIGN: ClassVar[tuple[str, ...]]
    """Names of this operator in model file formats, such as "CONV_2D"."""

    ALIAS: ClassVar[bool]
    """The output is the bytes of input 0, in the same order: no work, a view."""

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        """Shape and element type of the output (without quantisation).

        Raises ModelError where the inputs do not fit together."""
        ...

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        """Elements of region `out` of the output, in exact arithmetic; shape `out.shape`."""
        ...

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        """Region of each input that region `out` of the output reads, clipped to the input."""
        ...

    def affine(self, site: Site) -> tuple[Affine, ...]:
        """Affine form of `needs`, one per input."""
        ...

    def work(self, site: Site, out: Region) -> Work:
        """Work that computing region `out` takes."""
        ...

    def kernel(self, site: Site) -> Kernel:
        """The portable C kernel that runs this operator."""
        ...

    def in_place(self, site: Site) -> tuple[int, ...]:
        """Inputs over which the output may be written while they are read: element i of the output
        depends on no element of that input but i."""
        ...


@runtime_checkable
class Reducing(Protocol):
    """What an operator may say besides: that its sums can be taken in parts."""

    def reduced(self, site: Site) -> tuple[tuple[tuple[int, int], ...], ...]:
        """By axis that is summed over, the (input, dimension) pairs that run along it together.

        Of index i along one of them, the output reads nothing along the others but index i."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """A small instance of an operator, for the laws; operator files list theirs as `SAMPLES`."""

    op: Op
    site: Site


def row_axis(rank: int) -> int:
    """The axis of rows: a row is the last two axes of a tensor of rank 3 or more, else the last.

    Axes before it are flattened into the row index: (N, H, W, C) has N x H rows of W x C.
    """
    return max(0, rank - (3 if rank >= 3 else 2))


def row_before(out: Region) -> Region:
    """The row above a region, as wide as it is; empty above row 0.

    >>> row_before(Region.of((0, 1), (3, 7), (0, 5), (2, 4))).intervals
    ((0, 1), (2, 3), (0, 5), (2, 4))
    """
    axis = row_axis(len(out.lower))
    first = out.lower[axis]
    return out.replace(axis, (max(0, first - 1), first))


def row_count(shape: tuple[int, ...]) -> int:
    """Rows of a tensor.

    >>> row_count((1, 49, 10, 8)), row_count((4, 32)), row_count((7,))
    (49, 4, 1)
    """
    if len(shape) < 2:
        return 1
    return int(np.prod(shape[: row_axis(len(shape)) + 1]))
