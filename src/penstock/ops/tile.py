"""Tile: a tensor repeated along its axes.

    x  any shape, any type
    y  extents x * multiples: y[o] = x[o mod x.shape] along every axis

Source: TFLite TILE; BROADCAST_TO, which repeats axes of extent 1 (`reference/broadcast_to.h`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from penstock.ir.exchange import exchanged_entries
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Site
from penstock.ir.operator_facts import RelayName, relay
from penstock.ir.tensor import TensorType
from penstock.opkit.axis_map import AxisMap, ListedMap, StridedMap
from penstock.opkit.checks import require
from penstock.opkit.intermediate import reshaped
from penstock.opkit.samples import int8, sample
from penstock.opkit.selection import Maps, Selection, listed_type


@dataclass(frozen=True, slots=True)
class Tile(Selection):
    """Repeats the input `multiples` times along each axis."""

    multiples: tuple[int, ...]

    TFLITE: ClassVar[tuple[str, ...]] = ("TILE", "BROADCAST_TO")
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("tile")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"tile has {len(inputs)} inputs, must have 1")
        shape = inputs[0].shape
        require(
            len(self.multiples) == len(shape) and all(times > 0 for times in self.multiples),
            f"multiples are {list(self.multiples)}, must be {len(shape)} positive numbers",
        )
        return listed_type(
            inputs, tuple(e * times for e, times in zip(shape, self.multiples, strict=True))
        )

    def exchanged(self, rank: int) -> Self:
        return replace(self, multiples=exchanged_entries(self.multiples))

    def maps(self, site: Site) -> Maps:
        return tuple(map(_repeated, site.inputs[0].shape, self.multiples))


def _repeated(extent: int, times: int) -> AxisMap:
    if times == 1:
        return StridedMap()
    return StridedMap(0, 0) if extent == 1 else ListedMap(tuple(range(extent)) * times)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite TILE, BROADCAST_TO."""
    value, numbers = node.input(0), node.constant_ints(1)
    if node.name == "TILE":
        yield Made(Tile(numbers), (value,), node.output())
        return
    shape = (1,) * (len(numbers) - value.type.rank) + value.type.shape
    require(
        len(shape) == len(numbers)
        and all(e == wide or e == 1 <= wide for e, wide in zip(shape, numbers, strict=True)),
        f"shape {list(value.type.shape)} does not stretch to {list(numbers)}",
    )
    multiples = tuple(wide // e if e else 1 for e, wide in zip(shape, numbers, strict=True))
    viewed, made = reshaped(value, shape, f"{node.output().name}/input")
    yield from made
    yield Made(Tile(multiples), (viewed,), node.output())


SAMPLES = (
    sample(Tile((1, 2, 1, 3)), int8(1, 3, 4, 2)),
    sample(Tile((2, 1, 5, 1)), int8(2, 3, 1, 4)),
    sample(Tile((2, 1, 1, 1, 2)), int8(2, 2, 1, 3, 2)),
    sample(Tile((3, 2)), int8(1, 4)),
)
