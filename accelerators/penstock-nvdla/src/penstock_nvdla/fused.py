"""fused: kernels that run a group of layers tile by tile (`tiled_group.py`), with the inner tensors
(those between the layers) in the feature buffer.

The strategy compares tiles of several sizes and takes the one of least cost that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import product

from penstock.uma import (
    Array,
    Breakdown,
    Command,
    Composite,
    KernelCall,
    Offloaded,
    Operand,
    PlacedCall,
    TensorRows,
)
from penstock_nvdla.configurations import FEATURE_BUFFER
from penstock_nvdla.dataflow import task_cycles
from penstock_nvdla.task import Task
from penstock_nvdla.tiled_group import (
    AxisPart,
    GroupLayer,
    LayerGroup,
    PartCounts,
    Spans,
    TileSize,
    group_nodes,
    layer_group,
)

PARTS = (1, 2, 3, 4, 6, 8, 12, 16)
"""The numbers of parts into which an axis of the output is divided."""


@dataclass(frozen=True, slots=True)
class TilePlan:
    """The size of the tiles of a group, and where they store the inner tensors.

    offsets: the offset in bytes of each inner tensor in the group's workspace, by name.
    size_bytes: the size of the workspace, a part of the feature buffer that all tiles use."""

    size: TileSize
    offsets: Mapping[str, int]
    size_bytes: int


def tile_plan(group: LayerGroup, size: TileSize, bank_bytes: int) -> TilePlan:
    """Return a plan that assigns the inner tensors of a group to offsets in the workspace.

    A tensor has the same offset in all tiles.  Its space suffices for every tile, and is rounded up
    to whole banks.  Two tensors that are live at the same time (`_live_together`) do not overlap,
    and so share no bank; other tensors may share memory.  Tensors are placed in descending order of
    size, each at the lowest offset where it fits.

    size: the largest number of rows and columns of a tile.
    bank_bytes: the size of a bank of the feature buffer."""
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
    return TilePlan(size, found, most)


def _live_together(group: LayerGroup, one: str, other: str) -> bool:
    """Return whether two tensors between the layers are live at the same time.

    A tensor is live from the layer that computes it to the last layer that reads it."""
    a, b = group.tensors[one], group.tensors[other]
    assert a.writer is not None
    assert b.writer is not None
    return a.writer <= b.last and b.writer <= a.last


def tiled_cycles(
    group: LayerGroup, size: TileSize, inside: frozenset[str] = frozenset()
) -> Breakdown:
    """Return the cycles of a group that runs in tiles.

    inside: the inputs and outputs of the group that are in the feature buffer, by name."""
    return parts_cycles(group, group.row_parts(size), group.column_parts(size), inside)


def parts_cycles(
    group: LayerGroup,
    row_parts: PartCounts,
    column_parts: PartCounts,
    inside: frozenset[str] = frozenset(),
) -> Breakdown:
    """Return the cycles of a group whose tasks run once for each tile.

    row_parts, column_parts: for each task, its heights and its widths, each with the number of rows
        or columns of tiles that have it.  The task runs for each combination of both.
    inside: the inputs and outputs of the group that are in the feature buffer, by name."""
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
    """Return the known results of `_part_cycles` for a task: a dictionary from (rows, columns).

    The first call returns an empty dictionary, which the caller fills; later calls for the same
    task return the same dictionary.  So the task, whose hash is slow, is not part of the keys.

    inside: the tensors in the feature buffer, each named by its field of `LayerTraffic`."""
    del task, inside
    return {}


def _part_cycles(
    task: Task, rows: AxisPart, columns: AxisPart, inside: frozenset[str]
) -> Breakdown:
    """Return the cycles of a part of a task.

    rows, columns: the size of the part along each axis.
    inside: the tensors in the feature buffer, each named by its field of `LayerTraffic`."""
    part = replace(
        task,
        in_h=rows.input,
        in_w=columns.input,
        out_h=rows.output,
        out_w=columns.output,
        pad_top=rows.padding,
        pad_left=columns.padding,
    )
    return task_cycles(part, part.out_h, inside)


def _buffered(
    group: LayerGroup, layer: GroupLayer, inputs: Sequence[str], inside: frozenset[str]
) -> frozenset[str]:
    """Return which tensors of a task of `layer` are in the feature buffer, each named by its field
    of `LayerTraffic`: "features", "second" or "output".

    inputs: the names of the tensors that the task reads.
    inside: the inputs and outputs of the group that are in the feature buffer, by name."""
    names = (*zip(("features", "second"), inputs, strict=False), ("output", layer.output))
    return frozenset(f for f, name in names if name in inside or group.is_inner(name))


@lru_cache(maxsize=1 << 12)
def best_plan(group: LayerGroup, capacity_bytes: int, bank_bytes: int) -> TilePlan | None:
    """Return the plan with the fewest cycles and, among equals, the least memory traffic.

    The result is None if no size of tiles fits.  For each number of columns, only the largest
    number of rows that fits is considered.

    capacity_bytes, bank_bytes: the size of the feature buffer, and of one of its banks."""
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

    count: the number of rows or columns of the outputs.

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
        """The group that the call computes."""
        return layer_group(self.call)

    def commands(self) -> Iterator[Command]:
        """Yield the commands that compute the tile."""
        for one in self.group.tasks(self.rows, self.columns, self.plan.size):
            task, output = one.task, self.group.layers[one.layer].output
            counts = (task.in_h, task.out_h)
            inputs = zip(one.inputs, one.reads, counts, strict=False)
            read = [self._tensor_rows(name, at, 0, count) for name, at, count in inputs]
            result = self._tensor_rows(output, one.out, one.packs_before, task.out_h)
            used = tuple(self.call.table(f"{name} {one.layer}") for name in task.tables)
            issue = self.call.issue(task, read, result, tables=used)
            yield replace(issue, first=0, end=task.out_h)

    def _tensor_rows(self, tensor: str, at: tuple[int, int], packs: int, count: int) -> TensorRows:
        """Return where a task reads or writes rows of a tensor.

        at: the row and the column of the first element that the task accesses.
        packs: the number of the first pack that it accesses.  A pack is a group of channels that
            are stored together.
        count: the number of rows."""
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
        """Return the operand of the call in which `tensor`, an input or output of the group, is
        stored.  An input is an operand itself; all outputs are stored in the call's result."""
        if tensor in self.group.outputs:
            return self.call.result
        names = [value.name for value in self.call.node.inputs]
        return self.call.operands[names.index(tensor)]


def chosen_plan(offloaded: Offloaded) -> TilePlan | None:
    """Return the tiles in which a group runs; None if none fit the feature buffer."""
    if "plan" not in offloaded.cache:
        group, buffer = layer_group(offloaded), offloaded.target.memories[FEATURE_BUFFER]
        bank = buffer.bank_bytes or group.atom_bytes
        found = best_plan(group, buffer.size_bytes // bank * bank, bank)
        offloaded.cache["plan"] = found if group.is_regular else None
    return offloaded.cache["plan"]


def _plan(offloaded: Offloaded) -> TilePlan:
    found = chosen_plan(offloaded)
    assert found is not None
    return found


def workspace_bytes(offloaded: Offloaded) -> int:
    """Return the bytes of the feature buffer in which a group stores its inner tensors."""
    return _plan(offloaded).size_bytes


def cycles(offloaded: Offloaded, rows: int) -> Breakdown:
    """Return the cycles of a group.  A single call computes all of its rows, whatever `rows` is."""
    del rows
    buffered = [memory == FEATURE_BUFFER for memory in offloaded.memory_assignment]
    return _cycles(offloaded, buffered)


def placed_cycles(offloaded: Offloaded, call: PlacedCall) -> Breakdown:
    """Return the cycles of a group, given the memories of its inputs and its output.

    call: the call with the addresses of these tensors."""
    every = (*call.inputs, call.output)
    return _cycles(offloaded, [rows is not None and rows.memory != call.beside for rows in every])


def _cycles(offloaded: Offloaded, buffered: Sequence[bool]) -> Breakdown:
    """Return the cycles of a kernel call, which runs the whole group.

    buffered: which tensors are in the feature buffer: a Boolean for each input, then one for the
        tensor that contains the outputs.  An empty sequence means that no tensor is."""
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
                for _, moved in one.task.layers_with_traffic(0, one.task.out_h):
                    total.update(asdict(moved))
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
