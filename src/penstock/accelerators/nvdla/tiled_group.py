"""tiled_group: the layers of a group that run tile by tile, and the part of each tensor of a tile.

A tile is a rectangle of rows and columns of the group's output.  For each tile, every layer
computes the rectangle of its output that later layers of the group read.  What two tiles both need
(the halo) is computed twice.  The tensors between the layers are stored in the memory of tiles; the
inputs and the output of the group are whole tensors elsewhere.

Source: Zheng et al., IEEE TCAD 39(11), 2020, section 5.2 (loop tiling for fused layers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from penstock.accelerators.nvdla.kernels import tasks
from penstock.accelerators.nvdla.task import Task
from penstock.uma import Offloaded

Interval = tuple[int, int]
Spans = Mapping[str, Interval]
"""The rows, or the columns, of each tensor that a tile needs, by name."""


class TileSize(NamedTuple):
    """The largest number of rows and of columns of a tile of a group's output."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class GroupTensor:
    """A tensor of a group.

    height, width: its rows and columns.
    packs: the number of packs of channels in which it is stored.
    writer: the number of the layer that computes it; None for an input of the group.
    last: the number of the last layer that reads it; for the group's output, the one that computes
        it."""

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
    """What a task computes along an axis: the number of output rows or columns, that of the input
    rows or columns that they read, and the padding before these."""

    output: int
    input: int
    padding: int


AxisParts = tuple[AxisPart, ...]
"""What each task of a group computes of a tile along an axis, in order of execution."""


@dataclass(frozen=True)
class LayerGroup:
    """The layers of a group in execution order; the last one computes the output.

    _known: results of `_spans`, by axis and length of an interval.
    _shapes: results of `tile_shapes`."""

    layers: tuple[GroupLayer, ...]
    _known: dict[tuple[bool, int], tuple[Spans, ...]] = field(
        default_factory=dict[tuple[bool, int], tuple[Spans, ...]], compare=False
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
    def output(self) -> str:
        """The name of the output."""
        return self.layers[-1].output

    @property
    def atom_bytes(self) -> int:
        """The size in bytes of a memory atom, in which a pack stores a point."""
        return self.layers[0].tasks[0][0].hardware.memory_atom_bytes

    def is_inner(self, tensor: str) -> bool:
        """Return whether a tensor is neither an input nor the output of the group."""
        return self.tensors[tensor].writer is not None and tensor != self.output

    def rows(self, size: TileSize) -> tuple[Spans, ...]:
        """Return the rows of each tensor that each row of tiles needs."""
        return self._spans(size.rows, by_columns=False)

    def columns(self, size: TileSize) -> tuple[Spans, ...]:
        """Return the columns of each tensor that each column of tiles needs."""
        return self._spans(size.columns, by_columns=True)

    def tile_shapes(self, size: TileSize) -> Mapping[str, tuple[int, int]]:
        """Return the largest (rows, columns) of each inner tensor in a tile, by name."""
        if size not in self._shapes:
            rows, columns = self.rows(size), self.columns(size)
            self._shapes[size] = {
                layer.output: (_longest(layer.output, rows), _longest(layer.output, columns))
                for layer in self.layers[:-1]
            }
        return self._shapes[size]

    def tasks(self, rows: Spans, columns: Spans, size: TileSize) -> Iterator[TileTask]:
        """Yield the tasks that compute a tile, in order of execution.

        rows, columns: those of each tensor that the tile needs."""
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

    def axis_parts(self, spans: Spans, *, by_columns: bool) -> AxisParts:
        """Return what each task computes of a tile along the rows or the columns.

        spans: the rows or columns of each tensor that the tile needs."""
        return tuple(
            _axis_part(task, spans[layer.output], by_columns=by_columns)
            for layer in self.layers
            for task, _ in layer.tasks
        )

    def kinds(self, size: TileSize) -> Iterator[tuple[AxisParts, AxisParts, int]]:
        """Yield what each task computes of a tile along rows and columns, and how many tiles of
        that kind there are."""
        rows = Counter(self.axis_parts(spans, by_columns=False) for spans in self.rows(size))
        columns = Counter(self.axis_parts(spans, by_columns=True) for spans in self.columns(size))
        for row, number in rows.items():
            for column, times in columns.items():
                yield row, column, number * times

    def _spans(self, most: int, *, by_columns: bool) -> tuple[Spans, ...]:
        """Return the rows or columns of each tensor that each row or column of tiles needs.

        most: the largest number of rows or columns of a tile of the output."""
        if (by_columns, most) not in self._known:
            output = self.tensors[self.output]
            count = output.width if by_columns else output.height
            self._known[by_columns, most] = tuple(
                self._needed(interval, by_columns=by_columns) for interval in intervals(count, most)
            )
        return self._known[by_columns, most]

    def _needed(self, interval: Interval, *, by_columns: bool) -> Spans:
        """Return the rows or columns of each tensor that an interval of the output needs."""
        found = {self.output: interval}
        for layer in reversed(self.layers):
            out = found[layer.output]
            for task, names in layer.tasks:
                read = _reads(task, out, by_columns=by_columns)
                for name, span in zip(names, (read, out), strict=False):
                    known = found.get(name, span)
                    found[name] = min(span[0], known[0]), max(span[1], known[1])
        return found


def _reads(task: Task, out: Interval, *, by_columns: bool) -> Interval:
    """Return what an interval of the output reads, along the rows or the columns."""
    return task.reads_columns(*out) if by_columns else task.reads(*out)


def _axis_part(task: Task, out: Interval, *, by_columns: bool) -> AxisPart:
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


def layer_group(offloaded: Offloaded) -> LayerGroup:
    """Return the group that a composite of several layers computes."""
    if "group" not in offloaded.cache:
        offloaded.cache["group"] = _new_group(offloaded)
    return offloaded.cache["group"]


def _new_group(offloaded: Offloaded) -> LayerGroup:
    layers: list[GroupLayer] = []
    for node in offloaded.composite.nodes:
        every = tasks(Offloaded(node, offloaded.target))
        pairs = ((one.task, tuple(node.inputs[i].name for i in one.inputs)) for one in every)
        layers.append(GroupLayer(node.name, tuple(pairs)))
    return LayerGroup(tuple(layers))
