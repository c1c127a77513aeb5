"""Bands: parts that run as a single part, whose output is computed in bands of columns.

A band is an interval of columns with all channels.  Each band is a cascade of its own, on the
columns of the tensors that it needs; neighbouring bands both compute the columns between them that
both need.  The intermediate tensors of all bands share one buffer, the arena of the bands.

The single part runs in one of two ways:

- as a cascade of its own: in one call, each band computes all its rows;
- as a part of a cascade of several (a chain): each call computes a stripe of rows, band by band,
  and recomputes the rows of the intermediate tensors that it needs.  So the arena is free between
  calls, and chains share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

from penstock.brief import Brief
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan


@dataclass(frozen=True, slots=True)
class TensorSection:
    """The columns of a tensor that are a value in the graph of a sequence of bands.

    value: name of the value.
    tensor: name of the tensor in the network.
    first_column: column of the tensor at which the value begins in the first band.
    step: number of columns from one band to the next.
    """

    value: str
    tensor: str
    first_column: int
    step: int


@dataclass(frozen=True, slots=True, repr=False)
class Band(Brief):
    """Consecutive bands that run the same parts, each on other columns.

    parts: the parts of a band; the memory of inputs and output is outside.
    plan: how a band runs, with the cost of one band.
    sections: the columns of tensors of the network that the variables of a band are.
    count: number of bands.
    offsets: offset of each memory block in the arena of the bands, by name.
    arena_bytes: size of the arena.
    slots: in a chain, the number of rows of each intermediate tensor that the arena holds, by name.
    """

    parts: Parts
    plan: Plan
    sections: tuple[TensorSection, ...]
    count: int
    offsets: Mapping[str, int]
    arena_bytes: int
    slots: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, repr=False)
class Bands(Brief):
    """All bands of a cascade, in order.

    name: name of the tensor that they compute.
    width: number of columns of a band; the last band may have fewer.
    scratch_bytes: scratch memory of the kernels, unless their fallbacks need more.
    call_rows: in a chain, the largest number of rows of a call; None: a call computes all rows.
    """

    name: str
    width: int
    scratch_bytes: int
    bands: tuple[Band, ...]
    call_rows: int | None = None

    @property
    def stripe(self) -> int | None:
        """Maximum number of rows per call inside a band; None: all rows."""
        return self.bands[0].plan.stripe

    @property
    def arena_bytes(self) -> int:
        """Size of the arena that the bands use one after the other."""
        return max(band.arena_bytes for band in self.bands)

    @property
    def cost(self) -> Cost:
        """Total cost of all bands."""
        each = (band.plan.cost for band in self.bands for _ in range(band.count))
        return reduce(Cost.__add__, each, NOTHING)
