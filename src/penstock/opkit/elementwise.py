"""Elementwise: base of operators whose output elements depend on one element of each input, with
broadcasting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Op, OperatorDefaults, Site
from penstock.ir.region import Region
from penstock.ir.tensor import DType
from penstock.opkit import broadcast
from penstock.opkit.checks import require_dtype, require_quantised


@dataclass(frozen=True, slots=True)
class Elementwise(OperatorDefaults):
    """Region propagation and work of an element-wise operator."""

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return tuple(broadcast.needs(x, out) for x in site.inputs)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return tuple(broadcast.affine(x, site.output) for x in site.inputs)

    def exchanged(self, rank: int) -> Self:
        return self

    def cropped(self, site: Site, out: Region) -> Self:
        return self

    def in_place(self, site: Site) -> tuple[int, ...]:
        return broadcast.in_place(site)


def unary_node(op: Op, node: ForeignNode, dtype: DType = DType.INT8) -> Made:
    """A node that applies `op` to input 0 of a node with output type `dtype`.

    Raises UnsupportedError for another output type."""
    require_output(node, dtype)
    return Made(op, (node.input(0),), node.output())


def require_output(node: ForeignNode, dtype: DType) -> None:
    """Raises UnsupportedError unless the output has that element type, and a scale if it is
    int8."""
    require_dtype(node.output().type, (dtype,), "output")
    if dtype is DType.INT8:
        require_quantised(node.output().type, "output")
