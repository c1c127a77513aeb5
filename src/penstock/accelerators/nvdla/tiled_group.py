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


@dataclass(frozen=True)
class Group:
    """The layers of a group in execution order; the last one computes the output.

    tensors: all tensors that they read or write, by name.
    _known: results of `_spans`, by axis and number of intervals."""

    layers: tuple[GroupLayer, ...]
    tensors: Mapping[str, GroupTensor]
    _known: dict[tuple[bool, int], tuple[Spans, ...]] = field(
        default_factory=dict[tuple[bool, int], tuple[Spans, ...]]
    )

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
        inner = [layer.output for layer in self.layers[:-1]]
        return {
            name: (_longest(name, self.rows(size)), _longest(name, self.columns(size)))
            for name in inner
        }

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
                packs_before += -(-task.out_c // self.atom_bytes)

    def kinds(self, size: TileSize) -> Iterator[tuple[Spans, Spans, int]]:
        """Yield the rows and columns of a tile of each kind, and the number of such tiles.

        Tiles of a kind consist of the same tasks."""
        by_axis = [
            self._counted(self.rows(size), by_columns=False),
            self._counted(self.columns(size), by_columns=True),
        ]
        for rows, number in by_axis[0]:
            for columns, times in by_axis[1]:
                yield rows, columns, number * times

    def _counted(self, every: tuple[Spans, ...], *, by_columns: bool) -> list[tuple[Spans, int]]:
        """Return one of the spans of each kind, and how many of them there are."""
        found: dict[tuple[tuple[int, ...], ...], Spans] = {}
        counts = Counter[tuple[tuple[int, ...], ...]]()
        for spans in every:
            kind = tuple(
                (out[1] - out[0], read[1] - read[0], max(0, pad - out[0] * stride))
                for layer in self.layers
                for task, _ in layer.tasks
                for out in [spans[layer.output]]
                for read, pad, stride in [_reads(task, out, by_columns=by_columns)]
            )
            found.setdefault(kind, spans)
            counts[kind] += 1
        return [(spans, counts[kind]) for kind, spans in found.items()]

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
                read, _, _ = _reads(task, out, by_columns=by_columns)
                for name, span in zip(names, (read, out), strict=False):
                    known = found.get(name, span)
                    found[name] = min(span[0], known[0]), max(span[1], known[1])
        return found


def _reads(task: Task, out: Interval, *, by_columns: bool) -> tuple[Interval, int, int]:
    """Return (what an interval of the output reads, padding before the input, stride), along the
    rows or the columns."""
    if by_columns:
        return task.reads_columns(*out), task.pad_left, task.stride_w
    return task.reads(*out), task.pad_top, task.stride_h


def _longest(name: str, every: tuple[Spans, ...]) -> int:
    return max(spans[name][1] - spans[name][0] for spans in every)


def intervals(count: int, most: int) -> Iterator[Interval]:
    """Yield intervals of nearly equal length that cover [0, count), each of at most `most`.

    >>> list(intervals(7, 3))
    [(0, 2), (2, 4), (4, 7)]
    """
    number = -(-count // most)
    cuts = [k * count // number for k in range(number + 1)]
    yield from zip(cuts, cuts[1:], strict=False)


def group_of(offloaded: Offloaded) -> Group:
    """Return the group that a composite of several layers computes."""
    if "group" not in offloaded.cache:
        offloaded.cache["group"] = _group(offloaded)
    return offloaded.cache["group"]


def _group(offloaded: Offloaded) -> Group:
    layers: list[GroupLayer] = []
    tensors: dict[str, GroupTensor] = {}
    for k, node in enumerate(offloaded.composite.nodes):
        every = tasks(Offloaded(node, offloaded.target))
        found: list[tuple[Task, tuple[str, ...]]] = []
        for one in every:
            task, values = one.task, [node.inputs[i] for i in one.inputs]
            found.append((task, tuple(value.name for value in values)))
            sizes = ((task.in_h, task.in_w), (task.out_h, task.out_w))
            for value, (height, width) in zip(values, sizes, strict=False):
                known = tensors.get(value.name)
                packs = _packs(task, value.type.elements, height, width)
                writer = None if known is None else known.writer
                tensors[value.name] = GroupTensor(height, width, packs, writer, k)
        last = every[-1].task
        packs = _packs(last, node.output.type.elements, last.out_h, last.out_w)
        tensors[node.name] = GroupTensor(last.out_h, last.out_w, packs, k, k)
        layers.append(GroupLayer(node.name, tuple(found)))
    return Group(tuple(layers), tensors)


def _packs(task: Task, elements: int, height: int, width: int) -> int:
    return elements // (height * width * task.hardware.memory_atom_bytes)
