"""CallTiles: the tiles of a kernel call in scratchpads, and the loops over the tiles.

A call computes the output rows [first, end), or all rows of all images of a batch.  The number of
rows may differ from call to call, but all calls of a kernel use the same tiling: that of the
longest call.  A shorter call may have fewer tiles, and fewer rows in its first and last tile: the
loop over tiles of rows visits only tiles that contain rows of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from penstock.backends.kernel_call import KernelCall
from penstock.backends.scratchpad_tile import ScratchpadTile, Span, is_flat
from penstock.errors import BackendError
from penstock.program.expr import Expr, TableEntry, Var, maximum, minimum
from penstock.program.program import Command, Loop
from penstock.tiling.layer import Dimension, Layer, LayerOperand
from penstock.tiling.nest import Tiling
from penstock.tiling.sequence import TileSequence


@dataclass(frozen=True)
class CallTiles:
    """The tiles of a kernel call.

    call: the call.
    whole: the loop nest that computes the whole output, of which the call may compute only some
        rows.
    tiling: the tiling of a call with `call.rows` rows, the largest number that a call computes.
    images: the interval of a batch of images that the tiles compute; None for all of the batch, or
        if there is none.

    Methods describe the current tile, inside the loops over tiles that `nest` returns.  The
    intervals and offsets of this tile are expressions of the loop variables:

        tiles = CallTiles(call, layer(call), tiling(call, call.rows))
        x, y = tiles.operand_tiles
        loads, stores = x.copies(call.operand(0), load), y.copies(call.result, store)
        return tiles.nest([loads], [call.invoke(POOL, x.start, *x.shape, y.start)], stores)

    docs/how-to/bring-up-an-accelerator.md builds a backend with it."""

    call: KernelCall
    whole: Layer
    tiling: Tiling
    images: Span | None = field(default=None, kw_only=True)

    @property
    def row_axis(self) -> str:
        """The name of the loop axis that runs over output rows.

        It is the axis of H for an output of shape (N, H, W, C) or (H, W, C), and the axis of N for
        an output of shape (N, C).  In a flattened layer, whose tensors are single rows of
        elements, it is the only axis."""
        names = [axis.name for axis in self.whole.axes[: len(self.whole.output.dimensions)]]
        return names[-3] if len(names) > 2 else names[0]

    @property
    def has_batch(self) -> bool:
        """Whether the layer computes several images of shape (H, W, C)."""
        return len(self.whole.output.dimensions) == 4 and self.whole.output.shape[0] > 1

    @property
    def row_span(self) -> Span:
        """The half-open interval of iterations along `row_axis` that the call computes.

        Each iteration computes an output row.  In a flattened layer, which treats a tensor as a
        single row of elements, it computes one element: if the output has 10 int8 elements per row,
        a call for rows [2, 4) computes iterations [20, 40)."""
        if self.has_batch:
            return 0, self.whole.axis(self.row_axis).extent
        if not is_flat(self.whole.output):
            return self.call.first, self.call.end
        row = self.call.result.row_bytes
        return self.call.first * row, self.call.end * row

    @cached_property
    def spans(self) -> Mapping[str, Span]:
        """The interval of iterations that the current tile covers along each loop axis, by the
        name of the axis."""
        return {axis.name: self._axis_loop(axis.name)[0] for axis in self.whole.axes}

    @cached_property
    def operand_tiles(self) -> tuple[ScratchpadTile, ...]:
        """The tiles of the inputs, in order, followed by the tile of the output.

        Tiles in the same scratchpad are placed one after another."""
        ends: dict[str, int] = {}
        found: list[ScratchpadTile] = []
        for k, (moved, operand) in enumerate(
            zip(self.tiling.moved, self.whole.operands, strict=True)
        ):
            memory = self.tiling.scratchpads.of(operand.role).name
            start = ends.get(memory, 0)
            ends[memory] = start + moved.held_bytes
            base: Expr = start
            if self.tiling.scratchpads.double_buffered and moved.tiles > 1:
                base = start + self._tile_number(k) % 2 * (moved.held_bytes // 2)
            region = self._region(operand, self.tiling.order[: self.tiling.depths[k]])
            found.append(self._tile(operand, base, self._room(k), region, self._level(k)))
        return tuple(found)

    @property
    def has_partial_sums(self) -> bool:
        """Whether several tiles contribute to the same sum over input channels.

        If so, partial sums stay in the output scratchpad from one tile to the next."""
        return any(len(self.tiling.tiles[axis.name]) > 1 for axis in self.whole.reduced)

    def accumulation(self, depth: Span, channels: int) -> tuple[Expr, Expr]:
        """Return (accumulate, finish), two flags for the computation of the current tile.

        An output element is a sum over all input channels.  If these are split into several tiles,
        each tile adds some of the channels to the sum, which is complete after the last tile.

        accumulate: 1 if the computation adds to the partial sums of an earlier tile, 0 if it begins
            new sums.
        finish: 1 if the computation completes the sums, otherwise 0.

        Both are expressions, because they may depend on loop variables.

        depth: interval of input channels in the current tile.
        channels: number of input channels of the layer."""
        if not self.has_partial_sums:
            return 0, 1
        return minimum(1, depth[0]), depth[1] // channels

    @property
    def image(self) -> Expr:
        """The index of the image that a command computes: the variable of the loop that `by_image`
        returns, or 0 if the layer computes a single image."""
        return Var("image") if self.has_batch else 0

    def by_image(self, compute: Command) -> tuple[Command, ...]:
        """Return a loop over the images of the current tile, with `compute` as its body.

        The result is `compute` without a loop if the layer computes a single image.

        compute: the command that computes one image, whose index is the property `image`."""
        if not self.has_batch:
            return (compute,)
        return (Loop("image", *self.operand_tiles[-1].box[0], 1, (compute,)),)

    def corner(self, tile: ScratchpadTile) -> tuple[Expr, ...]:
        """Return the indices, in the whole tensor, of the first element that the computation of the
        current tile reads or writes: the lower bounds of `box`.

        If the layer computes several images, the first index is the loop variable `image`.

        tile: the tile of this tensor."""
        lower = tuple(lower for lower, _ in tile.box)
        return (self.image, *lower[1:]) if self.has_batch else lower

    def nest(
        self,
        loads: Sequence[Sequence[Command]],
        compute: Sequence[Command],
        stores: Sequence[Command],
    ) -> tuple[Command, ...]:
        """Return the loops over all tiles, with the commands of each tile.

        loads: for each input, the commands that load its tile.
        compute: the commands that compute a tile; they are in the innermost loop.
        stores: the commands that store the tile of the output.

        The loads and stores of a tile are in the innermost loop that changes this tile, or outside
        all loops if none does.

        Raises BackendError if the tiling stores incomplete sums to memory."""
        if self.tiling.spilled:
            raise BackendError(
                "backend-099",
                "the tiling stores incomplete sums to memory",
                where=f'layer "{self.whole.name}"',
                why="the loops over tiles keep sums in the scratchpad until they are complete",
                help="pass spills=False to Scratchpads, or do not tile the axes of sums",
            )
        *inputs, output = self.operand_tiles
        body = tuple(compute)
        for level in range(len(self.tiling.order), -1, -1):
            pairs = zip(inputs, loads, strict=True)
            before = [c for tile, commands in pairs if tile.level == level for c in commands]
            body = (*before, *body, *(stores if output.level == level else ()))
            loop = self._axis_loop(self.tiling.order[level - 1])[1] if level else None
            body = (replace(loop, body=body),) if loop is not None else body
        return body

    def _tile(
        self,
        operand: LayerOperand,
        base: Expr,
        room: tuple[int, ...],
        region: tuple[Span, ...],
        level: int,
    ) -> ScratchpadTile:
        pitches, box = self._pitches(operand, room), self._region(operand, self.tiling.order)
        padding = tuple(map(self._padding, operand.dimensions))
        return ScratchpadTile(operand, base, room, pitches, region, box, padding, level)

    def _padding(self, dimension: Dimension) -> Expr:
        """The width of the padding that the current tile reads, along a dimension."""
        # It is the number of padding elements before index 0; padding at the end of the dimension
        # does not count.  For example, it is 1 for the first tile of rows of a 3x3 convolution with
        # padding 1, and 0 for all other tiles.
        if dimension.axis is None:
            return 0
        span = self.spans[dimension.axis]
        return self._needs(dimension, span)[0] - self._reads(dimension, span)[0]

    def _axis_loop(self, name: str) -> tuple[Span, Loop | None]:
        """(interval, loop) for the loop axis `name`."""
        # If there is only one tile along the axis, the interval contains all iterations of the
        # call, and the loop is None.
        cut = self.tiling.cuts[[axis.name for axis in self.whole.axes].index(name)]
        varies, part = self._varies(name), cut[-1] < self.whole.axis(name).extent
        bounds: Span = self._whole_axis(name) if varies else (0, cut[-1])
        if len(cut) == 2:
            return bounds, None
        lengths = [b - a for a, b in pairwise(cut)]
        step, at = max(lengths), Var(name)
        if part or lengths[:-1] == [step] * (len(lengths) - 1):
            upper = at + step
            if varies or cut[-1] % step:
                upper = minimum(upper, bounds[1])
            return (at, upper), Loop(name, *bounds, step, ())
        ends: Span = (TableEntry(cut, at), TableEntry(cut, at + 1))
        if not varies:
            return ends, Loop(name, 0, len(lengths), 1, ())
        tile_of_row = tuple(k for k, length in enumerate(lengths) for _ in range(length))
        first, last = (_entry(tile_of_row, row) for row in (bounds[0], bounds[1] - 1))
        ends = maximum(ends[0], bounds[0]), minimum(ends[1], bounds[1])
        return ends, Loop(name, first, last + 1, 1, ())  # the tiles that the call's rows overlap

    def _region(self, operand: LayerOperand, tiled_axes: Sequence[str]) -> tuple[Span, ...]:
        """Return the region of a tensor that the call accesses while some loop axes are restricted
        to the current tile.

        The region is an interval of indices for each dimension.

        tiled_axes: names of the restricted loop axes.  All other axes run over all iterations of
            the call."""
        found: list[Span] = []
        for d in operand.dimensions:
            if d.axis is None:
                found.append((0, d.size))
            elif d.axis in tiled_axes:
                found.append(self._needs(d, self.spans[d.axis]))
            else:
                found.append(self._needs(d, self._whole_axis(d.axis)))
        return tuple(found)

    def _varies(self, axis: str) -> bool:
        """Whether calls or commands compute different intervals of an axis."""
        return axis == self.row_axis or self._is_of_images(axis)

    def _is_of_images(self, axis: str) -> bool:
        return self.images is not None and axis == self.whole.axes[0].name

    def _whole_axis(self, axis: str) -> Span:
        if axis == self.row_axis:
            return self.row_span
        if self.images is not None and self._is_of_images(axis):
            return self.images
        return (0, self.whole.axis(axis).extent)

    @staticmethod
    def _reads(d: Dimension, span: Span) -> Span:
        """The interval of indices that iterations `span` access along dimension `d`,
        including padding."""
        # The interval may therefore begin below 0, or end beyond the size of the tensor.  For
        # example, output rows [0, 4) of a 3x3 convolution with padding 1 access rows [-1, 5).
        factor, extra = Fraction(d.factor), d.offset + d.extra
        if factor.denominator == 1:
            return span[0] * int(factor) + int(d.offset), span[1] * int(factor) + int(extra)
        up, down = factor.numerator, factor.denominator
        lower = (span[0] * up + int(d.offset * down)) // down
        return lower, (span[1] * up + (int(extra * down) + down - 1)) // down

    def _needs(self, d: Dimension, span: Span) -> Span:
        """The interval of indices that iterations `span` access along dimension `d`, without
        padding."""
        # This is the counterpart of `Dimension.needs` for intervals whose bounds are expressions.
        lower, upper = self._reads(d, span)
        first, last = d.reads((0, 1)), d.reads((0, self.whole.axis(d.axis or "").extent))
        if first[0] < 0:
            lower = maximum(lower, 0)
        if last[1] - d.window > d.size:
            lower = minimum(lower, d.size)
        if last[1] > d.size:
            upper = minimum(upper, d.size)
        if first[1] < 0 or last[1] - d.window > d.size:
            upper = maximum(upper, lower)
        return lower, upper

    def _level(self, k: int) -> int:
        """The number of loops around the commands that load or store an operand's tile."""
        # These are all loops from the outermost to the innermost one that changes the tile.  The
        # result is 0 if no loop changes the tile.
        operand, depth = self.tiling.layer.operands[k], self.tiling.depths[k]
        changing = (
            at + 1
            for at, name in enumerate(self.tiling.order[:depth])
            if operand.follows(name) and len(self.tiling.tiles[name]) > 1
        )
        return max(changing, default=0)

    def _tile_number(self, k: int) -> Expr:
        """The number of an operand's current tile, counted from 0 in loop order."""
        # A tile that is loaded again has a new number.  With double buffering, tiles with even and
        # odd numbers are in different halves of the scratchpad's space for the operand.
        number: Expr = 0
        for name in self.tiling.order[: self._level(k)]:
            loop = self._axis_loop(name)[1]
            if loop is not None:
                at = Var(name) if loop.lower == 0 else Var(name) - loop.lower
                index = at if loop.step == 1 else at // loop.step
                number = number * len(self.tiling.tiles[name]) + index
        return number

    def _room(self, k: int) -> tuple[int, ...]:
        # Along the last dimension, the number is rounded up to the alignment of the scratchpad.
        operand, depth = self.tiling.layer.operands[k], self.tiling.depths[k]
        room = [self._extent(d, self.tiling.order[:depth]) for d in operand.dimensions]
        return self.tiling.scratchpads.room(operand, room)

    def _extent(self, d: Dimension, tiled_axes: Sequence[str]) -> int:
        if d.axis is None:
            return d.size
        axis = self.tiling.layer.axis(d.axis)
        tiles = self.tiling.tiles[d.axis] if d.axis in tiled_axes else ((0, axis.extent),)
        return max(upper - lower for lower, upper in map(d.needs, tiles))

    def _pitches(self, operand: LayerOperand, room: Sequence[int]) -> tuple[int, ...]:
        """The distance in bytes between consecutive elements of a tile along each dimension."""
        # If the output tile holds partial sums, a pixel occupies as many bytes as the partial sums
        # of all its channels.  The elements that result from the complete sums are stored at the
        # beginning of these bytes.  For example, with int32 sums and 16 int8 channels, pixels are
        # 64 bytes apart; in the end, the elements of a pixel occupy the first 16 of its 64 bytes.
        sums = operand is self.whole.output and self.has_partial_sums
        distance = operand.unfinished_bytes if sums else operand.element_bytes
        pitches = [operand.element_bytes]
        for extent in reversed(room[1:]):
            distance *= extent
            pitches.insert(0, distance)
        return tuple(pitches)


def _entry(table: tuple[int, ...], index: Expr) -> Expr:
    """Return `table[index]`: a number if `index` is a number, otherwise an expression."""
    return table[index] if isinstance(index, int) else TableEntry(table, index)


# The tiles of a call, as loops over a tiling or as visits of a tile sequence.


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
