"""MirrorPad: pads a tensor with its mirror image.

    x  any shape, any type
    y  extents before[a] + x + after[a]

The outermost elements occur once if `edge` is 1 (reflect), twice if it is 0 (symmetric).

Source: TFLite MIRROR_PAD; `micro/kernels/mirror_pad.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from penstock.ir.exchange import exchanged_entries
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Site
from penstock.ir.operator_facts import relay
from penstock.ir.tensor import TensorType
from penstock.opkit.checks import constant_paddings, require
from penstock.opkit.samples import int8, sample
from penstock.opkit.selection import AxisMap, ListedMap, Maps, Selection, StridedMap, listed_type


@dataclass(frozen=True, slots=True)
class MirrorPad(Selection):
    """Mirrored padding, `before` and `after` each axis."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    edge: int

    TFLITE = ("MIRROR_PAD",)
    RELAY = relay("nn.mirror_pad")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"padding has {len(inputs)} inputs, must have 1")
        shape = inputs[0].shape
        require(
            len(shape) == len(self.before) == len(self.after),
            f"input has shape {list(shape)}, paddings are for rank {len(self.before)}",
        )
        for axis, sides in enumerate(zip(self.before, shape, self.after, strict=True)):
            before, extent, after = sides
            require(
                min(before, after) >= 0 and max(before, after) <= extent - self.edge,
                f"axis {axis} is padded by {before} and {after}, at most {extent - self.edge} "
                "can be mirrored",
            )
        triples = zip(self.before, shape, self.after, strict=True)
        return listed_type(inputs, tuple(sum(triple) for triple in triples))

    def exchanged(self, rank: int) -> Self:
        return replace(
            self,
            before=exchanged_entries(self.before),
            after=exchanged_entries(self.after),
        )

    def maps(self, site: Site) -> Maps:
        triples = zip(self.before, site.inputs[0].shape, self.after, strict=True)
        return tuple(_mirrored(*triple, self.edge) for triple in triples)


def _mirrored(before: int, extent: int, after: int, edge: int) -> AxisMap:
    if before == after == 0:
        return StridedMap()
    inside = tuple(range(extent))
    reverse = inside[::-1]
    return ListedMap(
        (*reverse[extent - edge - before : extent - edge], *inside, *reverse[edge : edge + after]),
        factor=1,
    )


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite MIRROR_PAD."""
    before, after = constant_paddings(node, 1, node.input(0).type.rank)
    edge = int(node.choice("mode", ("REFLECT", "SYMMETRIC")) == "REFLECT")
    yield Made(MirrorPad(before, after, edge), (node.input(0),), node.output())


SAMPLES = (
    sample(MirrorPad((0, 1, 2, 0), (0, 2, 3, 0), 1), int8(1, 5, 4, 3)),
    sample(MirrorPad((0, 2, 0, 1), (1, 0, 3, 2), 0), int8(1, 3, 4, 2)),
)
