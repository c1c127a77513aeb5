"""An estimate of what groups in tiles would gain if tiles kept their halos for the next tile.

Two neighbouring tiles both compute the halo between them.  If it were kept, each layer would
compute every element once.  The estimate is optimistic: moving the kept rows and columns takes no
cycles, and of the memory for them, only what one tile leaves for the next is counted, not what a
row of tiles leaves for the next row.  Weights are still read again in each tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from rich.table import Table

from benchmarks.entry import shown
from benchmarks.tiled_groups import tiled_groups
from penstock.pipeline.compilation import Compilation
from penstock_nvdla.configurations import FEATURE_BUFFER
from penstock_nvdla.fused import axis_shares, parts_cycles, tiled_cycles
from penstock_nvdla.tiled_group import (
    Interval,
    LayerGroup,
    PartCounts,
    Spans,
    TileSize,
    axis_part,
)


@dataclass(frozen=True, slots=True)
class Halos:
    """Cycles and bytes of all groups in tiles of a network.

    chosen: as compiled.
    same: with the same tiles, if halos were kept, whether they fit or not.
    best: with the tiles of the same or another size that fit with the kept halos and are best.
    """

    chosen: tuple[int, int]
    same: tuple[int, int]
    best: tuple[int, int]


def halos(done: Compilation, *, by_bytes: bool) -> Halos:
    """The cycles and bytes of the groups in tiles of a compiled network.

    by_bytes: whether bytes, not cycles, determine which tiles are best."""
    (accelerator,) = done.request.accelerators
    capacity = accelerator.target.memories[FEATURE_BUFFER].size_bytes
    totals = [Counter[int](), Counter[int](), Counter[int]()]
    for group, used in tiled_groups(done):
        chosen = tiled_cycles(group, used)
        same = kept_cost(group, used)
        sizes = map(TileSize, *zip(*product(*map(axis_shares, group.size)), strict=True))
        fitting = (size for size in sizes if kept_bytes(group, size) <= capacity)
        costs = [kept_cost(group, size) for size in fitting]
        own = round(chosen.cycles), round(chosen.memory_bytes)
        costs.append(own)
        best = min(costs, key=lambda cost: cost[::-1] if by_bytes else cost)
        for total, cost in zip(totals, (own, same, best), strict=True):
            total.update({0: cost[0], 1: cost[1]})
    return Halos(*((total[0], total[1]) for total in totals))


def kept_cost(group: LayerGroup, size: TileSize) -> tuple[int, int]:
    """The cycles and bytes of a group if tiles of a size kept their halos."""
    rows = kept_parts(group, group.rows(size), by_columns=False)
    columns = kept_parts(group, group.columns(size), by_columns=True)
    found = parts_cycles(group, rows, columns)
    return round(found.cycles), round(found.memory_bytes)


def kept_parts(group: LayerGroup, every: Sequence[Spans], *, by_columns: bool) -> PartCounts:
    """What each task computes along an axis if it computes every row or column once."""
    return tuple(
        Counter(
            axis_part(task, interval, by_columns=by_columns)
            for interval in new_intervals(every, layer.output)
        )
        for layer in group.layers
        for task, _ in layer.tasks
    )


def new_intervals(every: Sequence[Spans], tensor: str) -> Iterator[Interval]:
    """For each tile along an axis, the rows or columns of a tensor that no tile before needed."""
    done = every[0][tensor][0]
    for spans in every:
        lower, upper = spans[tensor]
        if upper > max(lower, done):
            yield max(lower, done), upper
            done = upper


def kept_bytes(group: LayerGroup, size: TileSize) -> int:
    """The least memory of tiles that keep their halos.

    The halo of every tensor is live during the whole tile; what a tile adds to it is live from the
    layer that computes it to the last layer that reads it."""
    rows, columns = group.rows(size), group.columns(size)
    halo, added = 0, [0] * len(group.layers)
    for name, (height, width) in group.tile_shapes(size).items():
        tensor = group.tensors[name]
        point = tensor.packs * group.atom_bytes
        new = [
            max((end - begin for begin, end in new_intervals(every, name)), default=0)
            for every in (rows, columns)
        ]
        halo += (height * width - new[0] * new[1]) * point * (len(rows) * len(columns) > 1)
        assert tensor.writer is not None
        for layer in range(tensor.writer, tensor.last + 1):
            added[layer] += new[0] * new[1] * point
    return halo + max(added)


def halo_table(found: Sequence[tuple[str, str, int, int, Halos]]) -> Table:
    """The table of all networks: (network, objective, cycles, bytes, halos) of each."""
    made = Table(title="groups in tiles, halos computed twice and kept (optimistic)")
    made.add_column("network")
    for heading in ("fewest", "unit", "network", "its tiles", "kept, same tiles", "of the network",
                    "kept, best tiles", "of the network"):  # fmt: skip
        made.add_column(heading, justify="right")
    for name, objective, *totals, one in found:
        for k, unit in enumerate(("cycles", "bytes")):
            own, total = one.chosen[k], totals[k]
            gains = [f"{(cost[k] - own) / total:+.2%}" for cost in (one.same, one.best)]
            made.add_row(
                name if not k else "",
                objective if not k else "",
                unit,
                shown(total),
                shown(own),
                shown(one.same[k]),
                gains[0],
                shown(one.best[k]),
                gains[1],
                end_section=bool(k),
            )
    return made
