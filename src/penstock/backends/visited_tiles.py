"""visited_tiles: the tiles of a call, as loops over a tiling or as visits of a tile sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.backends.call_tiles import CallTiles
from penstock.backends.kernel_call import KernelCall
from penstock.backends.scratchpad_tile import ScratchpadTile, Span
from penstock.program.expr import Expr
from penstock.program.program import Command
from penstock.tiling.layer import Layer
from penstock.tiling.tile_sequence import TileSequence
from penstock.tiling.tiling import Tiling


def tiles_of_call(
    call: KernelCall, whole: Layer, tiling: Tiling | TileSequence
) -> Iterator[CallTiles]:
    """Yield the descriptions of tiles from which a kernel makes the commands of a call.

    A tiling has a single `CallTiles`, which describes every tile by means of loop variables.  A
    tile sequence has no loops: it has one `VisitedTiles` for each visit, in order.

    whole: the loop nest that computes all rows of the output.
    tiling: the tiling of the loop nest for `call.rows` rows, or a sequence of tiles of `whole`."""
    if not isinstance(tiling, TileSequence):
        yield CallTiles(call, whole, tiling)
        return
    for k in range(tiling.count):
        yield VisitedTiles(call, whole, tiling.grid, tiling, k)


@dataclass(frozen=True)
class VisitedTiles(CallTiles):
    """The tiles of a kernel call during one visit of a tile sequence.

    There are no loops over tiles, so intervals and offsets are numbers, not expressions of loop
    variables as in `CallTiles`.

    sequence: the tile sequence of the call.
    visit: the index of the visit in the sequence."""

    sequence: TileSequence
    visit: int

    @cached_property
    def spans(self) -> Mapping[str, Span]:
        """The interval of iterations that the visit computes along each loop axis, by the name of
        the axis."""
        return dict(self.sequence.steps[self.visit].box)

    @cached_property
    def operand_tiles(self) -> tuple[ScratchpadTile, ...]:
        """The tiles that the scratchpads hold during the visit: those of the inputs, in order,
        followed by that of the output.  Their `ScratchpadTile.level` is 0: there are no loops."""
        ends: dict[str, int] = {}
        found: list[ScratchpadTile] = []
        visit = self.sequence.visits[self.visit]
        for moved, operand in zip(self.sequence.moved, self.whole.operands, strict=True):
            memory = self.sequence.scratchpads.of(operand.role).name
            start = ends.get(memory, 0)
            ends[memory] = start + moved.held_bytes
            room = self.sequence.room(operand)
            region = self.sequence.held(visit, operand).intervals
            found.append(self._tile(operand, start, room, region, 0))
        return tuple(found)

    def accumulation(self, depth: Span, channels: int) -> tuple[Expr, Expr]:
        """Return (accumulate, finish), two flags for the computation of this visit.

        An output element is a sum over all input channels.  If these are split into several tiles,
        the visit of each tile adds some of the channels to the sum.

        accumulate: 1 if the visit adds to the partial sums of an earlier visit, 0 if it begins new
            sums.
        finish: 1 if the visit completes the sums, otherwise 0.

        The order of the visits determines both results; `depth` and `channels` are not used."""
        before, ends = self.sequence.accumulation[self.visit]
        return int(before), int(ends)

    def nest(
        self,
        loads: Sequence[Sequence[Command]],
        compute: Sequence[Command],
        stores: Sequence[Command],
    ) -> tuple[Command, ...]:
        """Return the commands of the visit: loads, computation, stores.

        loads: for each input, the commands that load its tile.  They are left out if the scratchpad
            holds this tile since the previous visit.
        compute: the commands that compute the tile.
        stores: the commands that store the output tile.  They are left out if the next visit uses
            the same output tile."""
        step = self.sequence.steps[self.visit]
        changed = {copy.operand.name for copy in step.loads}
        pairs = zip(self.whole.inputs, loads, strict=True)
        before = (c for operand, commands in pairs if operand.name in changed for c in commands)
        return (*before, *compute, *(stores if step.stores else ()))
