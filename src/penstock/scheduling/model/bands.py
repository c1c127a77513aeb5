"""Bands: a cascade that runs once for each band, an interval of columns of its output.

A band contains all rows and channels of its columns.  For each band, the parts of the cascade
compute only the columns that the band needs; columns that two neighbouring bands need are computed
twice.  The intermediate tensors of all bands share one buffer, the arena of the bands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from penstock.brief import Brief
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan


@dataclass(frozen=True, slots=True)
class TensorSection:
    """Which columns of a tensor of the network a band uses, as a tensor of its own.

    In band k of a sequence of bands, these columns begin at column `first_column` + k * `step`.

    value: name of the band's tensor.
    tensor: name of the tensor of the network that contains it.
    """

    value: str
    tensor: str
    first_column: int
    step: int


@dataclass(frozen=True, slots=True, repr=False)
class Band(Brief):
    """One or more consecutive bands that run the same parts, each on other columns.

    parts: the parts that compute one band.
    plan: how these parts run as a cascade, with the cost of one band.
    sections: for each tensor of a band, the columns of the network's tensor that it contains.
    count: number of bands.
    offsets: offset of each memory block in the arena, in bytes, by block name.  The arena holds
        intermediate tensors and scratch memory, but no inputs and outputs of the band.
    arena_bytes: size of the arena.
    """

    parts: Parts
    plan: Plan
    sections: tuple[TensorSection, ...]
    count: int
    offsets: Mapping[str, int]
    arena_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class Bands(Brief):
    """All bands of a cascade, in execution order.

    name: name of the tensor that the cascade computes.
    width: number of columns of a band; the last band may have fewer.
    scratch_bytes: available scratch memory.  A part runs its preferred kernel if this suffices,
        else its fallback kernel.
    bands: each entry stands for one or more bands that run the same parts.
    """

    name: str
    width: int
    scratch_bytes: int
    bands: tuple[Band, ...]

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
