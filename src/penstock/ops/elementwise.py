"""Elementwise: what operators share whose output elements depend on one element of each input, with
broadcasting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Op, Site, Work
from penstock.ir.region import Region
from penstock.ops import broadcast
from penstock.ops.checks import require_int8


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


def made(op: Op, node: ForeignNode, inputs: int) -> Made:
    """`op` on the first inputs of a node, whose output must be int8 with a scale."""
    require_int8(node.output().type, "output")
    return Made(op, tuple(node.input(k) for k in range(inputs)), node.output())
