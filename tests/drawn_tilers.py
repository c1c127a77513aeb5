"""Tilers that return random valid tilings: uneven tiles, any loop order, any holding depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from penstock.uma import Cut, Layer, Scratchpads, TileShape, Tiling


@dataclass(frozen=True, slots=True)
class DrawnTiler:
    """Returns the first fitting tiling of a seeded random sequence; without one, a single tile.

    `even`: all tiles of an axis except the last have the same extent.
    """

    seed: int
    even: bool = False
    tries: int = 30

    def dims(self, layer: Layer, scratchpads: Scratchpads) -> frozenset[str]:
        return frozenset(axis.name for axis in layer.axes)

    def shapes(
        self, layer: Layer, scratchpads: Scratchpads, dims: frozenset[str]
    ) -> Iterator[TileShape]:
        random = self._random(layer)
        for _ in range(self.tries):
            yield TileShape(tuple(random.randint(1, axis.extent) for axis in layer.axes))
        yield TileShape(tuple(axis.extent for axis in layer.axes))

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        if self.even:
            return shape.cuts([axis.extent for axis in layer.axes])
        random = self._random(layer, shape)
        found: list[Cut] = []
        for axis, tile in zip(layer.axes, shape.extents, strict=True):
            count = -(-axis.extent // tile) - 1
            found.append((0, *sorted(random.sample(range(1, axis.extent), count)), axis.extent))
        return tuple(found)

    def nest(
        self, layer: Layer, scratchpads: Scratchpads, cuts: Sequence[Cut]
    ) -> tuple[tuple[str, ...], tuple[int, ...]]:
        random = self._random(layer, cuts)
        order = [axis.name for axis in layer.axes]
        random.shuffle(order)
        return tuple(order), tuple(random.randint(0, len(order)) for _ in layer.operands)

    def prefer(self, tiling: Tiling) -> tuple[int, ...]:
        return ()

    def _random(self, layer: Layer, *facts: object) -> Random:
        extents = [axis.extent for axis in layer.axes]
        return Random(repr((self.seed, layer.name, extents, facts)))
