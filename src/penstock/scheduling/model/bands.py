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
from functools import reduce

from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.ir.tensor import COLUMNS
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.stripe import StripeConfig


@frozen
class TensorSection:
    """A tensor of a band (`value`), which consists of columns of a tensor of the network.

    stripes: these columns of each of the bands for which the `Band` stands.
    """

    value: str
    tensor: str
    stripes: StripeConfig

    @property
    def first_column(self) -> int:
        """Column of the network's tensor at which the first of the bands begins."""
        return self.stripes.offset[COLUMNS]

    @property
    def step(self) -> int:
        """Columns of the network's tensor between the beginnings of consecutive bands."""
        return int(self.stripes.strides[COLUMNS])

    def nested(self, rows: StripeConfig) -> StripeConfig:
        """The stripes of the network's tensor that all bands compute, given those of one band."""
        # 4 stripes in 3 bands are 12, those of the first band first
        bands = self.stripes
        inner = tuple(place + 1 if place else 0 for place in rows.order)
        return StripeConfig(
            rows.shape,
            bands.extent,
            (*rows.strides[:COLUMNS], bands.strides[COLUMNS], *rows.strides[COLUMNS + 1 :]),
            _with_columns(inner, bands.order[COLUMNS]),
            _with_columns(rows.stripes, bands.stripes[COLUMNS]),
            _with_columns(rows.offset, bands.offset[COLUMNS]),
        )


def column_stripes(
    shape: tuple[int, ...], tensor: tuple[int, ...], first_column: int, step: int, count: int
) -> StripeConfig:
    """One stripe of `shape` for each of `count` bands, with all rows and channels of a tensor."""
    none = (0,) * len(tensor)
    return StripeConfig(
        shape,
        tensor,
        _with_columns(shape, step) if count > 1 else shape,
        _with_columns(none, int(count > 1)),
        _with_columns((1,) * len(tensor), count),
        _with_columns(none, first_column),
    )


def _with_columns(axes: tuple[int, ...], number: int) -> tuple[int, ...]:
    return (*axes[:COLUMNS], number, *axes[COLUMNS + 1 :])


@frozen
class KeptTensor:
    """Memory in which bands of a chain keep columns of an intermediate tensor for the next band.

    It is in the scratch memory of the chain, the same for all bands of a call.

    row_bytes: of the columns that the previous band has kept and those that the current one
        computes.
    slots: number of rows.
    """

    tensor: str
    offset: int
    row_bytes: int
    slots: int

    @property
    def size_bytes(self) -> int:
        return self.slots * self.row_bytes


@frozen(repr=False)
class Band(Brief):
    """Stands for one or more consecutive bands, which run the same parts on different columns.

    plan: how `parts` run as a cascade, with the cost of one band.
    offsets: offset of each memory block in the scratch memory of the single part that runs the
        cascade or chain, in bytes, by block name.  The blocks are a scratch buffer for the kernels,
        and the tensors between `parts`, except those in `kept`.
    call_scratch_bytes: bytes of scratch memory that these blocks take.
    slots: in a chain, the number of rows that the block of each intermediate tensor can hold.
    kept: for each tensor of the band that is stored in memory shared by all bands of a chain
        (`Bands.kept`), the byte at which its columns begin in each row of this memory.
    """

    parts: Parts
    plan: Plan
    sections: tuple[TensorSection, ...]
    offsets: Mapping[str, int]
    call_scratch_bytes: int
    slots: Mapping[str, int]
    kept: Mapping[str, int]

    @property
    def count(self) -> int:
        """Number of bands for which this object stands."""
        return self.sections[0].stripes.stripes[COLUMNS]

    @property
    def tensors(self) -> Mapping[str, str]:
        """Tensors of the network, by those of the band."""
        return {section.value: section.tensor for section in self.sections}


@frozen(repr=False)
class Bands(Brief):
    """All bands of a cascade or of a chain, in execution order.

    name: of the tensor that the cascade or chain computes.
    members: indices of the parts that it replaces, in `Schedule.assigned_parts`.
    width: number of columns of a band; the last band may have fewer.
    scratch_bytes: available to each kernel inside a band.
    call_rows: for a chain, the maximum number of output rows that a call computes; None for a
        cascade, whose single call computes all rows.
    kept: in a chain, the tensors of which each band keeps columns for the next one.
    """

    name: str
    members: tuple[int, ...]
    width: int
    scratch_bytes: int
    bands: tuple[Band, ...]
    call_rows: int | None = None
    kept: tuple[KeptTensor, ...] = ()

    @property
    def keeps_halos(self) -> bool:
        return bool(self.kept)

    @property
    def stripe(self) -> int | None:
        """Maximum number of rows per call inside a band; None: all rows."""
        return self.bands[0].plan.stripe

    @property
    def call_scratch_bytes(self) -> int:
        # the bands use it one after the other
        ends = (kept.offset + kept.size_bytes for kept in self.kept)
        return max((*(band.call_scratch_bytes for band in self.bands), *ends))

    @property
    def cost(self) -> Cost:
        each = (band.plan.cost for band in self.bands for _ in range(band.count))
        return reduce(Cost.__add__, each, NOTHING)
