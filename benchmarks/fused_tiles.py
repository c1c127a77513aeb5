"""FusedTiles: groups in tiles and bank groups on NVDLA: cycles and bytes with and without each.

    python -m benchmarks.fused_tiles [FOLDER] [--network NAME] [--config NAME] [--host]
        [--record FILE [--again]]

Each network is compiled for NVDLA `large` with `--partition best`: for fewest cycles
and for fewest bytes of main memory, with groups of whole layers only and with groups in tiles, and
with and without bank groups (`nvdla:banked=True`). Column `in tiles` is the number of groups in
tiles, `columns` of those whose tiles are narrower than the tensor, and `layers` of the layers in
them. Column `stream bytes` is the flash of the command streams, which contain the layers of all
tiles. Column `bound` is a lower bound of what is minimised, for groups of whole layers and in tiles
(`tile_bounds.py`). As in `compiled_partition`, networks also run on the functional model, which
must count the same cycles and bytes, compute the elements of the network and, with bank groups,
refuse a layer that reads and writes a bank. Those of more than MOST_NODES nodes or
MOST_MACS multiply-accumulates only do so if compiled as by default, for fewest cycles with tiles
and without bank groups, and then with `--host` also in C on this machine. Others have a dash.
`--record` is that of `compiled_partition`. Exits with 1 if a run disagrees, or if a figure is below
its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any

from rich.table import Table

from benchmarks.compiled_partition import (
    MOST_NODES,
    Measured,
    compiled,
    measured,
    parse_measured,
    recompiled,
    reference,
    verdict,
)
from benchmarks.entry import console, entry, shown
from benchmarks.graph_groups import short_name
from benchmarks.grouped_networks import CONFIGURATIONS, Job, Selection, selection
from benchmarks.tile_bounds import Bounds, bounds
from benchmarks.tiled_groups import tiled_groups
from penstock.pipeline.compilation import Compilation
from penstock.scheduling.options import BYTES, CYCLES, Options


@dataclass(frozen=True, slots=True)
class Variant:
    """How a network is compiled: what groups minimise, and whether tiles and banks are used."""

    objective: str
    tiles: bool
    banked: bool

    @property
    def case(self) -> str:
        """Of the key of a record."""
        return f"{self.objective}, tiles {self.tiles}, banks {self.banked}"


DEFAULT = Variant(CYCLES, tiles=True, banked=False)
MOST_MACS = 2 * 10**9
"""Of the networks that run in every variant."""
VARIANTS = tuple(Variant(*one) for one in product((CYCLES, BYTES), (False, True), (False, True)))


@dataclass(frozen=True, slots=True)
class Found:
    """A network that is compiled in one way.

    groups, in_columns, layers: of the groups in tiles, their number, that of those whose tiles are
        narrower than the tensor, and that of their layers.
    stream_bytes: the size of all command streams.
    """

    network: str
    variant: Variant
    measured: Measured
    groups: int
    in_columns: int
    layers: int
    bounds: Bounds
    stream_bytes: int

    @property
    def figure(self) -> int:
        """What the groups minimise: the cycles or the bytes."""
        by_bytes = self.variant.objective == BYTES
        return self.measured.main_bytes if by_bytes else self.measured.cycles

    @property
    def bound(self) -> int:
        """The lower bound of `figure`."""
        return self.bounds.main_bytes if self.variant.objective == BYTES else self.bounds.cycles


def main(arguments: Sequence[str]) -> int:
    """Prints the table; 1 where the functional model disagrees."""
    wanted = selection("benchmarks.fused_tiles", __doc__ or "", arguments)
    jobs = (
        Job(model, config, variant.case, partial(compared, model, config, variant, wanted))
        for model in wanted.models
        for config in CONFIGURATIONS
        for variant in VARIANTS
    )
    found = wanted.rows(jobs, parse)
    console().print(table(found))
    faults = [(one, fault) for one in found for fault in one.measured.every_fault]
    faults += [(one, "below its bound") for one in found if one.figure < one.bound]
    for one, fault in faults:
        print(f"{one.network}, {one.variant}: {fault}")
    return 1 if faults or not found else 0


def parse(row: Any) -> Found:
    """A network of a record."""
    return replace(
        Found(**row),
        variant=Variant(**row["variant"]),
        measured=parse_measured(row["measured"]),
        bounds=Bounds(*row["bounds"]),
    )


def compared(model: str, config: str, variant: Variant, wanted: Selection) -> Found:
    """A network on a configuration, compiled in one way.  Raises PenstockError."""
    first = first_compiled(model, config, variant.banked)
    options = Options(partition="best", objective=variant.objective, tiles=variant.tiles)
    done = recompiled(first, options)
    small = len(done.model.nodes) <= MOST_NODES and done.schedule.cost.macs <= MOST_MACS
    default = variant == DEFAULT
    expected = reference(done) if small or default else None
    host_runs = wanted.host and default and not small
    found = measured(variant.objective, done, expected, host=host_runs)
    name = f"{short_name(model)}, {config}"
    streams = sum(buffer.size_bytes for buffer in done.program.buffers if buffer.is_stream)
    return Found(name, variant, found, *groups(done), bounds(done), streams)


@lru_cache(maxsize=2)
def first_compiled(model: str, config: str, banked: bool) -> Compilation:
    """A network layer by layer, to be scheduled in every way."""
    return compiled(model, f"{config},banked={banked}", Options(partition="layer", tiles=False))


def groups(done: Compilation) -> tuple[int, int, int]:
    """The numbers of groups in tiles, of those in tiles of columns, and of the layers in them."""
    every = list(tiled_groups(done))
    in_columns = sum(size.columns < group.size[1] for group, size in every)
    return len(every), in_columns, sum(len(group.layers) for group, _ in every)


def table(found: Sequence[Found]) -> Table:
    """The table of all networks."""
    made = Table(title="groups in tiles and bank groups on NVDLA, with --partition best")
    made.add_column("network")
    for heading in ("fewest", "tiles", "banks", "NVDLA cycles", "main bytes", "bound", "in tiles",
                    "columns", "layers", "stream bytes", "functional model", "C"):  # fmt: skip
        made.add_column(heading, justify="right")
    for k, one in enumerate(found):
        variant = one.variant
        last = k + 1 == len(found) or found[k + 1].network != one.network
        made.add_row(
            one.network,
            variant.objective,
            "with" if variant.tiles else "without",
            "with" if variant.banked else "without",
            shown(one.measured.cycles),
            shown(one.measured.main_bytes),
            shown(one.bound),
            *map(shown, (one.groups, one.in_columns, one.layers, one.stream_bytes)),
            verdict(one.measured.faults),
            verdict(one.measured.host_faults),
            end_section=last,
        )
    return made


if __name__ == "__main__":
    entry(main)
