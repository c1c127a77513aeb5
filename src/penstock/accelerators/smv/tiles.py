"""tiles: the tiling of a call's layer for the scratchpads, the place of each tile, and the loops
over all tiles.

A call computes rows [first, end) of its output.  It uses the tiling of the largest number of rows
that a call computes (`rows_at_once`); the loop over tiles of rows runs from `first` to `end`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

from penstock.uma import (
    AcceleratorTarget,
    Command,
    Copies,
    Dimension,
    Expr,
    KernelCall,
    Layer,
    LayerOperand,
    LeastTraffic,
    Loop,
    Node,
    Offloaded,
    PenstockError,
    Scratchpads,
    Smaug,
    TableEntry,
    Tiler,
    Tiling,
    Var,
    choose,
    layer_of,
    maximum,
    minimum,
)

OUTPUTS_AT_ONCE, CHANNELS_AT_ONCE = 8, 32
"""The number of processing elements, and the products that each sums at once.  Source: SMAUG, SMV
backend (kNumPEs, kNumMaccsPerPE)."""
ALIGNMENT = 8
"""The elements of a pixel of a tile are padded to a multiple of this, the width of a vector."""
COPIES = Copies(bytes_per_cycle=8, per_run=2, per_copy=100)
"""The timing of copies.  Source of the 100 cycles per copy: SMAUG's configuration of its DMA
engine; the other figures are assumptions."""
SCALE_BYTES = 9
"""Bytes for each output channel: 4 of the bias, 4 of the multiplier, 1 of the shift."""
TILERS: Mapping[str, Tiler] = {"least_traffic": LeastTraffic(), "smaug": Smaug()}
ELEMENTWISE = ("Add", "Sub", "Mul")

Span = tuple[Expr, Expr]
"""A half-open interval."""


def scratchpads(target: AcceleratorTarget) -> Scratchpads:
    """The three scratchpads, in the sizes that the attributes state.  Partial sums stay in the
    scratchpad of outputs."""
    sizes = (int(target.attrs[f"{role}_bytes"]) for role in ("input", "weights", "output"))
    return Scratchpads.separate(
        *sizes,
        alignment=ALIGNMENT,
        double_buffered=bool(target.attrs["double_buffering"]),
        spills=False,
        copies=COPIES,
    )


def tiling_of(offloaded: Offloaded, rows: int | None = None) -> Tiling:
    """The tiling of `rows` rows of the output, or of all.  Raises PenstockError if there is
    none."""
    name = str(offloaded.target.attrs["tiler"])
    if offloaded.main.kind in ELEMENTWISE:
        # SMAUG's rule flattens tensors, but the rows of a schedule may have arbitrary addresses.
        name = "least_traffic"
    layer = layer_on_engine(offloaded, rows)
    return _tiled(offloaded.tiler(TILERS[name]), layer, scratchpads(offloaded.target))


def rows_at_once(offloaded: Offloaded, rows: int) -> int:
    """The largest number of rows, up to `rows`, for which the tiler has a tiling; a call loops over
    intervals of that length.

    A tiler that splits rows has a tiling for any number.  SMAUG's may lack one for some number
    although it has tilings for fewer rows and for more."""
    for fewer in range(rows, 1, -1):
        with suppress(PenstockError):
            tiling_of(offloaded, fewer)
            return fewer
    return 1


def why_no_tile(offloaded: Offloaded) -> str:
    """The tiler's reason if it has no tiling for all rows or for a single row; empty if it has
    both."""
    try:
        for rows in (None, 1):
            tiling_of(offloaded, rows)
    except PenstockError as error:
        return error.what
    return ""


def layer_on_engine(offloaded: Offloaded, rows: int | None = None) -> Layer:
    """The layer of `rows` rows of the output, or of all, with the granularity of the engine.
    Multipliers and shifts are stored with the biases.  A fully connected layer has an input of
    shape (N, C)."""
    layer = offloaded.layer(rows)
    if offloaded.main.kind == "FullyConnected":
        layer = _flat(offloaded.main)
        layer = layer if rows is None else layer.stripe("n", rows)
    layer = layer.with_axis("c", least=OUTPUTS_AT_ONCE, step=OUTPUTS_AT_ONCE, lanes=OUTPUTS_AT_ONCE)
    if not layer.reduced:
        return layer
    n = CHANNELS_AT_ONCE
    layer = layer.with_axis("sum", least=n, step=n, lanes=n)
    x, w, scale = layer.inputs
    return replace(layer, inputs=(x, w, replace(scale, element_bytes=SCALE_BYTES)))


def _flat(node: Node) -> Layer:
    """A fully connected layer whose input is reshaped to (N, C)."""
    x, w, bias = node.site.inputs
    flat = replace(x, shape=(node.output.type.shape[0], w.shape[1]))
    return layer_of(node.op, replace(node.site, inputs=(flat, w, bias)), node.name)


@lru_cache(maxsize=4096)
def _tiled(tiler: Tiler, layer: Layer, memories: Scratchpads) -> Tiling:
    """The tiler's tiling, cached."""
    if type(tiler) is LeastTraffic:
        return tiler.tile(layer, memories)
    return choose(tiler, layer, memories)


def added(a: Expr, b: Expr) -> Expr:
    """a + b, simplified if one of them is 0."""
    return b if a == 0 else a if b == 0 else a + b


@dataclass(frozen=True)
class Held:
    """A tensor's tile in a scratchpad.

    The tile begins at byte `base` and covers `region` of the tensor.  `pitches` are the bytes
    between consecutive elements along each dimension, and `room` the most elements along each.  The
    tile changes inside `level` loops.  With double buffering, consecutive tiles alternate between
    two places, so that one can be copied while the other is used."""

    operand: LayerOperand
    base: Expr
    room: tuple[int, ...]
    pitches: tuple[int, ...]
    region: tuple[Span, ...]
    level: int

    def at(self, *corner: Expr) -> Expr:
        """The place of an element of the tensor, in bytes."""
        found: Expr = self.base
        for index, (lower, _), pitch in zip(corner, self.region, self.pitches, strict=True):
            found = added(found, 0 if index == lower else (index - lower) * pitch)
        return found


@dataclass(frozen=True)
class CallTiles:
    """The tiles of a call: `whole` is the layer of all rows; `tiling`, that of the rows of the
    call."""

    call: KernelCall
    whole: Layer
    tiling: Tiling

    @staticmethod
    def of(call: KernelCall) -> CallTiles:
        """The tiles of a call."""
        return CallTiles(call, layer_on_engine(call), tiling_of(call, call.rows))

    @property
    def row_axis(self) -> str:
        """The name of the axis of rows: the third from last, or the first of two."""
        names = [axis.name for axis in self.whole.axes[: len(self.whole.output.dimensions)]]
        return names[-3] if len(names) > 2 else names[0]

    @cached_property
    def spans(self) -> Mapping[str, Span]:
        """The interval of each axis that a tile covers, in terms of loop variables."""
        return {axis.name: self._loop_of(axis.name)[0] for axis in self.whole.axes}

    @cached_property
    def held(self) -> tuple[Held, ...]:
        """The tiles of the inputs and of the output, consecutive in each scratchpad."""
        ends: dict[str, int] = {}
        found: list[Held] = []
        for k, (moved, operand) in enumerate(
            zip(self.tiling.moved, self.whole.operands, strict=True)
        ):
            start = ends.get(operand.role, 0)
            ends[operand.role] = start + moved.held_bytes
            base: Expr = start
            if self.tiling.scratchpads.double_buffered and moved.tiles > 1:
                base = added(start, self._tile_number(k) % 2 * (moved.held_bytes // 2))
            region = self._region(operand, self.tiling.order[: self.tiling.depths[k]])
            room = self._room(k)
            pitches = self._pitches(operand, room)
            found.append(Held(operand, base, room, pitches, region, self._level(k)))
        return tuple(found)

    @property
    def sums_are_cut(self) -> bool:
        """Whether partial sums are stored in the scratchpad between tiles."""
        return any(len(self.tiling.tiles[axis.name]) > 1 for axis in self.whole.reduced)

    def box(self, operand: LayerOperand) -> tuple[Span, ...]:
        """The region of a tensor that a tile reads or writes."""
        return self._region(operand, self.tiling.order)

    def padding(self, dimension: Dimension) -> Expr:
        """Elements of padding before the tensor that a tile covers."""
        lower, _ = self._needs(dimension, self.spans[dimension.axis or ""])
        return lower - self._reads(dimension, self.spans[dimension.axis or ""])[0]

    def nest(
        self,
        loads: Sequence[Sequence[Command]],
        compute: Sequence[Command],
        stores: Sequence[Command],
    ) -> tuple[Command, ...]:
        """The loops over all tiles.  Each load and store is placed in the outermost loop inside
        which its tile does not change."""
        *inputs, output = self.held
        body = tuple(compute)
        for level in range(len(self.tiling.order), -1, -1):
            pairs = zip(inputs, loads, strict=True)
            before = [c for held, commands in pairs if held.level == level for c in commands]
            body = (*before, *body, *(stores if output.level == level else ()))
            loop = self._loop_of(self.tiling.order[level - 1])[1] if level else None
            body = (replace(loop, body=body),) if loop is not None else body
        return body

    def _loop_of(self, name: str) -> tuple[Span, Loop | None]:
        """The interval of a tile along an axis, and the loop over all tiles; None for a single
        tile."""
        cut = self.tiling.cuts[[axis.name for axis in self.whole.axes].index(name)]
        is_rows, part = name == self.row_axis, cut[-1] < self.whole.axis(name).extent
        bounds: Span = (self.call.first, self.call.end) if is_rows else (0, cut[-1])
        if len(cut) == 2:
            return bounds, None
        lengths = [b - a for a, b in pairwise(cut)]
        step, at = max(lengths), Var(name)
        if part or lengths[:-1] == [step] * (len(lengths) - 1):
            upper = at + step
            if is_rows or cut[-1] % step:
                upper = minimum(upper, bounds[1])
            return (at, upper), Loop(name, *bounds, step, ())
        ends: Span = (TableEntry(cut, at), TableEntry(cut, at + 1))
        if is_rows:
            ends = maximum(ends[0], bounds[0]), minimum(ends[1], bounds[1])
        return ends, Loop(name, 0, len(lengths), 1, ())

    def _region(self, operand: LayerOperand, followed: Sequence[str]) -> tuple[Span, ...]:
        """The region of a tensor for one tile along the axes in `followed` and all points of the
        others."""
        found: list[Span] = []
        for d in operand.dimensions:
            if d.axis is None:
                found.append((0, d.size))
            elif d.axis in followed:
                found.append(self._needs(d, self.spans[d.axis]))
            else:
                found.append(self._needs(d, self._all_of(d.axis)))
        return tuple(found)

    def _all_of(self, axis: str) -> Span:
        """All points of an axis that the call computes."""
        if axis == self.row_axis:
            return (self.call.first, self.call.end)
        return (0, self.whole.axis(axis).extent)

    @staticmethod
    def _reads(d: Dimension, span: Span) -> Span:
        """The interval that a span of the axis reads, including padding."""
        factor, offset, extra = int(d.factor), int(d.offset), int(d.extra)
        return span[0] * factor + offset, span[1] * factor + offset + extra

    def _needs(self, d: Dimension, span: Span) -> Span:
        """The interval of the tensor that a span of the axis reads: `Dimension.needs` on
        expressions."""
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
        """The number of loops around the load or store of operand k."""
        operand, depth = self.tiling.layer.operands[k], self.tiling.depths[k]
        changing = (
            at + 1
            for at, name in enumerate(self.tiling.order[:depth])
            if operand.follows(name) and len(self.tiling.tiles[name]) > 1
        )
        return max(changing, default=0)

    def _tile_number(self, k: int) -> Expr:
        """The number of tiles of operand k that precede the current one."""
        number: Expr = 0
        for name in self.tiling.order[: self._level(k)]:
            loop = self._loop_of(name)[1]
            if loop is not None:
                at = Var(name) if loop.lower == 0 else Var(name) - loop.lower
                index = at if loop.step == 1 else at // loop.step
                number = added(number * len(self.tiling.tiles[name]), index)
        return number

    def _room(self, k: int) -> tuple[int, ...]:
        """The most elements of a tile of operand k along each dimension, aligned."""
        operand, depth = self.tiling.layer.operands[k], self.tiling.depths[k]
        room = [self._extent(d, self.tiling.order[:depth]) for d in operand.dimensions]
        return (*room[:-1], -(-room[-1] // ALIGNMENT) * ALIGNMENT)

    def _extent(self, d: Dimension, followed: Sequence[str]) -> int:
        """The most elements of a tile along a dimension."""
        if d.axis is None:
            return d.size
        axis = self.tiling.layer.axis(d.axis)
        tiles = self.tiling.tiles[d.axis] if d.axis in followed else ((0, axis.extent),)
        return max(upper - lower for lower, upper in map(d.needs, tiles))

    def _pitches(self, operand: LayerOperand, room: Sequence[int]) -> tuple[int, ...]:
        """Bytes between consecutive elements of a tile along each dimension.  The partial sums of a
        pixel take more space than its elements, which are stored at its beginning."""
        sums = operand is self.whole.output and self.sums_are_cut
        pitches, size = [1], operand.unfinished_bytes if sums else 1
        for extent in reversed(room[1:]):
            pitches.insert(0, pitches[0] * extent * size)
            size = 1
        return tuple(pitches)
