"""Elementwise: base of operators whose output elements depend on one element of each input, with
broadcasting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.op import Op, Site, Work
from penstock.ir.operator_facts import OperatorDefaults
from penstock.ir.region import Region
from penstock.ir.tensor import DType
from penstock.opkit import broadcast
from penstock.opkit.checks import require_dtype, require_quantised
from penstock.opkit.intermediate import reshaped


@dataclass(frozen=True, slots=True)
class Elementwise(OperatorDefaults):
    """Region propagation and work of an element-wise operator."""

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return tuple(broadcast.needs(x, out) for x in site.inputs)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return tuple(broadcast.affine(x, site.output) for x in site.inputs)

    def exchanged(self, rank: int) -> Self:
        return self

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements)

    def cropped(self, site: Site, out: Region) -> Self:
        return self

    def in_place(self, site: Site) -> tuple[int, ...]:
        return broadcast.in_place(site)


def elementwise_nodes(
    op: Op, node: ForeignNode, count: int, dtype: DType = DType.INT8
) -> Iterator[Made]:
    """Nodes that apply `op` to the first `count` inputs of a node with output type `dtype`.

    An operand of rank 2 is first reshaped to the rank of the output, so that its rows (`row_axis`)
    are rows of the output.  Raises UnsupportedError for another output type."""
    output = node.output()
    require_dtype(output.type, (dtype,), "output")
    if dtype is DType.INT8:
        require_quantised(output.type, "output")
    operands: list[Value] = []
    for k in range(count):
        operand = node.input(k)
        if operand.type.rank == 2 < output.type.rank:
            shape = (1,) * (output.type.rank - 2) + operand.type.shape
            operand, views = reshaped(operand, shape, f"{output.name}/operand{k}")
            yield from views
        operands.append(operand)
    yield Made(op, tuple(operands), output)
