"""Op: the interface of operators; Kernel: how a processor or an accelerator runs one.

An operator is a frozen dataclass whose fields are its attributes.  It has one output; an operator
of a model file with several outputs, such as a split, becomes several nodes.  Methods that depend
on the operands receive a `Site` with the types of inputs and output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.breakdown import Breakdown, FilledCost, PlacedCall, PlacedCost
from penstock.ir.operator_facts import OnnxName, RelayName, StatedAttribute, stated_fields
from penstock.ir.tensor import Array, Data, DType, Region, TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[Array, ...]
Regions = tuple[Region, ...]
Affines = tuple[Affine, ...]
"""Of the inputs of an operator, in order."""


@frozen
class Site:
    """The operands of an operator: types of inputs and output, and the data of constant inputs.

    `constants[k]` is the data of input k; None if the input is not constant."""

    inputs: Types
    output: TensorType
    constants: tuple[Data | None, ...]

    @property
    def x(self) -> TensorType:
        """The type of input 0."""
        return self.inputs[0]

    def constant(self, k: int) -> Array:
        """Elements of constant input k."""
        data = self.constants[k]
        assert data is not None, f"input {k} is not constant"
        return data.array(self.inputs[k])

    @property
    def bare(self) -> Site:
        """The operands with their shapes and element types alone."""
        inputs = tuple(TensorType(x.shape, x.dtype) for x in self.inputs)
        output = TensorType(self.output.shape, self.output.dtype)
        return Site(inputs, output, (None,) * len(inputs))


@frozen
class Work:
    """The work of computing a region, as input of cost models.

    macs: multiply-accumulates, including those on padding.
    elements: output elements computed by other arithmetic.
    loops: executions of the innermost loop over a row of a window."""

    macs: int
    elements: int
    loops: int = 0


@frozen
class Table:
    """A constant array that a kernel reads: type and data."""

    type: TensorType
    data: Data

    @staticmethod
    def of(array: Array) -> Table:
        return Table(TensorType(tuple(array.shape), DType(array.dtype.name)), Data.of(array))

    @staticmethod
    def integers(numbers: ArrayLike) -> Table:
        """A table of int32."""
        return Table.of(np.asarray(numbers, np.int32))

    @staticmethod
    def reals(numbers: ArrayLike) -> Table:
        """A table of float32."""
        return Table.of(np.asarray(numbers, np.float32))

    @property
    def array(self) -> Array:
        return self.data.array(self.type)


Params = tuple[tuple[str, int], ...]
"""Integer members of a kernel's parameter structure, by name."""
Tables = tuple[tuple[str, Table], ...]
"""Its array members, by name."""


@frozen
class ConstantPrefetch:
    """A prefetch of the first `size_bytes` bytes of a kernel's table.

    The accelerator copies them to the memory of tensors, in `cycles` cycles, before the first call
    of the kernel, which reads the copy.  `commands` returns the commands of the copy, given source
    and target as `program.Address`."""

    table: str
    size_bytes: int
    cycles: float
    commands: Callable[[Any, Any], tuple[Any, ...]]


@frozen
class Workspace:
    """Working memory of a kernel in a memory of its accelerator, by the name of the memory."""

    memory: str
    size_bytes: int


@frozen
class Kernel:
    """A C kernel of `runtime/` with its parameters, or the implementation of an accelerator.

    `params`: integer members of the kernel's parameter structure, by name.
    `tables`: array members, made at compile time (multipliers, look-up tables).
    `constants`: (input, member) of constant inputs that the kernel reads as the model stores them,
        such as weights and bias; it reads the other inputs through views, in order.
    `folded`: constant inputs that are not read at run time, since tables hold their elements in an
        order of the kernel's choice.
    `scratch_bytes`: working memory of a call, placed beside the tensors.
    `scattered_scratch_bytes`: the most working memory of a call, if it may need more than
        `scratch_bytes` because rows are scattered in memory.
    `placed_scratch`: working memory of a call whose tensors have addresses, if these matter.
    `workspace`: working memory of a call in a memory of the accelerator, instead of scratch.
    `stack_bytes`: working memory of a call on the stack.
    `by_rows`: the kernel computes any interval of rows (`row_axis`) and accesses tensors through
        views, so that these may be ring buffers or have a row table; otherwise it needs whole,
        contiguous tensors.
    `by_columns`: the inputs and output of the body may be columns of wider tensors, so that their
        rows are not contiguous.  Kernels of `runtime/` that work by rows always allow this.
    `recurrent`: each output row depends on the previous one; the kernel reads the row before its
        first one through the view of its output.
    `accumulates`: the kernel is recurrent, each output row is the previous one plus a contribution
        of the inputs, and may overwrite it; only the last row is a result.
    `whole_in_place`: inputs that the output may overwrite although its elements depend on other
        elements of theirs (compare `Op.in_place`), because the kernel recognises that both have
        the same address.  It then always computes the whole output.
    `body`: returns the commands of a call on an accelerator (`program.Body`); without it, the call
        is a call of the C kernel.
    `cycles`: cycles of a call on an accelerator, given the number of output rows and the memories
        of its tensors: () or, for each input and the output, a name ("" for the first memory).
    `traffic`: bytes that a call for rows [first, end) moves, by kind, if the accelerator states it.
    `work_cycles`: cycles of computing the whole output, if known better than by the engine's
        model; `call_cycles`: cycles that each call adds; `odd_cycles`: further cycles of a call
        for an odd number of rows.
    `alignment_bytes`: alignment of the rows of its inputs and output, and of its scratch memory.
    `cache_line_bytes`: memories of tensors begin and end at multiples of it, because calls of the
        kernel write lines of a cache back to them, or discard them.
    `prefetch`: the prefetch of constants that the kernel relies on.
    `placed`: cost of a call whose tensors have addresses, where cycles depend on these.
    `filled`: cost of a call that also copies constants, before addresses are known.
    `even_rows`: a kernel with `placed` that takes fewer cycles if rows have a constant distance.
    `classes`: a letter for the requantisation of each output channel: the cheapest that is proved
        exact, or the reference (docs/requantisation.md); empty without weights.
    `constant_channels`: output channels proved to be constant for every input, in ascending order.
    `skips_constant`: a table holds the values of constant channels; their weights are dropped and
        no multiply-accumulate is executed for them.
    `then`: a kernel of `runtime/`, without working memory of its own, that runs after this one in
        each call, on the same tensors and rows, and replaces some channels of the output.  The
        fields of the first kernel, such as its cycles, describe both; only `params`, `tables` and
        `constants` are those of one.  No two tables have one name.
    """

    name: str
    params: Params = ()
    tables: Tables = ()
    constants: tuple[tuple[int, str], ...] = ()
    folded: tuple[int, ...] = ()
    scratch_bytes: int = 0
    scattered_scratch_bytes: int = 0
    placed_scratch: Callable[[PlacedCall], int] | None = None
    workspace: Workspace | None = None
    stack_bytes: int = 0
    by_rows: bool = False
    by_columns: bool = False
    recurrent: bool = False
    accumulates: bool = False
    whole_in_place: tuple[int, ...] = ()
    body: Callable[..., Any] | None = None
    cycles: Callable[[int, tuple[str, ...]], float | Breakdown] | None = None
    traffic: Callable[[int, int], Mapping[str, int]] | None = None
    work_cycles: int | None = None
    call_cycles: int | None = None
    odd_cycles: int = 0
    classes: str = ""
    alignment_bytes: int = 1
    cache_line_bytes: int = 1
    prefetch: ConstantPrefetch | None = None
    placed: PlacedCost | None = None
    filled: FilledCost | None = None
    even_rows: bool = False
    constant_channels: tuple[int, ...] = ()
    skips_constant: bool = False
    then: Kernel | None = None

    @property
    def most_scratch_bytes(self) -> int:
        """Working memory that suffices for a call, wherever its rows are."""
        return max(self.scratch_bytes, self.scattered_scratch_bytes)

    def __post_init__(self) -> None:
        assert self.recurrent or not self.accumulates, f"{self.name} accumulates, is not recurrent"
        assert not (self.by_rows and self.whole_in_place), f"{self.name} computes parts in place"

    def executed_macs(self, nominal: int, channels: int) -> int:
        """How many of `nominal` multiply-accumulates of `channels` channels it executes."""
        skipped = len(self.constant_channels) if self.skips_constant else 0
        return nominal * (channels - skipped) // channels if skipped else nominal

    @property
    def sequence(self) -> tuple[Kernel, ...]:
        """The kernels of a call, in the order in which they run."""
        return (self,) if self.then is None else (self, *self.then.sequence)

    @property
    def every_table(self) -> Tables:
        """The tables of all kernels of a call."""
        return tuple(table for kernel in self.sequence for table in kernel.tables)

    @property
    def window_rows(self) -> int:
        """Rows of the kernel's sliding window; 0 if it has none."""
        return dict(self.params).get("kernel_h", 0)

    @property
    def real_weight_bytes(self) -> int | None:
        """Bytes of a weight of a layer on real numbers: 4, or 1 in int8; None for other kernels."""
        return dict(self.params).get("weight_bytes")


def members(*groups: Iterable[tuple[str, int]], **others: int) -> Params:
    """Integer members of a parameter structure: those of the groups, then others by name."""
    return (*chain(*groups), *((name, int(value)) for name, value in others.items()))


def row_kernel(
    name: str,
    /,
    *groups: Iterable[tuple[str, int | Table]],
    constants: tuple[tuple[int, str], ...] = (),
    folded: tuple[int, ...] = (),
    recurrent: bool = False,
    accumulates: bool = False,
    **others: int | Table,
) -> Kernel:
    """A kernel that computes any interval of rows, with members of its parameter structure:
    those of the groups, then others by name, each an integer or a table."""
    every = [*chain(*groups), *others.items()]
    return Kernel(
        name,
        tuple((name, int(value)) for name, value in every if not isinstance(value, Table)),
        tuple((name, value) for name, value in every if isinstance(value, Table)),
        constants,
        folded,
        by_rows=True,
        recurrent=recurrent,
        accumulates=accumulates,
    )


class Op(Protocol):
    """The interface of every operator.  `tests/laws` checks its laws for every operator.

    Laws: `needs` is exact.  The box of `affine` contains `needs`; both are equal on unclipped
    regions.  `evaluate` reads nothing outside `needs`.

    If the kernel of an operator is recurrent, `evaluate` receives its own output as an additional
    last input and reads the row before `out`, unless `out` begins with row 0.  Of this row it reads
    the columns of `out`; if the kernel accumulates, the elements of `out` (`row_before`).
    """

    __slots__ = ()

    TFLITE: ClassVar[tuple[str, ...]]
    """Names of the operator in TFLite files, such as "CONV_2D"."""

    ONNX: ClassVar[Mapping[str, OnnxName]]
    """By name in ONNX, how a node of that name is presented to the operator's file."""

    RELAY: ClassVar[tuple[RelayName, ...]]
    """Names of the operator in Relay, such as "nn.conv2d"."""

    ALIAS: ClassVar[bool]
    """The output has the bytes of input 0 in the same order, so that no work is needed."""

    BIAS_INPUT: ClassVar[int | None]
    """The input that is the bias of a layer with weights; None where the operator has none."""

    COMMUTATIVE: ClassVar[bool]
    """The two inputs may be exchanged."""

    VARIADIC: ClassVar[bool]
    """The operator takes any number of inputs."""

    REFERENCE_ULPS: ClassVar[int]
    """Largest difference of a float32 result from the reference, in units in the last place (ulp)
    of the largest element of the same vector along the last axis.  It is not 0 where the reference
    calls functions of the C library, which differ from library to library."""

    @property
    def kind(self) -> str:
        """The name of the operator in messages and reports."""
        ...

    def inner_names(self) -> frozenset[str]:
        """Names of the values inside a composite; empty for other operators."""
        ...

    def stated_attributes(self) -> tuple[StatedAttribute, ...]:
        """The attributes as reports state them; by default, the fields that differ from their
        defaults."""
        ...

    def result_type(self, inputs: Types) -> TensorType:
        """Shape and element type of the output (without quantisation).

        Raises ModelError if the inputs are not compatible."""
        ...

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        """Elements of region `out` of the output by the reference arithmetic; shape `out.shape`."""
        ...

    def needs(self, site: Site, out: Region) -> Regions:
        """The region of each input that computing region `out` reads, clipped to the input.

        It depends on shapes and element types alone (`Site.bare`)."""
        ...

    def affine(self, site: Site) -> Affines:
        """The affine form of `needs`, one map per input."""
        ...

    def work(self, site: Site, out: Region) -> Work:
        """The work of computing region `out` of the output."""
        ...

    def kernel(self, site: Site) -> Kernel:
        """The portable C kernel that runs this operator."""
        ...

    def in_place(self, site: Site) -> tuple[int, ...]:
        """Indices of the inputs that the output may overwrite.

        Element i of the output depends on no element of such an input but element i."""
        ...


class OperatorDefaults(Op):
    """Base of operators: members of `Op` as most operators have them."""

    __slots__ = ()

    TFLITE: ClassVar[tuple[str, ...]] = ()
    ONNX: ClassVar[Mapping[str, OnnxName]] = MappingProxyType({})
    RELAY: ClassVar[tuple[RelayName, ...]] = ()
    ALIAS: ClassVar[bool] = False
    BIAS_INPUT: ClassVar[int | None] = None
    COMMUTATIVE: ClassVar[bool] = False
    VARIADIC: ClassVar[bool] = False
    REFERENCE_ULPS: ClassVar[int] = 0

    @property
    def kind(self) -> str:
        return type(self).__name__

    def inner_names(self) -> frozenset[str]:
        return frozenset()

    def stated_attributes(self) -> tuple[StatedAttribute, ...]:
        return tuple(stated_fields(self))

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements)

    def in_place(self, site: Site) -> tuple[int, ...]:
        return ()


@runtime_checkable
class Reducing(Protocol):
    """An operator whose sums can be computed in several steps (optional interface)."""

    def reduced(self, site: Site) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each summation axis, the (input, dimension) pairs that it runs along.

        A product of the sum has the same index along all dimensions of one axis."""
        ...


@runtime_checkable
class Croppable(Protocol):
    """An operator that can compute a region of its output by itself (optional interface).

    Law: the cropped operator, on the regions `needs(site, out)` of the inputs, yields region `out`
    of the output."""

    def cropped(self, site: Site, out: Region) -> Op | None:
        """The operator for region `out`, whose inputs are the regions `needs(site, out)`.

        It depends on `Site.bare` alone.  `out` contains all batches and channels.  None if there is
        no such operator: because the region reads padding alone, or is only a part of an axis that
        the operator rearranges."""
        ...
