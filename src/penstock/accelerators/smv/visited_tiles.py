"""visited_tiles: the tiles of a call, as loops over a tiling or as visits of a tile sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.accelerators.smv.tiles import CallTiles, ScratchpadTile, Span
from penstock.accelerators.smv.tiling import layer_on_engine, tiling_of
from penstock.uma import Command, Expr, KernelCall, TileSequence


def tiles_of_call(call: KernelCall) -> Iterator[CallTiles]:
    """Yield the descriptions of tiles from which a kernel makes the commands of a call.

    For a tiling, there is one description, in which loop variables select the tile.  For a tile
    sequence, there is one for each visit.

    Raises PenstockError if the tiler finds no tiling."""
    found, whole = tiling_of(call, call.rows), layer_on_engine(call)
    if not isinstance(found, TileSequence):
        yield CallTiles(call, whole, found)
        return
    for k in range(found.count):
        yield VisitedTiles(call, whole, found.grid, found, k)


@dataclass(frozen=True)
class VisitedTiles(CallTiles):
    """The tiles during a visit of a sequence; intervals and offsets are numbers.

    sequence: the sequence.
    visit: the number of the visit."""

    sequence: TileSequence
    visit: int

    @cached_property
    def spans(self) -> Mapping[str, Span]:
        """For each loop axis, by name, the interval of iterations that the visit computes."""
        return dict(self.sequence.steps[self.visit].box)

    @cached_property
    def operand_tiles(self) -> tuple[ScratchpadTile, ...]:
        """The tiles that the scratchpads hold during the visit, in the order of the operands."""
        ends: dict[str, int] = {}
        found: list[ScratchpadTile] = []
        visit = self.sequence.visits[self.visit]
        for moved, operand in zip(self.sequence.moved, self.whole.operands, strict=True):
            start = ends.get(operand.role, 0)
            ends[operand.role] = start + moved.held_bytes
            room = self.sequence.room(operand)
            region = self.sequence.held(visit, operand).intervals
            found.append(
                ScratchpadTile(operand, start, room, self._pitches(operand, room), region, 0)
            )
        return tuple(found)

    def accumulation(self, depth: Span, channels: int) -> tuple[Expr, Expr]:
        """Return (accumulate, finish): how the visited tile contributes to sums over channels.

        accumulate: 1 if the tile adds to partial sums of earlier visits, 0 if it begins new sums.
        finish: 1 if the tile completes the sums, otherwise 0.

        The order of the visits determines both; `depth` and `channels` are not used."""
        before, ends = self.sequence.accumulation[self.visit]
        return int(before), int(ends)

    def nest(
        self,
        loads: Sequence[Sequence[Command]],
        compute: Sequence[Command],
        stores: Sequence[Command],
    ) -> tuple[Command, ...]:
        """Return the commands of the visit: loads of tiles that change, computation, stores."""
        step = self.sequence.steps[self.visit]
        changed = {copy.operand.name for copy in step.loads}
        pairs = zip(self.whole.inputs, loads, strict=True)
        before = (c for operand, commands in pairs if operand.name in changed for c in commands)
        return (*before, *compute, *(stores if step.stores else ()))
