"""FollowingAxes: base of operators that read each axis of an input as one of the output, or whole.

Regions and their affine forms follow from one statement: which axis of the output each axis of an
input follows.
"""

from __future__ import annotations

from penstock.ir.affine import Affine
from penstock.ir.op import OperatorDefaults, Site
from penstock.ir.region import Region

Sources = tuple[int | None, ...]
"""For each axis of an input, the axis of the output whose interval it reads; None: it reads all."""


class FollowingAxes(OperatorDefaults):
    """Region propagation of operators whose inputs follow axes of the output."""

    __slots__ = ()

    def sources(self, site: Site) -> tuple[Sources, ...]:
        """What the axes of each input follow."""
        raise NotImplementedError

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return tuple(
            followed(x.shape, sources, out)
            for x, sources in zip(site.inputs, self.sources(site), strict=True)
        )

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return tuple(
            followed_affine(x.shape, sources, site.output.rank)
            for x, sources in zip(site.inputs, self.sources(site), strict=True)
        )


def followed(shape: tuple[int, ...], sources: Sources, out: Region) -> Region:
    """The region of an input of `shape` that region `out` reads; empty if that is."""
    return Region.of(
        *(
            (0, 0 if out.empty else extent) if source is None else out.intervals[source]
            for extent, source in zip(shape, sources, strict=True)
        )
    )


def followed_affine(shape: tuple[int, ...], sources: Sources, rank: int) -> Affine:
    """Affine form of `followed` for outputs of a rank."""
    rows = tuple(
        (*(int(source == axis) for axis in range(rank)), extent if source is None else 0)
        for extent, source in zip(shape, sources, strict=True)
    )
    return Affine(rows, (0,) * len(rows))
