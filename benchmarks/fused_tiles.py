"""FusedTiles: groups in tiles and bank groups on NVDLA: cycles and bytes with and without each.

    python -m benchmarks.fused_tiles [FOLDER] [--network NAME] [--config NAME] [--large] [--halos]

Each network is compiled for NVDLA `small` and `large` with `--partition best`: for fewest cycles
and for fewest bytes of main memory, with groups of whole layers only and with groups in tiles, and
with and without bank groups (`nvdla:banked=True`).  Column `in tiles` is the number of groups in
tiles, `columns` of those whose tiles are narrower than the tensor, and `layers` of the layers in
them.  Column `bound` is a lower bound of the cycles, or of the bytes if these are minimised, for
groups of whole layers and in tiles (`tile_bounds.py`).  With `--halos`, a second table estimates
what tiles without bank groups would gain if they kept their halos (`tile_halos.py`).  As in
`compiled_partition`, networks that are small enough also run on the functional model, which must
count the same cycles and bytes, compute the elements of the network and, with bank groups, refuse a
layer that reads and writes a bank; others have a dash.  Exits with 1 if the model disagrees, or if
a figure is below its bound.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rich.table import Table

from benchmarks.compiled_partition import (
    CONFIGURATIONS,
    ENGINE,
    MOST_MACS,
    MOST_NODES,
    Measured,
    measured,
    models,
)
from benchmarks.entry import console, entry, shown
from benchmarks.graph_groups import is_onnx, short_name
from benchmarks.tile_bounds import Bounds, bounds
from benchmarks.tile_halos import Halos, halo_table, halos
from penstock import api
from penstock.accelerators.nvdla.fused import chosen_plan
from penstock.accelerators.nvdla.tiled_group import layer_group
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.scheduling.model.fused_parts import fused_members
from penstock.scheduling.options import BYTES, CYCLES, Options
from penstock.uma import Offloaded


@dataclass(frozen=True, slots=True)
class Variant:
    """How a network is compiled: what groups minimise, and whether tiles and banks are used."""

    objective: str
    tiles: bool
    banked: bool


VARIANTS = tuple(Variant(*one) for one in product((CYCLES, BYTES), (False, True), (False, True)))


@dataclass(frozen=True, slots=True)
class Found:
    """A network that is compiled in one way.

    groups, in_columns, layers: of the groups in tiles, their number, that of those whose tiles are
        narrower than the tensor, and that of their layers.
    """

    network: str
    variant: Variant
    measured: Measured
    groups: int
    in_columns: int
    layers: int
    bounds: Bounds
    halos: Halos | None

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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fused_tiles", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--config", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--large", action="store_true", help="large networks")
    parser.add_argument("--halos", action="store_true", help="estimate the gain of kept halos")
    wanted = parser.parse_args(arguments)
    found: list[Found] = []
    for model in models(wanted.folder, large=wanted.large):
        if not wanted.network or short_name(model) in wanted.network:
            for config in wanted.config or CONFIGURATIONS:
                print(f"compiling {short_name(model)} for {config}", file=sys.stderr)
                found += compiled(model, config, with_halos=wanted.halos)
    console().print(table(found))
    if wanted.halos:
        every = ((one.network, one.variant.objective, one.measured, one.halos) for one in found)
        rows = ((n, o, m.cycles, m.main_bytes, h) for n, o, m, h in every if h is not None)
        console().print(halo_table(list(rows)))
    faults = [(one, fault) for one in found for fault in one.measured.faults or ()]
    faults += [(one, "below its bound") for one in found if one.figure < one.bound]
    for one, fault in faults:
        print(f"{one.network}, {one.variant}: {fault}")
    return 1 if faults or not found else 0


def compiled(model: str, config: str, *, with_halos: bool) -> Iterator[Found]:
    """A network on a configuration, compiled in every way.  Raises PenstockError."""
    for variant in VARIANTS:
        options = Options(partition="best", objective=variant.objective, tiles=variant.tiles)
        accelerator = f"{ENGINE}:config={config},banked={variant.banked}"
        done = compile_request(
            api.request(
                model,
                "host",
                accelerators=(accelerator,),
                options=options,
                optimize="speed",
                assume_int8=is_onnx(model),
            )
        )
        runs = len(done.model.nodes) <= MOST_NODES and done.schedule.cost.macs <= MOST_MACS
        name = f"{short_name(model)}, {config}"
        found = measured(variant.objective, done, config, runs=runs)
        kept = None
        if with_halos and variant.tiles and not variant.banked:
            kept = halos(done, by_bytes=variant.objective == BYTES)
        yield Found(name, variant, found, *groups(done), bounds(done), kept)


def groups(done: Compilation) -> tuple[int, int, int]:
    """The numbers of groups in tiles, of those in tiles of columns, and of the layers in them."""
    count = in_columns = layers = 0
    for part in done.schedule.parts.parts:
        members = fused_members(part)
        if members:
            (accelerator,) = done.request.accelerators
            offloaded = Offloaded(part.nodes[-1], accelerator.target)
            plan, group = chosen_plan(offloaded), layer_group(offloaded)
            assert plan is not None
            count += 1
            in_columns += plan.size.columns < group.size[1]
            layers += len(members)
    return count, in_columns, layers


def table(found: Sequence[Found]) -> Table:
    """The table of all networks."""
    made = Table(title="groups in tiles and bank groups on NVDLA, with --partition best")
    made.add_column("network")
    for heading in ("fewest", "tiles", "banks", "NVDLA cycles", "main bytes", "bound", "in tiles",
                    "columns", "layers", "functional model"):  # fmt: skip
        made.add_column(heading, justify="right")
    for k, one in enumerate(found):
        variant, faults = one.variant, one.measured.faults
        last = k + 1 == len(found) or found[k + 1].network != one.network
        made.add_row(
            one.network,
            variant.objective,
            "with" if variant.tiles else "without",
            "with" if variant.banked else "without",
            shown(one.measured.cycles),
            shown(one.measured.main_bytes),
            shown(one.bound),
            *map(shown, (one.groups, one.in_columns, one.layers)),
            "-" if faults is None else "differs" if faults else "equal",
            end_section=last,
        )
    return made


if __name__ == "__main__":
    entry(main)
