"""fused: kernels that run a group of layers tile by tile (`tiled_group.py`), with the tensors
between the layers in the feature buffer.

The strategy compares tiles of several sizes and takes the one of least cost that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from penstock.accelerators.nvdla.configurations import FEATURE_BUFFER
from penstock.accelerators.nvdla.dataflow import task_cycles
from penstock.accelerators.nvdla.tiled_group import Group, Spans, TileSize, TileTask, group_of
from penstock.uma import (
    Array,
    Breakdown,
    Command,
    Composite,
    KernelCall,
    Offloaded,
    PlacedCall,
    TensorRows,
)

MOST_PARTS = 16
"""The largest number of parts into which an axis of the output is divided."""


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Tiles of a size, and where they store the inner tensors.

    offsets: of each inner tensor in the memory of tiles, in bytes, by name.
    size_bytes: the bytes of this memory."""

    size: TileSize
    offsets: Mapping[str, int]
    size_bytes: int


def tile_plan(group: Group, size: TileSize, bank_bytes: int) -> TilePlan:
    """Return the plan of tiles of a size.

    An inner tensor has the same memory in all tiles.  Tensors that are live at the same time do not
    share a bank of `bank_bytes` bytes.  Larger ones are placed first, each at the lowest offset
    where it fits."""
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


def _live_together(group: Group, one: str, other: str) -> bool:
    """Return whether two inner tensors are live at the same time.

    A tensor is live from the layer that computes it to the last one that reads it."""
    a, b = group.tensors[one], group.tensors[other]
    assert a.writer is not None and b.writer is not None
    return a.writer <= b.last and b.writer <= a.last


def tiled_cycles(group: Group, size: TileSize, inside: frozenset[str] = frozenset()) -> Breakdown:
    """Return the cycles of a group that runs in tiles.

    inside: the inputs, and the output, of the group that are in the feature buffer, by name."""
    cycles, by_resource = 0.0, dict[str, float]()
    first: Breakdown | None = None
    for rows, columns, count in group.kinds(size):
        for one in group.tasks(rows, columns, size):
            found = task_cycles(one.task, one.task.out_h, _buffered(group, one, inside))
            first = first or found
            cycles += count * found.cycles
            for name, busy in found.by_resource.items():
                by_resource[name] = by_resource.get(name, 0.0) + count * busy
    assert first is not None
    return replace(first, cycles=cycles, by_resource=by_resource)


def _buffered(group: Group, one: TileTask, inside: frozenset[str]) -> frozenset[str]:
    """Return which tensors of a task are in the feature buffer, as fields of `LayerTraffic`."""
    read = zip(("features", "second"), one.inputs, strict=False)
    names = (*read, ("output", group.layers[one.layer].output))
    return frozenset(f for f, name in names if name in inside or group.is_inner(name))


def sizes(group: Group) -> Iterator[TileSize]:
    """Yield the sizes of tiles to compare, for each number of columns from the largest one."""
    output = group.tensors[group.output]
    for columns in _shares(output.width):
        for rows in _shares(output.height):
            yield TileSize(rows, columns)


def _shares(count: int) -> Sequence[int]:
    """Return the lengths into which an axis is divided, the whole axis first."""
    return sorted({-(-count // n) for n in range(1, min(count, MOST_PARTS) + 1)}, reverse=True)


def best_plan(group: Group, capacity_bytes: int, bank_bytes: int) -> TilePlan | None:
    """Return the plan of tiles that takes the fewest cycles and, of these, moves the fewest bytes.

    For each number of columns, only the largest number of rows that fits is considered.  None if
    no size fits."""
    found: list[tuple[float, float, TilePlan]] = []
    columns_done = 0
    for size in sizes(group):
        if size.columns == columns_done:
            continue
        plan = tile_plan(group, size, bank_bytes)
        if plan.size_bytes <= capacity_bytes:
            columns_done = size.columns
            cost = tiled_cycles(group, size)
            found.append((cost.cycles, cost.by_resource["memory"], plan))
    return min(found, key=lambda one: one[:2])[2] if found else None


def tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """Return the tables of all layers of a group, each named after the number of its layer."""
    found: dict[str, Array] = {}
    for k, node in enumerate(offloaded.composite.nodes):
        assert isinstance(node.op, Composite) and node.op.chosen is not None
        found |= {f"{name} {k}": table.array for name, table in node.op.chosen.tables}
    return found


def tile_commands(call: KernelCall, plan: TilePlan) -> Sequence[Command]:
    """Return the commands that run a group tile by tile."""
    group = group_of(call)
    inputs = {value.name: k for k, value in enumerate(call.node.inputs)}
    shapes = group.tile_shapes(plan.size)

    def rows_of(name: str, spans: tuple[Spans, Spans], at: tuple[int, int], packs: int, n: int):
        """Return `n` rows of a tensor from the point `at` on, beginning with a pack."""
        y, x = at
        if group.is_inner(name):
            y, x = y - spans[0][name][0], x - spans[1][name][0]
            width = shapes[name][1]
            view = call.result.view
            base = call.scratch.offset
            buffer, offset = call.scratch.buffer, plan.offsets[name]
            assert isinstance(base, int)
            offset += base
        else:
            operand = call.result if name == group.output else call.operands[inputs[name]]
            view, width = operand.view, group.tensors[name].width
            buffer, offset = view.buffer, view.offset
            assert isinstance(offset, int)
        pitch = group.tensors[name].packs * width * group.atom_bytes
        offset += y * pitch + (packs * width + x) * group.atom_bytes
        rows = replace(view.rows, pitch=pitch, ring=n, table=None)
        return TensorRows(buffer, rows, 0, n, offset)

    found: list[Command] = []
    for rows in group.rows(plan.size):
        for columns in group.columns(plan.size):
            spans = rows, columns
            for one in group.tasks(rows, columns, plan.size):
                task, output = one.task, group.layers[one.layer].output
                counts = (task.in_h, task.out_h)
                read = [
                    rows_of(name, spans, at, 0, n)
                    for name, at, n in zip(one.inputs, one.reads, counts, strict=False)
                ]
                result = rows_of(output, spans, one.out, one.packs_before, task.out_h)
                names = ("weights", "post") if task.post.requantise else ()
                used = tuple(call.table(f"{name} {one.layer}") for name in names)
                issue = call.issue(task, read, result, tables=used)
                found.append(replace(issue, first=0, end=task.out_h))
    return found

def chosen_plan(offloaded: Offloaded) -> TilePlan | None:
    """Return the tiles in which a group runs; None if none fit the feature buffer.

    The attribute "tile" of the group, (rows, columns), selects their size."""
    if "plan" not in offloaded.cache:
        group, capacity = group_of(offloaded), offloaded.target.memories[FEATURE_BUFFER].size_bytes
        tile = offloaded.attrs.get("tile")
        if tile is None:
            found = best_plan(group, capacity, group.atom_bytes)
        else:
            rows, columns = tile
            found = tile_plan(group, TileSize(rows, columns), group.atom_bytes)
            found = found if found.size_bytes <= capacity else None
        offloaded.cache["plan"] = found
    return offloaded.cache["plan"]


def _plan(offloaded: Offloaded) -> TilePlan:
    found = chosen_plan(offloaded)
    assert found is not None
    return found


def workspace_bytes(offloaded: Offloaded) -> int:
    """Return the bytes of the feature buffer in which a group stores its inner tensors."""
    return _plan(offloaded).size_bytes


def cycles(offloaded: Offloaded, rows: int) -> Breakdown:
    """Return the cycles of a group, which a single call computes."""
    del rows
    memories, values = offloaded.memory_assignment, (*offloaded.node.inputs, offloaded.node.output)
    pairs = zip(values, memories, strict=False)
    inside = frozenset(value.name for value, memory in pairs if memory == FEATURE_BUFFER)
    return tiled_cycles(group_of(offloaded), _plan(offloaded).size, inside)


def placed_cycles(offloaded: Offloaded, call: PlacedCall) -> Breakdown:
    """Return the cycles of a group whose inputs and output have addresses."""
    pairs = zip(offloaded.node.inputs, call.inputs, strict=True)
    every = (*pairs, (offloaded.node.output, call.output))
    inside = frozenset(
        value.name for value, rows in every if rows is not None and rows.memory != call.beside
    )
    return tiled_cycles(group_of(offloaded), _plan(offloaded).size, inside)


def traffic(offloaded: Offloaded, first: int, end: int) -> Mapping[str, int]:
    """Return the bytes that a group transfers, by field of `LayerTraffic`."""
    del first, end
    group, total = group_of(offloaded), Counter[str]()
    size = _plan(offloaded).size
    for rows, columns, count in group.kinds(size):
        for one in group.tasks(rows, columns, size):
            for _, moved in one.task.layers_with_traffic(0, one.task.out_h):
                total.update({name: count * n for name, n in asdict(moved).items()})
    return total


def compute(call: KernelCall) -> Sequence[Command]:
    """Return the commands of a group, which run it tile by tile."""
    return tile_commands(call, _plan(call))
