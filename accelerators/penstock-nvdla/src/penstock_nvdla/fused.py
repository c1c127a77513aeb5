"""fused: kernels that run a group of layers tile by tile (`fused.py`), with the inner tensors
(those between the layers) in CVSRAM.

The strategy compares tiles of several sizes and takes the one of least cost that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise, product
from typing import NamedTuple

from penstock.uma import (
    Array,
    Breakdown,
    Command,
    Composite,
    KernelCall,
    Node,
    Offloaded,
    Operand,
    PlacedCall,
    TensorRows,
)
from penstock_nvdla.configurations import CVSRAM
from penstock_nvdla.dataflow import task_cycles
from penstock_nvdla.kernels import tasks
from penstock_nvdla.task import Task

# The layers of a group that run tile by tile, and the part of each tensor of a tile.
#
# A tile is a rectangle of rows and columns of the group's outputs, which are tensors of equal
# height and width.  For each tile, every layer computes the rectangle of its output that later
# layers of the group read.  Elements that two tiles need (the halo) are computed twice.
#
# The inner tensors, which are neither inputs nor outputs of the group, are stored in a workspace
# that all tiles use in turn.  The inputs and outputs are whole tensors elsewhere.  If later layers
# of the group read an output, two tiles write the elements of its halo, with the same values;
# otherwise, its elements are written once.
#
# Source: Zheng et al., IEEE TCAD 39(11), 2020, section 5.2 (loop tiling for fused layers).


Interval = tuple[int, int]
# The rows, or the columns, of each tensor that a tile needs, by name.
Spans = Mapping[str, Interval]


class TileSize(NamedTuple):
    """The largest number of rows and of columns of a tile of a group's outputs."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class GroupTensor:
    """A tensor of a group.

    height, width: its rows and columns.
    packs: the number of packs of channels in which it is stored.
    writer: the number of the layer that computes it; None for an input of the group.
    last: the number of the last layer that reads it; if none does, the one that computes it."""

    height: int
    width: int
    packs: int
    writer: int | None
    last: int


@dataclass(frozen=True, slots=True)
class GroupLayer:
    """A layer of a group: its tasks, each with the names of the tensors that it reads."""

    output: str
    tasks: tuple[tuple[Task, tuple[str, ...]], ...]

    @property
    def packs_before(self) -> tuple[int, ...]:
        """For each task, the number of packs of the output that precede those that it writes."""
        atom = self.tasks[0][0].hardware.memory_atom_bytes
        # Only concatenations have several tasks.
        channels = accumulate((task.in_c for task, _ in self.tasks[:-1]), initial=0)
        return tuple(channel // atom for channel in channels)


@dataclass(frozen=True, slots=True)
class TileTask:
    """A task that computes a rectangle of the output of a layer.

    layer: the number of the layer.
    task: the task for the rectangle.
    inputs: the names of the tensors that it reads.
    reads: for each of them, the first row and the first column that it reads.
    out: the first row and the first column that it computes.
    packs_before: the number of packs of the output that precede those that it computes."""

    layer: int
    task: Task
    inputs: tuple[str, ...]
    reads: tuple[tuple[int, int], ...]
    out: tuple[int, int]
    packs_before: int


class AxisPart(NamedTuple):
    """The size of a task along an axis, in rows or in columns: the size of its output, that of the
    input that it reads, and that of the padding before this input."""

    output: int
    input: int
    padding: int


# For each task of a group, in order of execution: the different sizes that it has along an axis.
#
# Each maps to a count: for how many rows of tiles, or columns of tiles, the task has this size.
PartCounts = tuple[Mapping[AxisPart, int], ...]


@dataclass(frozen=True)
class LayerGroup:
    """The layers of a group in execution order.

    outputs: the names of the tensors that are used outside of the group.
    _known, _counted: caches of the intervals (`rows`, `columns`) and of the sizes of tasks
        (`row_parts`, `column_parts`).  Keys: (True for columns or False for rows, largest size of a
        tile along this axis).
    _shapes: a cache of the results of `tile_shapes`."""

    layers: tuple[GroupLayer, ...]
    outputs: tuple[str, ...]
    _known: dict[tuple[bool, int], tuple[Spans, ...]] = field(
        default_factory=dict[tuple[bool, int], tuple[Spans, ...]], compare=False
    )
    _counted: dict[tuple[bool, int], PartCounts] = field(
        default_factory=dict[tuple[bool, int], PartCounts], compare=False
    )
    _shapes: dict[TileSize, Mapping[str, tuple[int, int]]] = field(
        default_factory=dict[TileSize, Mapping[str, tuple[int, int]]], compare=False
    )

    @cached_property
    def tensors(self) -> Mapping[str, GroupTensor]:
        """All tensors that the layers read or write, by name."""
        found: dict[str, GroupTensor] = {}
        for k, layer in enumerate(self.layers):
            for task, names in layer.tasks:
                shapes = (
                    (task.in_h, task.in_w, task.in_packs),
                    (task.out_h, task.out_w, task.out_packs),
                )
                for name, shape in zip(names, shapes, strict=False):
                    writer = found[name].writer if name in found else None
                    found[name] = GroupTensor(*shape, writer, k)
            last = layer.tasks[-1][0]
            packs = layer.packs_before[-1] + last.out_packs
            found[layer.output] = GroupTensor(last.out_h, last.out_w, packs, k, k)
        return found

    @property
    def size(self) -> tuple[int, int]:
        """The rows and columns of every output."""
        first = self.tensors[self.outputs[0]]
        return first.height, first.width

    @property
    def is_regular(self) -> bool:
        """Whether all outputs have the same rows and columns, and no layer fills packs with pixels
        (`Task.spreads`)."""
        every = (self.tensors[name] for name in self.outputs)
        tasks = (task for layer in self.layers for task, _ in layer.tasks)
        return all((one.height, one.width) == self.size for one in every) and not any(
            task.spreads for task in tasks
        )

    def packs_before(self, output: str) -> int:
        """Return where an output begins in the tensor that contains all outputs side by side: the
        number of packs of the outputs before it."""
        before = self.outputs[: self.outputs.index(output)]
        return sum(self.tensors[name].packs for name in before)

    @property
    def atom_bytes(self) -> int:
        """The size in bytes of a memory atom, which stores one pixel of a pack, that is, of a group
        of channels that are stored together."""
        return self.layers[0].tasks[0][0].hardware.memory_atom_bytes

    def is_inner(self, tensor: str) -> bool:
        """Return whether a tensor is neither an input nor an output of the group."""
        return self.tensors[tensor].writer is not None and tensor not in self.outputs

    def rows(self, size: TileSize) -> tuple[Spans, ...]:
        """Return the rows of each tensor that tiles need: one element per row of tiles, from top to
        bottom."""
        return self._spans(size.rows, by_columns=False)

    def columns(self, size: TileSize) -> tuple[Spans, ...]:
        """Return, for each column of tiles from the left, the columns of each tensor that its tiles
        need."""
        return self._spans(size.columns, by_columns=True)

    def tile_shapes(self, size: TileSize) -> Mapping[str, tuple[int, int]]:
        """Return the size of each inner tensor in the workspace, (rows, columns), by name: the most
        rows and the most columns that any tile needs."""
        if size not in self._shapes:
            rows, columns = self.rows(size), self.columns(size)
            self._shapes[size] = {
                layer.output: (_longest(layer.output, rows), _longest(layer.output, columns))
                for layer in self.layers
                if self.is_inner(layer.output)
            }
        return self._shapes[size]

    def tasks(self, rows: Spans, columns: Spans, size: TileSize) -> Iterator[TileTask]:
        """Yield the tasks that compute a tile, in order of execution.

        size: the size of tiles in the group, which determines the row pitch of inner tensors."""
        shapes = self.tile_shapes(size)
        for k, layer in enumerate(self.layers):
            out = rows[layer.output], columns[layer.output]
            for (task, names), packs_before in zip(layer.tasks, layer.packs_before, strict=True):
                widths = [
                    shapes[name][1] if name in shapes else self.tensors[name].width
                    for name in (*names, layer.output)
                ]
                small = replace(
                    task.cropped(*out),
                    gathered_bytes=0,
                    in_span=widths[0],
                    second_span=widths[1] if len(names) > 1 else 0,
                    out_span=widths[-1],
                )
                begin = task.reads(*out[0])[0], task.reads_columns(*out[1])[0]
                first = out[0][0], out[1][0]
                yield TileTask(k, small, names, (begin, first)[: len(names)], first, packs_before)

    def row_parts(self, size: TileSize) -> PartCounts:
        """Return the heights of each task of the group's layers: for each height, the number of
        rows of tiles in which the task has it."""
        return self._parts(size.rows, by_columns=False)

    def column_parts(self, size: TileSize) -> PartCounts:
        """Return the widths of each task of the group's layers: for each width, the number of
        columns of tiles in which the task has it."""
        return self._parts(size.columns, by_columns=True)

    def _parts(self, most: int, *, by_columns: bool) -> PartCounts:
        """Return, for each task of the layers, the sizes that it has in different tiles along an
        axis, and the number of rows or columns of tiles for each (`PartCounts`)."""
        if (by_columns, most) not in self._counted:
            every = self._spans(most, by_columns=by_columns)
            self._counted[by_columns, most] = tuple(
                Counter(axis_part(task, s[layer.output], by_columns=by_columns) for s in every)
                for layer in self.layers
                for task, _ in layer.tasks
            )
        return self._counted[by_columns, most]

    def _spans(self, most: int, *, by_columns: bool) -> tuple[Spans, ...]:
        """The cached result of `rows` or, if `by_columns`, of `columns`."""
        if (by_columns, most) not in self._known:
            height, width = self.size
            count = width if by_columns else height
            self._known[by_columns, most] = tuple(
                self._needed(interval, by_columns=by_columns) for interval in intervals(count, most)
            )
        return self._known[by_columns, most]

    def _needed(self, interval: Interval, *, by_columns: bool) -> Spans:
        """The rows of each tensor that the rows `interval` of the outputs need; if
        `by_columns`, the same for columns."""
        found = dict.fromkeys(self.outputs, interval)
        for layer in reversed(self.layers):
            out = found[layer.output]
            for task, names in layer.tasks:
                read = _reads(task, out, by_columns=by_columns)
                for name, span in zip(names, (read, out), strict=False):
                    known = found.get(name, span)
                    found[name] = min(span[0], known[0]), max(span[1], known[1])
        return found


def _reads(task: Task, out: Interval, *, by_columns: bool) -> Interval:
    """The input rows that output rows `out` read; if `by_columns`, the same for columns."""
    return task.reads_columns(*out) if by_columns else task.reads(*out)


def axis_part(task: Task, out: Interval, *, by_columns: bool) -> AxisPart:
    """Return how many rows the part of a task has that computes output rows `out`: in its output,
    its input and the padding before this input.  If `by_columns`, the same for columns."""
    lower, upper = _reads(task, out, by_columns=by_columns)
    padding, stride = (
        (task.pad_left, task.stride_w) if by_columns else (task.pad_top, task.stride_h)
    )
    return AxisPart(out[1] - out[0], upper - lower, max(0, padding - out[0] * stride))


def _longest(name: str, every: tuple[Spans, ...]) -> int:
    return max(spans[name][1] - spans[name][0] for spans in every)


def intervals(count: int, most: int) -> Iterator[Interval]:
    """Yield intervals of nearly equal length that cover [0, count), each of at most `most`.

    >>> list(intervals(7, 3))
    [(0, 2), (2, 4), (4, 7)]
    """
    number = -(-count // most)
    cuts = [k * count // number for k in range(number + 1)]
    yield from pairwise(cuts)


def group_nodes(offloaded: Offloaded) -> tuple[Node, ...]:
    """Return the layers of a composite that is a group.

    If the group has several outputs, a further node of the composite places them side by side."""
    return tuple(node for node in offloaded.composite.nodes if isinstance(node.op, Composite))


def layer_group(offloaded: Offloaded) -> LayerGroup:
    """Return the group that a composite of several layers computes."""
    if "group" not in offloaded.cache:
        offloaded.cache["group"] = _new_group(offloaded)
    return offloaded.cache["group"]


def _new_group(offloaded: Offloaded) -> LayerGroup:
    layers: list[GroupLayer] = []
    nodes = group_nodes(offloaded)
    for node in nodes:
        every = tasks(Offloaded(node, offloaded.target))
        pairs = ((one.task, tuple(node.inputs[i].name for i in one.inputs)) for one in every)
        layers.append(GroupLayer(node.name, tuple(pairs)))
    last = offloaded.composite.nodes[-1]
    outputs = (last,) if last in nodes else last.inputs
    return LayerGroup(tuple(layers), tuple(one.name for one in outputs))


# The numbers of parts into which an axis of the output is divided.
PARTS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True, slots=True)
class TilePlan:
    """The size of the tiles of a group, and where they store the inner tensors.

    offsets: the offset in bytes of each inner tensor in the group's workspace, by name.
    scratch: the offset in bytes of the scratch memory of layers, which follows the tensors.
    size_bytes: the size of the workspace, a part of CVSRAM that all tiles use."""

    size: TileSize
    offsets: Mapping[str, int]
    scratch: int
    size_bytes: int


def tile_plan(group: LayerGroup, size: TileSize, bank_bytes: int) -> TilePlan:
    """Return a plan that assigns the inner tensors of a group to offsets in the workspace.

    size: the largest number of rows and columns of a tile.
    bank_bytes: the size of a bank of CVSRAM."""
    # A tensor has the same offset in all tiles.  Its space suffices for every tile, and is rounded
    # up to whole banks.  Two tensors that are live at the same time (`_live_together`) do not
    # overlap, and so share no bank; other tensors may share memory.  Tensors are placed in
    # descending order of size, each at the lowest offset where it fits.
    shapes = group.tile_shapes(size)
    sizes = {
        name: -(-h * w * group.tensors[name].packs * group.atom_bytes // bank_bytes) * bank_bytes
        for name, (h, w) in shapes.items()
    }
    found: dict[str, int] = {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        offset = 0
        for other in sorted(found, key=found.__getitem__):
            if not _live_together(group, name, other):
                continue
            if offset + sizes[name] <= found[other]:
                break
            offset = max(offset, found[other] + sizes[other])
        found[name] = offset
    most = max((offset + sizes[name] for name, offset in found.items()), default=0)
    return TilePlan(size, found, most, most + _scratch_bytes(group, size))


def _scratch_bytes(group: LayerGroup, size: TileSize) -> int:
    """The most scratch memory in bytes that a layer of a tile needs."""
    tasks = (task for layer in group.layers for task, _ in layer.tasks)
    parts = zip(tasks, group.row_parts(size), group.column_parts(size), strict=True)
    every = (
        _part(task, row, column).scratch_bytes
        for task, rows, columns in parts
        if task.has_passes
        for row, column in product(rows, columns)
    )
    return max(every, default=0)


def _live_together(group: LayerGroup, one: str, other: str) -> bool:
    # A tensor is live from the layer that computes it to the last layer that reads it.
    a, b = group.tensors[one], group.tensors[other]
    assert a.writer is not None
    assert b.writer is not None
    return a.writer <= b.last and b.writer <= a.last


def tiled_cycles(
    group: LayerGroup, size: TileSize, inside: frozenset[str] = frozenset()
) -> Breakdown:
    """Return the cycles of a group that runs in tiles.

    inside: the inputs and outputs of the group that are in CVSRAM, by name."""
    return parts_cycles(group, group.row_parts(size), group.column_parts(size), inside)


def parts_cycles(
    group: LayerGroup,
    row_parts: PartCounts,
    column_parts: PartCounts,
    inside: frozenset[str] = frozenset(),
) -> Breakdown:
    """Return the cycles of a group whose tasks run once for each tile.

    inside: the inputs and outputs of the group that are in CVSRAM, by name."""
    every = [
        (task, _buffered(group, layer, names, inside))
        for layer in group.layers
        for task, names in layer.tasks
    ]
    first: Breakdown | None = None
    cycles, memory_bytes, by_resource = 0.0, 0.0, dict[str, float]()
    for (task, fields), rows, columns in zip(every, row_parts, column_parts, strict=True):
        known = _known_parts(task, fields)
        for (row, number), (column, times) in product(rows.items(), columns.items()):
            if (row, column) not in known:
                known[row, column] = _part_cycles(task, row, column, fields)
            found, count = known[row, column], number * times
            first = first or found
            cycles += count * found.cycles
            memory_bytes += count * found.memory_bytes
            for name, busy in found.by_resource.items():
                by_resource[name] = by_resource.get(name, 0.0) + count * busy
    assert first is not None
    return replace(first, cycles=cycles, by_resource=by_resource, memory_bytes=memory_bytes)


@lru_cache(maxsize=1 << 12)
def _known_parts(task: Task, inside: frozenset[str]) -> dict[tuple[AxisPart, AxisPart], Breakdown]:
    """The known results of `_part_cycles` for a task: a dictionary from (rows, columns)."""
    # The first call returns an empty dictionary, which the caller fills; later calls for the same
    # task return the same dictionary.  So the task, whose hash is slow, is not part of the keys.
    del task, inside
    return {}


def _part_cycles(
    task: Task, rows: AxisPart, columns: AxisPart, inside: frozenset[str]
) -> Breakdown:
    part = _part(task, rows, columns)
    return task_cycles(part, part.out_h, inside)


def _part(task: Task, rows: AxisPart, columns: AxisPart) -> Task:
    return replace(
        task,
        gathered_bytes=0,
        in_h=rows.input,
        in_w=columns.input,
        out_h=rows.output,
        out_w=columns.output,
        pad_top=rows.padding,
        pad_left=columns.padding,
    )


def _buffered(
    group: LayerGroup, layer: GroupLayer, inputs: Sequence[str], inside: frozenset[str]
) -> frozenset[str]:
    """Which tensors of a task of `layer` are in CVSRAM, each named by its field
    of `LayerTraffic`: "features", "second" or "output"."""
    names = (*zip(("features", "second"), inputs, strict=False), ("output", layer.output))
    found = (f for f, name in names if name in inside or group.is_inner(name))
    return frozenset((*found, "scratch"))


@lru_cache(maxsize=1 << 12)
def best_plan(group: LayerGroup, capacity_bytes: int, bank_bytes: int) -> TilePlan | None:
    """Return the plan with the fewest cycles and, among equals, the least memory traffic.

    The result is None if no size of tiles fits.  For each number of columns, only the largest
    number of rows that fits is considered.

    capacity_bytes, bank_bytes: the size of CVSRAM, and of one of its banks."""
    height, width = group.size
    found: list[tuple[float, float, TilePlan]] = []
    heights = axis_shares(height)
    for columns in axis_shares(width):
        plans = (tile_plan(group, TileSize(rows, columns), bank_bytes) for rows in heights)
        plan = next((plan for plan in plans if plan.size_bytes <= capacity_bytes), None)
        if plan is not None:
            cost = tiled_cycles(group, plan.size)
            found.append((cost.cycles, cost.memory_bytes, plan))
            heights = [rows for rows in heights if rows >= plan.size.rows]
    return min(found, key=lambda one: one[:2])[2] if found else None


def axis_shares(count: int) -> Sequence[int]:
    """Return the sizes of tiles to try along an axis of the outputs, the whole axis first.

    >>> axis_shares(10)
    [10, 5, 4, 3, 2]
    """
    return sorted({-(-count // n) for n in PARTS if n <= count}, reverse=True)


def tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """Return the tables of all layers of a group, each named after the number of its layer."""
    found: dict[str, Array] = {}
    for k, node in enumerate(group_nodes(offloaded)):
        assert isinstance(node.op, Composite)
        assert node.op.chosen is not None
        found |= {f"{name} {k}": table.array for name, table in node.op.chosen.tables}
    return found


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile of a call.

    rows, columns: the rows and the columns of each tensor that the tile needs, by name."""

    call: KernelCall
    plan: TilePlan
    rows: Spans
    columns: Spans

    @property
    def group(self) -> LayerGroup:
        return layer_group(self.call)

    def commands(self) -> Iterator[Command]:
        scratch = None if self.call.scratch_buffer is None else self.call.scratch
        if scratch is not None:
            scratch = replace(scratch, offset=scratch.offset + self.plan.scratch)
        for one in self.group.tasks(self.rows, self.columns, self.plan.size):
            task, output = one.task, self.group.layers[one.layer].output
            counts = (task.in_h, task.out_h)
            inputs = zip(one.inputs, one.reads, counts, strict=False)
            read = [self._tensor_rows(name, at, 0, count) for name, at, count in inputs]
            result = self._tensor_rows(output, one.out, one.packs_before, task.out_h)
            used = tuple(self.call.table(f"{name} {one.layer}") for name in task.tables)
            issue = self.call.issue(task, read, result, tables=used, scratch=scratch)
            yield replace(issue, first=0, end=task.out_h)

    def _tensor_rows(self, tensor: str, at: tuple[int, int], packs: int, count: int) -> TensorRows:
        group, (row, column) = self.group, at
        if group.is_inner(tensor):
            row, column = row - self.rows[tensor][0], column - self.columns[tensor][0]
            width = group.tile_shapes(self.plan.size)[tensor][1]
            pitch = group.tensors[tensor].packs * width * group.atom_bytes
            rows = replace(self.call.result.view.rows, pitch=pitch, ring=count, table=None)
            begin = row * pitch + (packs * width + column) * group.atom_bytes
            space = self.call.scratch
            offset = space.offset + self.plan.offsets[tensor] + begin
            return TensorRows(space.buffer, rows, 0, count, offset)
        operand, width = self._operand(tensor), group.tensors[tensor].width
        if tensor in group.outputs:
            packs += group.packs_before(tensor)
        pitch = operand.view.rows.pitch
        rows = replace(operand.view.rows, ring=count, table=None)
        begin = row * pitch + (packs * width + column) * group.atom_bytes
        return replace(operand.rows(0, count, begin), rows=rows)

    def _operand(self, tensor: str) -> Operand:
        """The operand of the call in which `tensor`, an input or output of the group, is
        stored.  An input is an operand itself; all outputs are stored in the call's result."""
        if tensor in self.group.outputs:
            return self.call.result
        names = [value.name for value in self.call.node.inputs]
        return self.call.operands[names.index(tensor)]


def chosen_plan(offloaded: Offloaded) -> TilePlan | None:
    """Return the tiles in which a group runs; None if none fit CVSRAM."""
    if "plan" not in offloaded.cache:
        group, found = layer_group(offloaded), None
        buffer = offloaded.target.memories.get(CVSRAM)
        if buffer is not None and group.is_regular:
            bank = buffer.bank_bytes or group.atom_bytes
            found = best_plan(group, buffer.size_bytes // bank * bank, bank)
        offloaded.cache["plan"] = found
    return offloaded.cache["plan"]


def _plan(offloaded: Offloaded) -> TilePlan:
    found = chosen_plan(offloaded)
    assert found is not None
    return found


def workspace_bytes(offloaded: Offloaded) -> int:
    """Return the bytes of CVSRAM in which a group stores its inner tensors."""
    return _plan(offloaded).size_bytes


def cycles(offloaded: Offloaded, rows: int) -> Breakdown:
    """Return the cycles of a group.  A single call computes all of its rows, whatever `rows` is."""
    del rows
    buffered = [memory == CVSRAM for memory in offloaded.memory_assignment]
    return _cycles(offloaded, buffered)


def placed_cycles(offloaded: Offloaded, call: PlacedCall) -> Breakdown:
    """Return the cycles of a group, given the memories of its inputs and its output.

    call: the call with the addresses of these tensors."""
    every = (*call.inputs, call.output)
    return _cycles(offloaded, [rows is not None and rows.memory != call.beside for rows in every])


def _cycles(offloaded: Offloaded, buffered: Sequence[bool]) -> Breakdown:
    """The cycles of a kernel call, which runs the whole group."""
    group = layer_group(offloaded)
    tensors = (*((value.name,) for value in offloaded.node.inputs), group.outputs)
    pairs = zip(tensors, buffered, strict=False)
    inside = frozenset(name for names, is_inside in pairs if is_inside for name in names)
    return tiled_cycles(group, _plan(offloaded).size, inside)


def traffic(offloaded: Offloaded, first: int, end: int) -> Mapping[str, int]:
    """Return the bytes that a call transfers, by field of `LayerTraffic`.  It computes the whole
    group, whatever the interval of rows [first, end) is."""
    del first, end
    group, total = layer_group(offloaded), Counter[str]()
    size = _plan(offloaded).size
    for rows in group.rows(size):
        for columns in group.columns(size):
            for one in group.tasks(rows, columns, size):
                for step in one.task.even_steps(0, one.task.out_h):
                    total.update(asdict(step.traffic))
    return total


def compute(call: KernelCall) -> Sequence[Command]:
    """Return the commands of a group, which run it tile by tile."""
    group, plan = layer_group(call), _plan(call)
    return [
        command
        for rows in group.rows(plan.size)
        for columns in group.columns(plan.size)
        for command in _Tile(call, plan, rows, columns).commands()
    ]
