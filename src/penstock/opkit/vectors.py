"""RowVectors: base of operators on vectors along the last axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from penstock.ir.op import Arrays, Params, Site, Types, Work, row_count
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.axes import FollowingAxes, Sources
from penstock.opkit.checks import require, require_count, require_dtype, require_int8


@dataclass(frozen=True, slots=True)
class RowVectors(FollowingAxes):
    """Region propagation and work of an operator on vectors along the last axis."""

    ELEMENTS = DType.INT8
    """Element type of input and output."""

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, type(self).__name__)
        if self.ELEMENTS is DType.INT8:
            require_int8(inputs[0], "input")
        require_dtype(inputs[0], (self.ELEMENTS,), "input")
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
    return (("width", width), ("depth", depth))
