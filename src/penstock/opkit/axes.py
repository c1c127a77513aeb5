"""Bases of operators that read each axis of an input as one of the output, or whole.

Regions and their affine forms follow from one statement: which axis of the output each axis of an
input follows.
"""

from __future__ import annotations

from typing import Self

from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.op import (
    Affines,
    Arrays,
    OperatorDefaults,
    Params,
    Regions,
    Site,
    Types,
    Work,
    members,
)
from penstock.ir.tensor import Array, DType, Region, TensorType, row_count
from penstock.opkit.checks import require, require_count, require_dtype, require_int8

Sources = tuple[int | None, ...]
"""For each axis of an input, the axis of the output whose interval it reads; None: it reads all."""


class FollowingAxes(OperatorDefaults):
    """Region propagation of operators whose inputs follow axes of the output."""

    __slots__ = ()

    def sources(self, site: Site) -> tuple[Sources, ...]:
        """What the axes of each input follow."""
        raise NotImplementedError

    def needs(self, site: Site, out: Region) -> Regions:
        return tuple(
            followed(x.shape, sources, out)
            for x, sources in zip(site.inputs, self.sources(site), strict=True)
        )

    def affine(self, site: Site) -> Affines:
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


@frozen
class RowVectors(FollowingAxes):
    """Region propagation and work of an operator on vectors along the last axis."""

    ELEMENTS = DType.INT8
    """Element type of input and output."""

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, type(self).__name__)
        if self.ELEMENTS is DType.INT8:
            require_int8(inputs[0], "input")
        require_dtype(inputs[0], "input", self.ELEMENTS)
        require(inputs[0].rank > 0, "input is a scalar, must have a last axis")
        return TensorType(inputs[0].shape, self.ELEMENTS)

    def sources(self, site: Site) -> tuple[Sources, ...]:
        # The vector starts at 0, whatever the position of the output element in it.
        return ((*range(site.output.rank - 1), None),)

    def vectors(self, site: Site, inputs: Arrays, out: Region) -> Array:
        """The vectors that region `out` reads."""
        (read,) = self.needs(site, out)
        return inputs[0][read.slices]

    def exchanged(self, rank: int) -> Self:
        return self

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, 3 * out.elements)


def params(site: Site) -> Params:
    """Kernel parameters: vectors per row, elements per vector."""
    depth = site.output.shape[-1]
    width = site.output.elements // row_count(site.output.shape) // depth
    return members(width=width, depth=depth)
