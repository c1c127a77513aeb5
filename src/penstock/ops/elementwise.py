"""Elementwise: what operators share whose output elements depend on one element of each input, with
broadcasting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.op import Op, Site, Work
from penstock.ir.region import Region
from penstock.ir.tensor import DType
from penstock.ops import broadcast
from penstock.ops.checks import require_dtype, require_quantised
from penstock.ops.intermediate import reshaped


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Propagators and work of an element-wise operator."""

    ALIAS: ClassVar[bool] = False

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return tuple(broadcast.needs(x, out) for x in site.inputs)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return tuple(broadcast.affine(x, site.output) for x in site.inputs)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements)

    def in_place(self, site: Site) -> tuple[int, ...]:
        return broadcast.in_place(site)


def made(op: Op, node: ForeignNode, count: int, dtype: DType = DType.INT8) -> Iterator[Made]:
    """`op` on the first `count` inputs of a node, whose output must be of `dtype`.

    An operand of rank 2 beside an output of a higher rank is first reshaped to that rank: its rows
    (`row_axis`) would not be rows of the output."""
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
