"""tiled_group: the layers of a group that run tile by tile, and the part of each tensor of a tile.

A tile is a rectangle of rows and columns of the group's outputs, which are tensors of equal height
and width.  For each tile, every layer computes the rectangle of its output that later layers of the
group read.  Elements that two tiles need (the halo) are computed twice.

The inner tensors, which are neither inputs nor outputs of the group, are stored in a workspace that
all tiles use in turn.  The inputs and outputs are whole tensors elsewhere.  If later layers of the
group read an output, two tiles write the elements of its halo, with the same values; otherwise, its
elements are written once.

Source: Zheng et al., IEEE TCAD 39(11), 2020, section 5.2 (loop tiling for fused layers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from penstock.uma import Composite, Node, Offloaded
from penstock_nvdla.kernels import tasks
from penstock_nvdla.task import Task

Interval = tuple[int, int]
Spans = Mapping[str, Interval]
"""The rows, or the columns, of each tensor that a tile needs, by name."""


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


PartCounts = tuple[Mapping[AxisPart, int], ...]
"""For each task of a group, in order of execution: the different sizes that it has along an axis.

Each maps to a count: for how many rows of tiles, or columns of tiles, the task has this size."""


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
            packs = sum(task.out_packs for task, _ in layer.tasks)
            found[layer.output] = GroupTensor(last.out_h, last.out_w, packs, k, k)
        return found

    @property
    def size(self) -> tuple[int, int]:
        """The rows and columns of every output."""
        first = self.tensors[self.outputs[0]]
        return first.height, first.width

    @property
    def is_regular(self) -> bool:
        """Whether all outputs have the same rows and columns."""
        every = (self.tensors[name] for name in self.outputs)
        return all((one.height, one.width) == self.size for one in every)

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

        rows, columns: the rows and the columns of each tensor that the tile needs.
        size: the size of tiles in the group, which determines the row pitch of inner tensors."""
        shapes = self.tile_shapes(size)
        for k, layer in enumerate(self.layers):
            out = rows[layer.output], columns[layer.output]
            packs_before = 0
            for task, names in layer.tasks:
                widths = [
                    shapes[name][1] if name in shapes else self.tensors[name].width
                    for name in (*names, layer.output)
                ]
                small = replace(
                    task.cropped(*out),
                    in_span=widths[0],
                    second_span=widths[1] if len(names) > 1 else 0,
                    out_span=widths[-1],
                )
                begin = task.reads(*out[0])[0], task.reads_columns(*out[1])[0]
                first = out[0][0], out[1][0]
                yield TileTask(k, small, names, (begin, first)[: len(names)], first, packs_before)
                packs_before += task.out_packs

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
        axis, and the number of rows or columns of tiles for each (`PartCounts`).

        by_columns: whether the axis is that of columns.
        most: the largest size of a tile along this axis, in rows or columns of the outputs."""
        if (by_columns, most) not in self._counted:
            every = self._spans(most, by_columns=by_columns)
            self._counted[by_columns, most] = tuple(
                Counter(axis_part(task, s[layer.output], by_columns=by_columns) for s in every)
                for layer in self.layers
                for task, _ in layer.tasks
            )
        return self._counted[by_columns, most]

    def _spans(self, most: int, *, by_columns: bool) -> tuple[Spans, ...]:
        """Return the cached result of `rows` or, if `by_columns`, of `columns`.

        most: the largest size of a tile along this axis, in rows or columns of the outputs."""
        if (by_columns, most) not in self._known:
            height, width = self.size
            count = width if by_columns else height
            self._known[by_columns, most] = tuple(
                self._needed(interval, by_columns=by_columns) for interval in intervals(count, most)
            )
        return self._known[by_columns, most]

    def _needed(self, interval: Interval, *, by_columns: bool) -> Spans:
        """Return the rows of each tensor that the rows `interval` of the outputs need; if
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
    """Return the input rows that output rows `out` read; if `by_columns`, the same for columns."""
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
