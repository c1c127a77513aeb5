"""Tiles: how a call's layer is cut for the scratchpads, where each tile lies there, and the loops
over all of them.

A call computes rows [first, end) of its output.  Its tiling is that of as many rows as it computes
at most (`rows_at_once`); the loop over tiles of rows runs from `first` to `end`.
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
"""Processing elements, and products that each adds up.  Source: SMAUG, SMV backend (kNumPEs,
kNumMaccsPerPE)."""
ALIGNMENT = 8
"""Elements: a pixel of a tile takes a multiple of them, the width of a vector."""
COPIES = Copies(bytes_per_cycle=8, per_run=2, per_copy=100)
"""Source of the 100 cycles: SMAUG's configuration of its DMA engine; the others are assumed."""
SCALE_BYTES = 9
"""Of an output channel: bias and multiplier in 4 bytes each, shift in one."""
TILERS: Mapping[str, Tiler] = {"least_traffic": LeastTraffic(), "smaug": Smaug()}
ELEMENTWISE = ("Add", "Sub", "Mul")

Span = tuple[Expr, Expr]
"""A half-open interval."""


def scratchpads(target: AcceleratorTarget) -> Scratchpads:
    """The three scratchpads, as the attributes say.  Sums stay in that of the outputs."""
    sizes = (int(target.attrs[f"{role}_bytes"]) for role in ("input", "weights", "output"))
    return Scratchpads.separate(
        *sizes,
        alignment=ALIGNMENT,
        double_buffered=bool(target.attrs["double_buffering"]),
        spills=False,
        copies=COPIES,
    )


def tiling_of(offloaded: Offloaded, rows: int | None = None) -> Tiling:
    """The tiling of so many rows of the output, or of all.  Raises PenstockError: there is none."""
    name = str(offloaded.target.attrs["tiler"])
    if offloaded.main.kind in ELEMENTWISE:
        name = "least_traffic"  # SMAUG cuts them regardless of rows, which may lie anywhere
    layer = layer_on_engine(offloaded, rows)
    return _tiled(offloaded.tiler(TILERS[name]), layer, scratchpads(offloaded.target))


def rows_at_once(offloaded: Offloaded, rows: int) -> int:
    """The most rows up to so many that the tiler has a tiling for; a call takes them by turns.

    A tiler that cuts rows has one for all; SMAUG's may have one for fewer rows, and for more."""
    for fewer in range(rows, 1, -1):
        with suppress(PenstockError):
            tiling_of(offloaded, fewer)
            return fewer
    return 1


def why_no_tile(offloaded: Offloaded) -> str:
    """What the tiler says that finds no tile for all rows, or for one; nothing where it does."""
    try:
        for rows in (None, 1):
            tiling_of(offloaded, rows)
    except PenstockError as error:
        return error.what
    return ""


def layer_on_engine(offloaded: Offloaded, rows: int | None = None) -> Layer:
    """The layer of so many rows of the output, or of all, with what the engine does at once;
    multipliers and shifts lie beside biases; a fully connected layer reads (N, C)."""
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
    """A fully connected layer; the elements of its input in rows as long as those of weights."""
    x, w, bias = node.site.inputs
    flat = replace(x, shape=(node.output.type.shape[0], w.shape[1]))
    return layer_of(node.op, replace(node.site, inputs=(flat, w, bias)), node.name)


@lru_cache(maxsize=4096)
def _tiled(tiler: Tiler, layer: Layer, memories: Scratchpads) -> Tiling:
    if type(tiler) is LeastTraffic:
        return tiler.tile(layer, memories)
    return choose(tiler, layer, memories)


def added(a: Expr, b: Expr) -> Expr:
    """The sum, without zeros."""
    return b if a == 0 else a if b == 0 else a + b


@dataclass(frozen=True)
class Held:
    """A tensor's tile in a scratchpad: from byte `base`, `pitches` bytes from an element to the
    next along each dimension, of which there is `room` for some; `region` of the tensor; it changes
    inside so many loops.  Where tiles are double-buffered, every other one lies in a second place:
    it may be copied while the one before is used."""

    operand: LayerOperand
    base: Expr
    room: tuple[int, ...]
    pitches: tuple[int, ...]
    region: tuple[Span, ...]
    level: int

    def at(self, *corner: Expr) -> Expr:
        """The byte at which an element of the tensor lies."""
        found: Expr = self.base
        for index, (lower, _), pitch in zip(corner, self.region, self.pitches, strict=True):
            found = added(found, 0 if index == lower else (index - lower) * pitch)
        return found


@dataclass(frozen=True)
class Tiles:
    """The tiles of a call: `whole` is the layer of all rows, `tiling` that of the call's."""

    call: KernelCall
    whole: Layer
    tiling: Tiling

    @staticmethod
    def of(call: KernelCall) -> Tiles:
        return Tiles(call, layer_on_engine(call), tiling_of(call, call.rows))

    @property
    def row_axis(self) -> str:
        """The axis of rows: the last but two, or the first of two."""
        names = [axis.name for axis in self.whole.axes[: len(self.whole.output.dimensions)]]
        return names[-3] if len(names) > 2 else names[0]

    @cached_property
    def spans(self) -> Mapping[str, Span]:
        """By axis, the tile's points, in terms of the loops' variables."""
        return {axis.name: self._loop_of(axis.name)[0] for axis in self.whole.axes}

    @cached_property
    def held(self) -> tuple[Held, ...]:
        """Where the tiles of inputs and output lie, one behind the other in each scratchpad."""
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
        """Whether sums lie in the scratchpad while they are not complete."""
        return any(len(self.tiling.tiles[axis.name]) > 1 for axis in self.whole.reduced)

    def box(self, operand: LayerOperand) -> tuple[Span, ...]:
        """What of a tensor the tile reads or writes."""
        return self._region(operand, self.tiling.order)

    def padding(self, dimension: Dimension) -> Expr:
        """Elements of padding before the tensor that the tile reads."""
        lower, _ = self._needs(dimension, self.spans[dimension.axis or ""])
        return lower - self._reads(dimension, self.spans[dimension.axis or ""])[0]

    def nest(
        self,
        loads: Sequence[Sequence[Command]],
        compute: Sequence[Command],
        stores: Sequence[Command],
    ) -> tuple[Command, ...]:
        """The loops: each load and store just inside those that change its tile."""
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
        """The tile along an axis, and the loop over all of them, if there are several."""
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
        """What of a tensor lies under the tile along some axes, and under all of the others."""
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
        factor, offset, extra = int(d.factor), int(d.offset), int(d.extra)
        return span[0] * factor + offset, span[1] * factor + offset + extra

    def _needs(self, d: Dimension, span: Span) -> Span:
        """What a span of the axis reads of the tensor: `Dimension.needs`, of expressions."""
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
        """How many loops stand around the load or store of operand k."""
        operand, depth = self.tiling.layer.operands[k], self.tiling.depths[k]
        changing = (
            at + 1
            for at, name in enumerate(self.tiling.order[:depth])
            if operand.follows(name) and len(self.tiling.tiles[name]) > 1
        )
        return max(changing, default=0)

    def _tile_number(self, k: int) -> Expr:
        """How many tiles of operand k were copied before the loops came here."""
        number: Expr = 0
        for name in self.tiling.order[: self._level(k)]:
            loop = self._loop_of(name)[1]
            if loop is not None:
                at = Var(name) if loop.lower == 0 else Var(name) - loop.lower
                index = at if loop.step == 1 else at // loop.step
                number = added(number * len(self.tiling.tiles[name]), index)
        return number

    def _room(self, k: int) -> tuple[int, ...]:
        """The most elements that a tile of operand k has along each dimension, aligned."""
        operand, depth = self.tiling.layer.operands[k], self.tiling.depths[k]
        room = [self._extent(d, self.tiling.order[:depth]) for d in operand.dimensions]
        return (*room[:-1], -(-room[-1] // ALIGNMENT) * ALIGNMENT)

    def _extent(self, d: Dimension, followed: Sequence[str]) -> int:
        if d.axis is None:
            return d.size
        axis = self.tiling.layer.axis(d.axis)
        tiles = self.tiling.tiles[d.axis] if d.axis in followed else ((0, axis.extent),)
        return max(upper - lower for lower, upper in map(d.needs, tiles))

    def _pitches(self, operand: LayerOperand, room: Sequence[int]) -> tuple[int, ...]:
        """Bytes from an element of a tile to the next, along each dimension.  Sums of a pixel take
        more room than its elements, which lie at its beginning."""
        sums = operand is self.whole.output and self.sums_are_cut
        pitches, size = [1], operand.unfinished_bytes if sums else 1
        for extent in reversed(room[1:]):
            pitches.insert(0, pitches[0] * extent * size)
            size = 1
        return tuple(pitches)
