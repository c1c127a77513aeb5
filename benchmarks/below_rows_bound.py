"""Lower bounds of the memory that recomputation allows, beside the least point of the compiler.

    python -m benchmarks.below_rows_bound [FOLDER] [--network NAME ...] [--limit F]

The plan space, with streamed input:

- the execution order of the search is divided into cascades;
- a cascade runs row by row, in stripes of 1, 2, 4, 8 or 16 rows per call, with its inputs
  requested in either order of their depth;
- or it runs in bands of columns of any width, in which input and output are whole;
- or chains recompute any set of its intermediate tensors: each call of a chain computes 1, 2 or 4
  rows, in bands of columns of any width, and what it needs of these tensors;
- recomputation is limited for each cascade by F of the network.

Memory is live bytes; no arena is smaller.  Networks with branches and up to 20 layers are
enumerated: every plan is simulated call by call (`plan_enumeration.py`).  For the others, a bound
of all sets is computed along the longest path (`chain_bound.py`).  Both are below the least plan
where they ignore columns that bands compute twice, and the scratch of kernels.  Channels are not
grouped.

Exits with 1 if a bound exceeds the point of the compiler, which would be a mistake.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path as FilePath

from rich.table import Table

from benchmarks.below_rows import AIMS, result
from benchmarks.chain_bound import Path
from benchmarks.entry import console, entry
from benchmarks.plan_enumeration import Enumeration
from benchmarks.plan_layers import COLUMNS, NOTHING, ROWS, Layer, layers, reads
from benchmarks.shared import find_shared
from penstock.scheduling.model.parts import Parts

MOST_ENUMERATED = 20
"""Number of layers up to which a network with branches is enumerated."""


def longest_path(every: Sequence[Layer]) -> list[int]:
    """The layers on the longest path to the last one."""
    length, before = [0] * len(every), [-1] * len(every)
    for k, layer in enumerate(every):
        for s in layer.inputs:
            if length[s] + 1 > length[k]:
                length[k], before[k] = length[s] + 1, s
    path = [len(every) - 1]
    while before[path[-1]] >= 0:
        path.append(before[path[-1]])
    return path[::-1]


def path_bound(parts: Parts, most_macs: float, ceiling_bytes: int) -> int:
    """Bound of the layers on the longest path; at most `ceiling_bytes`."""
    every = layers(parts)
    chosen = [every[k] for k in longest_path(every)]
    rows, columns = [NOTHING], [NOTHING]
    for source, layer in pairwise(chosen):
        rows.append(reads(layer, source, ROWS, parts.owners))
        joins = layer.joins and source.is_image
        columns.append(reads(layer, source, COLUMNS, parts.owners) if joins else NOTHING)
    return Path(chosen, rows, columns, most_macs, ceiling_bytes).least_bytes()[0]


def enumeration(parts: Parts, most_macs: float, ceiling_bytes: int) -> Enumeration:
    """All plans of a network in the order of its graph."""
    every = layers(parts)
    edges = [(k, s) for k, layer in enumerate(every) for s in layer.inputs]
    rows = {(k, s): reads(every[k], every[s], ROWS, parts.owners) for k, s in edges}
    columns = {
        (k, s): reads(every[k], every[s], COLUMNS, parts.owners)
        for k, s in edges
        if every[k].joins and every[s].is_image
    }
    owners = {parts.owners[value.name] for value in parts.graph.outputs}
    outputs = frozenset(k for k, layer in enumerate(every) if layer.part.name in owners)
    return Enumeration(every, rows, columns, outputs, most_macs, ceiling_bytes)


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 if a bound exceeds a point."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.below_rows_bound",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", nargs="?", type=FilePath, help="folder of models")
    parser.add_argument("--network", action="append", help="only this network; repeatable")
    parser.add_argument("--limit", type=float, default=1.5, help="largest F")
    given = parser.parse_args(arguments)
    table = Table(title=f"live bytes with streamed input and F up to {given.limit}")
    table.add_column("network")
    for heading in ("bound", "live", "gap", "placed", "aim", "plans"):
        table.add_column(heading, justify="right")
    wrong = False
    for model in find_shared(given.folder).named(given.network or list(AIMS)):
        found = result(model, given.limit, stream_input=True)
        schedule = min((point.schedule for point in found.done.points), key=lambda s: s.peak_bytes)
        parts, live = schedule.assigned_parts, schedule.peak_bytes
        most_macs = (given.limit - 1.0) * found.done.model.macs()
        plans = ""
        if len(parts.parts) <= MOST_ENUMERATED:
            bound, count = enumeration(parts, most_macs, live + 1).least_bytes()
            plans = f"{count:,}"
        else:
            bound = path_bound(parts, most_macs, live + 1)
        wrong |= bound > live
        aim = f"{AIMS[model.stem]:,}" if model.stem in AIMS else ""
        sizes = (f"{bound:,}", f"{live:,}", f"{live / bound - 1:.1%}")
        table.add_row(model.stem, *sizes, f"{found.least.height_bytes:,}", aim, plans)
    console().print(table)
    return int(wrong)


if __name__ == "__main__":
    entry(main)
