"""The layers of a network as the bounds of plans see them: which rows and columns each one reads.

The tables are derived from `Op.needs` alone, so that they share nothing with the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.ir.op import Croppable
from penstock.ir.tensor import Region
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts

RANK, ROWS, COLUMNS = 4, 1, 2
"""Images are (1, rows, columns, channels)."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Which rows, or which columns, of an input a layer reads.

    needed[n]: how many of the first ones are required for the first n of the output.
    done[n]: how many of the first ones are not read again after the first n of the output.
    """

    needed: tuple[int, ...]
    done: tuple[int, ...]


NOTHING = Reads((), ())
"""The reads of a layer whose input does not matter."""


@dataclass(frozen=True)
class Layer:
    """A part with its inputs.

    inputs: numbers of the layers that compute its inputs, each once.
    """

    part: Part
    inputs: tuple[int, ...]

    @property
    def is_image(self) -> bool:
        """Whether the output has rows and columns."""
        shape = self.part.output.type.shape
        return len(shape) == RANK and shape[0] == 1

    @property
    def rows(self) -> int:
        """Number of rows; 1 for a tensor that is no image."""
        return self.part.output.type.shape[ROWS] if self.is_image else 1

    @property
    def columns(self) -> int:
        """Number of columns; 1 for a tensor that is no image."""
        return self.part.output.type.shape[COLUMNS] if self.is_image else 1

    @property
    def row_bytes(self) -> int:
        """Size of a row."""
        return self.part.output.type.size_bytes // self.rows

    @property
    def pixel_bytes(self) -> int:
        """Size of one column of a row."""
        return self.row_bytes // self.columns

    @cached_property
    def macs(self) -> int:
        """Nominal multiply-accumulates of the whole output."""
        shape = self.part.output.type.shape
        return self.part.macs(Region.whole(shape)) if self.part.nodes else 0

    @property
    def whole(self) -> bool:
        """Whether one call computes all rows."""
        return bool(self.part.nodes) and not (self.part.kernel.by_rows and self.is_image)

    @property
    def accumulates(self) -> bool:
        """Whether all rows share the memory of one."""
        return self.part.kernel.accumulates

    def held(self, rows: int) -> int:
        """Bytes of a number of live rows."""
        return self.row_bytes * max(0, min(rows, 1) if self.accumulates else rows)

    @property
    def may_overwrite(self) -> bool:
        """Whether the output may overwrite an input in place."""
        if not self.part.nodes:
            return False
        node = self.part.nodes[-1]
        return bool(node.op.in_place(node.site)) or bool(self.part.kernel.whole_in_place)

    @property
    def joins(self) -> bool:
        """Whether the layer may be in a chain or run in bands of columns."""
        return (
            bool(self.part.nodes)
            and not self.whole
            and not self.part.kernel.recurrent
            and isinstance(self.part.nodes[-1].op, Croppable)
        )


def layers(parts: Parts) -> tuple[Layer, ...]:
    """The layers of a network, in the order of its graph."""
    makers = {part.name: k for k, part in enumerate(parts.parts)}

    def inputs(part: Part) -> tuple[int, ...]:
        owners = (parts.owners[value.name] for value in part.variable_inputs)
        return tuple(dict.fromkeys(makers[name] for name in owners if name in makers))

    return tuple(Layer(part, inputs(part)) for part in parts.parts)


def reads(layer: Layer, source: Layer, axis: int, owners: Mapping[str, str]) -> Reads:
    """What a layer reads along an axis of one of its inputs, for each prefix of its output.

    source: the layer that computes the input.
    owners: the tensor in whose memory each tensor is stored, by name.
    """
    shape = layer.part.output.type.shape
    most = source.rows if axis == ROWS else source.columns
    values = [
        (k, value)
        for k, value in enumerate(layer.part.inputs)
        if value.data is None and owners[value.name] == source.part.name
    ]
    if layer.whole or not all(v.type.shape == source.part.output.type.shape for _, v in values):
        count = layer.rows if axis == ROWS else layer.columns
        return Reads((0, *[most] * count), (*[0] * count, most))
    lowers, uppers = [most], [0]
    for n in range(shape[axis]):
        needs = layer.part.needs(Region.whole(shape).replace(axis, (n, n + 1)))
        spans = [needs[k].intervals[axis] for k, _ in values if not needs[k].empty]
        lowers.append(min((lower for lower, _ in spans), default=most))
        uppers.append(max((upper for _, upper in spans), default=0))
    done = [min(lowers[n + 1 :], default=most) for n in range(len(lowers))]
    return Reads(tuple(max(uppers[: n + 1]) for n in range(len(uppers))), tuple(done))
