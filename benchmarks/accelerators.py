"""Accelerators: offloaded work, correctness and memory of networks on an accelerator.

    python -m benchmarks.accelerators FOLDER [--accelerator smv] [--target cortex-m4] [MODEL ...]

FOLDER holds models and their goldens; MODEL is a file name or a zoo network. Shares are shares of
the multiply-accumulates of the network. SRAM is that of activations, with every layer whole and at
the least point of the frontier with the same work. Exits with 1 if an element differs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.shared import Shared, find_shared
from penstock import api
from penstock.ir.tensor import Region
from penstock.ladder import run_point
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph

MODELS = (
    "pretrainedResnet_quant",
    "vww_96_int8",
    "kws_ref_model",
    "zoo:lenet5",
    "zoo:vgg16:alpha=0.25,resolution=32,classes=10",
)
HEADER = ("network", "share of MACs", "mismatches", "whole layers", "cascades", "ratio", "least")


@dataclass(frozen=True, slots=True)
class Line:
    """A network's row of the table, and the total number of mismatches."""

    cells: tuple[str, ...]
    mismatches: int


def main(arguments: Sequence[str]) -> int:
    """Prints a table with a row for each network."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accelerators", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of models and goldens")
    parser.add_argument("names", nargs="*", metavar="MODEL", default=MODELS)
    parser.add_argument("--accelerator", default="smv", help="NAME[:attr=value,...]")
    parser.add_argument("--target", default="cortex-m4")
    wanted = parser.parse_args(arguments)
    shared, out = find_shared(wanted.folder), console()
    table = Table(*HEADER, title=f"{wanted.accelerator} beside {wanted.target}")
    wrong = 0
    for name in wanted.names:
        line = measured(name, shared, wanted.accelerator, wanted.target)
        table.add_row(*line.cells)
        wrong += line.mismatches
    out.print(table)
    return 1 if wrong else 0


def measured(name: str, shared: Shared, accelerator: str, target: str) -> Line:
    """Verifies a network against its goldens, or with random inputs, and measures its memory."""
    zoo = name.startswith("zoo:")
    model = name if zoo else str(shared.named([name])[0])
    goldens = () if zoo else shared.goldens(Path(model))
    request = api.request(model, target, accelerators=[accelerator])
    done = compile_request(request)
    whole = compile_request(replace(request, options=Options(max_parts=1))).points[-1]
    least = done.points[0]
    rungs = [r for g in goldens or (None,) for r in api.verify(request, goldens=g).rungs]
    found: dict[str, int] = {}
    for rung in rungs:
        if rung.mismatches is not None:
            found[rung.step] = found.get(rung.step, 0) + rung.mismatches
    (inputs,) = api.drawn_sets(done, 1)
    at_least = run_point(done, inputs, run_graph(done.model, inputs), least).mismatches
    equal = least.schedule.cost.nominal_macs == whole.schedule.cost.nominal_macs
    cells = (
        Path(name).name,
        ", ".join(shares(done)),
        " ".join(f"{step} {count}" for step, count in found.items()),
        f"{whole.height_bytes:,}",
        f"{least.height_bytes:,}",
        f"{least.height_bytes / whole.height_bytes:.2f}" + ("" if equal else " (more MACs)"),
        f"{at_least} mismatches",
    )
    return Line(cells, sum(found.values()) + at_least)


def shares(done: Compilation) -> Iterator[str]:
    """Share of the multiply-accumulates and number of nodes, by engine."""
    macs: dict[str, list[int]] = {}
    for part in done.parts.parts:
        every = (n.op.work(n.site, Region.whole(n.output.type.shape)).macs for n in part.nodes)
        macs.setdefault(part.engine, []).append(sum(every))
    total = sum(map(sum, macs.values())) or 1
    for engine, some in sorted(macs.items(), key=lambda item: -sum(item[1])):
        yield f"{engine} {sum(some) / total:.1%} in {len(some)}"


if __name__ == "__main__":
    entry(main)
