"""Bands: intervals of columns of an output, which the same parts compute one after the other.

A band contains all channels of its columns.  For each band, the parts compute only the columns that
the band needs; columns that two neighbouring bands need are computed twice, unless they are kept.

In the schedule, a single part replaces the parts that run in bands.  The tensors between these
parts are stored in the scratch memory of the single part, which the bands use one after the other.
There are two cases:

- The single part is a cascade of its own.  One call computes all bands, each with all its rows.
- The single part (a chain) is one of several parts of a cascade.  Each call computes a stripe of
  rows, band by band, and recomputes the rows of the intermediate tensors that it needs.  So the
  scratch memory of a chain holds no data between calls, and all chains of a cascade share one
  scratch buffer.  During a call, each band may keep columns for the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

from penstock.brief import Brief
from penstock.ir.columns import COLUMNS
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.stripe import StripeConfig


@dataclass(frozen=True, slots=True)
class TensorSection:
    """A tensor of a band, which consists of some columns of a tensor of the network.

    value: name of the tensor in the graph of the band.
    tensor: name of the tensor in the graph of the network.
    stripes: the columns of the network's tensor, with all rows and channels.  If a `Band` stands
        for several bands, there is one stripe for each of them.
    """

    value: str
    tensor: str
    stripes: StripeConfig

    @property
    def first_column(self) -> int:
        """Column of the network's tensor at which the tensor of the band begins.

        If a `Band` stands for several bands, this is the column at which the first one begins."""
        return self.stripes.offset[COLUMNS]

    @property
    def step(self) -> int:
        """Distance between the first columns of consecutive bands, in columns of the network's
        tensor."""
        return int(self.stripes.strides[COLUMNS])

    def nested(self, rows: StripeConfig) -> StripeConfig:
        """Return the stripes of the network's tensor that all bands compute, band by band.

        rows: the stripes of the tensor of one band.  All bands are divided into the same intervals
            of rows.  For 4 such stripes and 3 bands, the result consists of 12 stripes: the 4
            stripes of the first band come first.
        """
        bands = self.stripes

        def with_columns(others: tuple[int, ...], columns: tuple[int, ...]) -> tuple[int, ...]:
            return (*others[:COLUMNS], columns[COLUMNS], *others[COLUMNS + 1 :])

        inner = tuple(place + 1 if place else 0 for place in rows.order)
        return StripeConfig(
            rows.shape,
            bands.extent,
            (*rows.strides[:COLUMNS], bands.strides[COLUMNS], *rows.strides[COLUMNS + 1 :]),
            with_columns(inner, bands.order),
            with_columns(rows.stripes, bands.stripes),
            with_columns(rows.offset, bands.offset),
        )


def column_stripes(
    columns: tuple[int, ...], tensor: tuple[int, ...], first_column: int, step: int, count: int
) -> StripeConfig:
    """Return one stripe of a tensor for each band: some of its columns, with all rows and channels.

    columns, tensor: shape of a stripe, and of the tensor.
    first_column: column at which the first stripe begins.
    step: number of columns from the start of a stripe to the start of the next one.
    count: number of bands.
    """
    none = (0,) * len(tensor)

    def with_columns(others: tuple[int, ...], number: int) -> tuple[int, ...]:
        return (*others[:COLUMNS], number, *others[COLUMNS + 1 :])

    return StripeConfig(
        columns,
        tensor,
        with_columns(columns, step) if count > 1 else columns,
        with_columns(none, int(count > 1)),
        with_columns((1,) * len(tensor), count),
        with_columns(none, first_column),
    )


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """Memory in which bands of a chain keep columns of an intermediate tensor for the next band.

    All bands of a call use the same memory for the tensor.

    tensor: name of the tensor in the graph of the network.
    offset: offset of this memory in the scratch memory of the chain, in bytes.
    row_bytes: size of a row of this memory, in bytes.  A row holds the columns that the previous
        band has kept, and those that the current band computes.
    slots: number of rows for which this memory has space.
    """

    tensor: str
    offset: int
    row_bytes: int
    slots: int

    @property
    def size_bytes(self) -> int:
        return self.slots * self.row_bytes


@dataclass(frozen=True, slots=True, repr=False)
class Band(Brief):
    """Stands for one or more consecutive bands, which run the same parts on different columns.

    parts: the parts that compute one band.
    plan: how these parts run as a cascade, with the cost of one band.
    sections: for each tensor of a band, of which columns of a tensor of the network it consists.
    offsets: offset of each memory block, in bytes, by block name.  It is relative to the scratch
        memory of the single part that runs the whole cascade or chain.  The blocks are a scratch
        buffer for the kernels, and the tensors between `parts`, except those in `kept`.
    call_scratch_bytes: bytes of scratch memory that the blocks in `offsets` take.
    slots: in a chain, the number of rows that the block of each intermediate tensor can hold, by
        tensor name.
    kept: the tensors of the band that are stored in memory shared by all bands of a chain
        (`Bands.kept`).  Keys: names of the band's tensors.  Values: the offset, in bytes, of the
        tensor's first column in each row of this memory.
    """

    parts: Parts
    plan: Plan
    sections: tuple[TensorSection, ...]
    offsets: Mapping[str, int]
    call_scratch_bytes: int
    slots: Mapping[str, int] = field(default_factory=dict[str, int])
    kept: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def count(self) -> int:
        """Number of bands for which this object stands."""
        return self.sections[0].stripes.stripes[COLUMNS]


@dataclass(frozen=True, slots=True, repr=False)
class Bands(Brief):
    """All bands of a cascade or of a chain, in execution order.

    name: name of the tensor that the cascade or chain computes.
    width: number of columns of a band; the last band may have fewer.
    scratch_bytes: scratch memory available to each kernel inside a band.  A part runs its preferred
        kernel if this suffices, else its fallback kernel.
    bands: each entry stands for one or more bands that run the same parts.
    call_rows: for a chain, the maximum number of output rows that a call computes.  None for a
        cascade: a single call computes all rows.
    kept: in a chain, the tensors of which each band keeps columns for the next one.
    """

    name: str
    width: int
    scratch_bytes: int
    bands: tuple[Band, ...]
    call_rows: int | None = None
    kept: tuple[KeptTensor, ...] = ()

    @property
    def keeps_halos(self) -> bool:
        """Whether bands keep columns that the next band would otherwise compute again."""
        return bool(self.kept)

    @property
    def stripe(self) -> int | None:
        """Maximum number of rows per call inside a band; None: all rows."""
        return self.bands[0].plan.stripe

    @property
    def call_scratch_bytes(self) -> int:
        """Bytes of scratch memory that a call of the cascade or chain needs.

        This memory contains the tensors between the parts of a band, a scratch buffer for their
        kernels, and the columns kept for the next band.  The bands use it one after the other.
        """
        ends = (kept.offset + kept.size_bytes for kept in self.kept)
        return max((*(band.call_scratch_bytes for band in self.bands), *ends))

    @property
    def cost(self) -> Cost:
        """Total cost of all bands."""
        each = (band.plan.cost for band in self.bands for _ in range(band.count))
        return reduce(Cost.__add__, each, NOTHING)
