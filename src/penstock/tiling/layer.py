"""Layer: an operator as a loop nest over axes, and the tensor regions that a tile reads.

A layer computes a value at each point of its iteration space, the product of its axes. A tile is a
box of that space. Axes that do not index the output are reduction axes. The region that a tile
reads of a tensor is a box too:

>>> rows = Dimension.sliding(32, "h", window=3, before=1)
>>> rows.reads((0, 8)), rows.needs((0, 8)), rows.needs((8, 16))
((-1, 9), (0, 9), (7, 17))

The tiles are in scratchpads, local memories of an engine (`Scratchpads`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import UsageError
from penstock.ir.affine import Affine, Number
from penstock.ir.op import Op, Reducing, Site
from penstock.ir.tensor import Interval, Region

INPUT, WEIGHTS, OUTPUT, PARAMETERS = ROLES = ("input", "weights", "output", "parameters")
"""Roles of tensors. Parameters are constants per channel, such as biases and multipliers."""
MOST_GROWTH = 8
"""Maximum growth of the first and last tile, in points."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of `extent` points.

    Tiles extend over `least` points plus a multiple of `step`, or over the whole axis. The engine
    computes `lanes` points in parallel.
    """

    name: str
    extent: int
    least: int = 1
    step: int = 1
    lanes: int = 1

    @property
    def extents(self) -> tuple[int, ...]:
        """All extents that a tile may have, in points, in increasing order.

        >>> Axis("c", 20, least=8, step=8).extents
        (8, 16, 20)
        """
        return (*range(self.least, self.extent, self.step), self.extent)


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of a tensor with `size` elements. If `axis` indexes it, a tile [l, u) reads

        [floor(factor * l + offset), ceil(factor * u + offset + extra))

    clipped to the tensor, as an affine propagator does (`ir/affine.py`). Otherwise a tile reads the
    whole dimension.
    """

    size: int
    axis: str | None = None
    factor: Number = 1
    extra: Number = 0
    offset: Number = 0

    @staticmethod
    def sliding(
        size: int, axis: str, *, window: int, stride: int = 1, before: int = 0
    ) -> Dimension:
        """Return a dimension under a sliding window of `window` elements with `before` elements of
        padding."""
        return Dimension(size, axis, stride, window - stride, -before)

    @property
    def window(self) -> int:
        """Number of elements that one point of the axis reads."""
        return math.ceil(self.factor + self.extra)

    @property
    def before(self) -> int:
        """Number of padding elements before the tensor."""
        return max(0, -math.floor(self.offset))

    def after(self, extent: int) -> int:
        """Return the number of padding elements after the tensor for an axis of `extent`."""
        return max(0, self.reads((0, extent))[1] - self.size)

    def reads(self, tile: Interval) -> Interval:
        """Return the interval that the tile reads; it may exceed the tensor."""
        if self.axis is None:
            return (0, self.size)
        lower = math.floor(self.factor * tile[0] + self.offset)
        return lower, math.ceil(self.factor * tile[1] + self.offset + self.extra)

    def stripe(self, extent: int) -> Dimension:
        """Return the dimension that `extent` points of the axis read at most, at any position.

        >>> Dimension.sliding(32, "h", window=3, before=1).stripe(4)
        Dimension(size=6, axis='h', factor=1, extra=2, offset=0)
        """
        most = math.ceil(self.factor * extent + self.extra) + (self.factor % 1 != 0)
        return Dimension(min(self.size, most), self.axis, self.factor, self.extra)

    def needs(self, tile: Interval) -> Interval:
        """Return the interval that the tile reads inside the tensor."""
        lower, upper = self.reads(tile)
        lower = min(max(lower, 0), self.size)
        return lower, max(lower, min(upper, self.size))


@dataclass(frozen=True, slots=True)
class LayerOperand:
    """A tensor of a layer, with dimensions from the outermost to the innermost in memory.

    `role` is input, weights, output or parameters, and selects the scratchpad. `partial_bytes` is
    the size of an incomplete sum, if it differs from `element_bytes`.
    """

    name: str
    role: str
    dimensions: tuple[Dimension, ...]
    element_bytes: int = 1
    partial_bytes: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.size for d in self.dimensions)

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of an element whose sum is incomplete."""
        return self.element_bytes if self.partial_bytes is None else self.partial_bytes

    def follows(self, axis: str) -> bool:
        """Return whether the axis indexes the tensor."""
        return any(d.axis == axis for d in self.dimensions)


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer as a tiler sees it. Raises UsageError if it is inconsistent.

    `cycles_per_point` is the number of engine cycles per group of lanes, for example the taps of a
    window.
    """

    name: str
    axes: tuple[Axis, ...]
    inputs: tuple[LayerOperand, ...]
    output: LayerOperand
    cycles_per_point: int = 1

    def __post_init__(self) -> None:
        for fault in _faults(self):
            raise UsageError(
                "tiling-001",
                fault,
                where=f'layer "{self.name}"',
                why="the region of each tensor that a tile accesses must be a box",
                help="describe every tensor by dimensions, each indexed by at most one axis",
            )

    @property
    def operands(self) -> tuple[LayerOperand, ...]:
        """The inputs, followed by the output."""
        return (*self.inputs, self.output)

    @property
    def reduced(self) -> tuple[Axis, ...]:
        """The reduction axes."""
        return tuple(axis for axis in self.axes if not self.output.follows(axis.name))

    def axis(self, name: str) -> Axis:
        """Return the axis with that name."""
        return next(axis for axis in self.axes if axis.name == name)

    def with_axis(
        self,
        name: str,
        *,
        least: int | None = None,
        step: int | None = None,
        lanes: int | None = None,
    ) -> Layer:
        """Return the layer with other tile sizes for an axis. A `least` beyond the extent means the
        whole axis."""
        old = self.axis(name)
        new = Axis(
            name,
            old.extent,
            min(old.extent, least or old.least),
            step or old.step,
            lanes or old.lanes,
        )
        return replace(self, axes=tuple(new if a is old else a for a in self.axes))

    def stripe(self, name: str, extent: int) -> Layer:
        """Return the layer restricted to `extent` points of an axis, at any position.

        Dimensions indexed by the axis have as many elements as those points can read, and no
        padding. If `extent` covers the axis, return the layer itself.
        """
        old = self.axis(name)
        if extent >= old.extent:
            return self

        def part(operand: LayerOperand) -> LayerOperand:
            dimensions = (d.stripe(extent) if d.axis == name else d for d in operand.dimensions)
            return replace(operand, dimensions=tuple(dimensions))

        new = replace(old, extent=extent, least=min(old.least, extent))
        return replace(
            self,
            axes=tuple(new if a is old else a for a in self.axes),
            inputs=tuple(map(part, self.inputs)),
            output=part(self.output),
        )

    def growth(self, name: str) -> tuple[int, int]:
        """Return by how many points the first and the last tile of an axis may exceed the others.

        They read padding, which occupies no memory. The growth is at most `MOST_GROWTH`, and zero
        if tile extents have a step greater than one.
        """
        axis = self.axis(name)
        grown = (0, 0)
        for d in (d for o in self.inputs for d in o.dimensions if d.axis == name):
            more = (d.before, d.after(axis.extent))
            steps = (min(MOST_GROWTH, math.ceil(n / d.factor)) for n in more)
            grown = tuple(map(max, grown, steps))
        return (0, 0) if axis.step > 1 else (grown[0], grown[1])


def flattened(layer: Layer) -> Layer | None:
    """Return an element-wise layer as a single row of elements, or None if operands differ in
    shape.

    Tiles of the row are intervals of elements and need not be boxes of the tensors. An operand that
    no axis indexes, such as a table, stays as it is.
    """
    output = layer.output.dimensions
    indexed = {o.name for o in layer.inputs if any(d.axis is not None for d in o.dimensions)}
    plain = all(o.dimensions == output for o in layer.inputs if o.name in indexed)
    if not plain or layer.reduced or any(d.axis is None and d.size > 1 for d in output):
        return None
    elements = math.prod(layer.output.shape)
    row = (Dimension(1), Dimension(elements, "i"))
    return replace(
        layer,
        axes=(Axis("i", elements),),
        inputs=tuple(
            replace(operand, dimensions=row) if operand.name in indexed else operand
            for operand in layer.inputs
        ),
        output=replace(layer.output, dimensions=row),
    )


def _faults(layer: Layer) -> Iterator[str]:
    names = [axis.name for axis in layer.axes]
    if len(set(names)) < len(names):
        yield "two axes have the same name"
    for axis in layer.axes:
        if min(axis.extent, axis.least, axis.step, axis.lanes) < 1 or axis.least > axis.extent:
            yield (
                f'axis "{axis.name}" of {axis.extent} points in tiles of at least {axis.least}, '
                f"steps of {axis.step}, {axis.lanes} lanes"
            )
    for operand in layer.operands:
        yield from _operand_faults(operand, names)
    for dimension in layer.output.dimensions:
        if dimension.axis in names:
            plain = Dimension(layer.axis(dimension.axis or "").extent, dimension.axis)
            if dimension != plain:
                yield f'the output\'s dimension along "{dimension.axis}" is not the axis itself'


def _operand_faults(operand: LayerOperand, names: Sequence[str]) -> Iterator[str]:
    followed = [d.axis for d in operand.dimensions if d.axis is not None]
    if operand.role not in ROLES:
        roles = ", ".join(ROLES)
        yield f'tensor "{operand.name}" has role "{operand.role}", must be one of {roles}'
    if unknown := [axis for axis in followed if axis not in names]:
        yield f'tensor "{operand.name}" is indexed by unknown axis "{unknown[0]}"'
    if len(set(followed)) < len(followed):
        yield f'one axis indexes two dimensions of tensor "{operand.name}"'
    if any(d.factor <= 0 for d in operand.dimensions):
        yield f'tensor "{operand.name}" has a dimension whose factor is not positive'
    if min((*operand.shape, operand.element_bytes, operand.unfinished_bytes)) < 1:
        yield f'tensor "{operand.name}" has a size or element size below 1'


NAMES = {1: "c", 2: "nc", 3: "hwc", 4: "nhwc"}
"""Names of the output's axes by rank; for other ranks, axes are numbered."""
SUM_BYTES = 4
"""Bytes of an incomplete sum: an int32 accumulator."""


@dataclass(frozen=True, slots=True)
class _Summed:
    """A reduction axis: its name, and the dimension that it indexes, by index of the input."""

    name: str
    dimensions: Mapping[int, int]


def runs_of(operand: LayerOperand, region: Region) -> int:
    """Return the number of contiguous pieces of a region of a tensor in memory."""
    parts = [k for k, n in enumerate(operand.shape) if region.shape[k] < n]
    return math.prod(region.shape[: parts[-1]]) if parts else 1


def matrix_layer(op: Op, site: Site, name: str) -> Layer:
    """Return the layer of a fully connected operator, with its input reshaped to (N, C)."""
    x, w, bias = site.inputs
    flat = x.with_shape((site.output.shape[0], w.shape[1]))
    return layer_of(op, replace(site, inputs=(flat, w, bias)), name)


def layer_of(op: Op, site: Site, name: str = "layer") -> Layer:
    """Return the layer of an operator. Element sizes follow the types; `cycles_per_point` is the
    work per point (`Op.work`)."""
    names = _names(site.output.rank)
    axes = [Axis(a, n) for a, n in zip(names, site.output.shape, strict=True)]
    summed = _summed(op, site)
    for axis in summed:
        k, dimension = next(iter(axis.dimensions.items()))
        axes.append(Axis(axis.name, site.inputs[k].shape[dimension]))
    work = op.work(site, Region.whole(site.output.shape))
    points = 1
    for axis in axes:
        points *= axis.extent
    output = tuple(Dimension(n, a) for a, n in zip(names, site.output.shape, strict=True))
    return Layer(
        name,
        tuple(axes),
        tuple(_input(site, k, form, names, summed) for k, form in enumerate(op.affine(site))),
        LayerOperand(
            "output",
            OUTPUT,
            output,
            site.output.dtype.size_bytes,
            max(SUM_BYTES, site.output.dtype.size_bytes) if summed else None,
        ),
        max(1, -(-max(work.macs, work.elements) // points)),
    )


def _names(rank: int) -> tuple[str, ...]:
    return tuple(NAMES[rank]) if rank in NAMES else tuple(f"a{k}" for k in range(rank))


def _summed(op: Op, site: Site) -> tuple[_Summed, ...]:
    pairs = op.reduced(site) if isinstance(op, Reducing) else ()
    return tuple(_Summed(f"sum{k}" if k else "sum", dict(axis)) for k, axis in enumerate(pairs))


def _input(
    site: Site, k: int, form: Affine, names: tuple[str, ...], summed: tuple[_Summed, ...]
) -> LayerOperand:
    shape = site.inputs[k].shape
    dimensions: list[Dimension] = []
    for d, size in enumerate(shape):
        found = _dimension(form, d, size, names)
        found = next((Dimension(size, s.name) for s in summed if s.dimensions.get(k) == d), found)
        if found.axis in (other.axis for other in dimensions):
            found = Dimension(size)
        dimensions.append(found)
    role = INPUT if site.constants[k] is None else WEIGHTS
    return LayerOperand(f"input {k}", role, tuple(dimensions), site.inputs[k].dtype.size_bytes)


def _dimension(form: Affine, d: int, size: int, names: tuple[str, ...]) -> Dimension:
    """Return the dimension that a row of the affine form describes; a whole dimension if it does
    not depend on exactly one axis."""
    *factors, extra = form.matrix[d]
    spoken = [j for j, factor in enumerate(factors) if factor]
    if len(spoken) != 1:
        return Dimension(size)
    return Dimension(size, names[spoken[0]], factors[spoken[0]], extra, form.offset[d])


@dataclass(frozen=True, slots=True)
class Scratchpad:
    """A local memory of `size_bytes` for the tensors of some roles. The innermost dimension of a
    tile is padded to a multiple of `alignment` elements."""

    name: str
    size_bytes: int
    roles: tuple[str, ...]
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class Copies:
    """The cost in cycles of copying a box between memory and a scratchpad:

        per_copy + per_run * runs + bytes / bytes_per_cycle

    A run is a contiguous piece of memory. On a bus with bursts, `per_run` is the latency of a burst
    plus, on average, half a burst.
    """

    bytes_per_cycle: int = 8
    per_run: int = 2
    per_copy: int = 100


@dataclass(frozen=True, slots=True)
class Scratchpads:
    """The scratchpads of an engine. Raises UsageError unless each role has exactly one; without a
    scratchpad of their own, parameters are in that of weights.

    With `double_buffered`, an operand with several tiles occupies two buffers, and copies overlap
    with computation. With `spills`, incomplete sums may be stored to memory and loaded again.
    """

    scratchpads: tuple[Scratchpad, ...]
    double_buffered: bool = False
    spills: bool = True
    copies: Copies = Copies()

    def __post_init__(self) -> None:
        roles = sorted(role for memory in self.scratchpads for role in memory.roles)
        if roles not in (sorted(ROLES), sorted({*ROLES} - {PARAMETERS})) or any(
            memory.size_bytes < 1 or memory.alignment < 1 for memory in self.scratchpads
        ):
            raise UsageError(
                "tiling-002",
                f"the scratchpads have the roles {', '.join(roles) or '(none)'}",
                where=f"scratchpads {', '.join(m.name for m in self.scratchpads)}",
                why="input, weights and output each need exactly one scratchpad, of at least one "
                "byte and aligned to at least one element",
                help="use Scratchpads.shared or Scratchpads.separate",
            )

    @staticmethod
    def shared(
        size_bytes: int,
        *,
        alignment: int = 1,
        double_buffered: bool = False,
        spills: bool = True,
        copies: Copies = Copies(),
    ) -> Scratchpads:
        """Return a single memory for all tensors."""
        memory = Scratchpad("local", size_bytes, ROLES, alignment)
        return Scratchpads((memory,), double_buffered, spills, copies)

    @staticmethod
    def separate(
        *sizes_bytes: int,
        alignment: int = 1,
        double_buffered: bool = False,
        spills: bool = True,
        copies: Copies = Copies(),
    ) -> Scratchpads:
        """Return one memory for each role.

        sizes_bytes: of the memories of input, weights, output and parameters; without the last one,
            parameters are in that of weights."""
        sized = zip((INPUT, WEIGHTS, OUTPUT, PARAMETERS), sizes_bytes, strict=False)
        memories = tuple(Scratchpad(role, size, (role,), alignment) for role, size in sized)
        return Scratchpads(memories, double_buffered, spills, copies)

    def of(self, role: str) -> Scratchpad:
        """Return the scratchpad of the tensors of a role."""
        found = next((memory for memory in self.scratchpads if role in memory.roles), None)
        return found or self.of(WEIGHTS)

    def room(self, operand: LayerOperand, lengths: Sequence[int]) -> tuple[int, ...]:
        """Return the elements along each dimension of the memory for a tile: the innermost one
        aligned."""
        alignment = self.of(operand.role).alignment
        return (*lengths[:-1], *(-(-n // alignment) * alignment for n in lengths[-1:]))
