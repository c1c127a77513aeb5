"""Points: every point of every frontier, run and counted.

    python -m benchmarks.points [FOLDER] [--network NAME] [--core 10] [--stream-input]

Each point of each network of at most 40 parts runs in the NumPy machine, where every tensor must
equal the reference and bytes moved the estimate.  Some points of each, evenly spread from the least
memory to the most, run in C on the simulated Cortex-M4, too: their tensors must be equal, and their
estimated cycles are printed beside the simulated ones.  Exits with 1 where anything differs.

`differ by` is what a point takes more than that of most memory, estimated and simulated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.entry import console, entry, first_line, shown
from benchmarks.figures import MAX_SIMULATED_MACS, TARGET, ZOO
from benchmarks.shared import find_shared
from penstock import api, execution, ladder
from penstock.errors import InternalError, PenstockError
from penstock.ir.tensor import Array
from penstock.pipeline.compilation import Compilation, compile_request, with_point
from penstock.pipeline.placed_point import PlacedPoint
from penstock.simulators.compare import Comparison, compare_sets
from penstock.simulators.graph import run_graph

MOST_PARTS = 40


@dataclass(frozen=True, slots=True)
class Checked:
    """One point: what the machine found, and what the core did where it ran there; `fault`: what
    was counted otherwise than estimated."""

    point: PlacedPoint
    machine: Comparison
    core: Comparison | None = None
    simulated_cycles: int | None = None
    fault: str = ""

    @property
    def right(self) -> bool:
        wrong = self.machine.mismatches + (self.core.mismatches if self.core else 0)
        return not self.fault and not wrong


def main(arguments: Sequence[str]) -> int:
    """Prints a table a network, and totals; 1 where anything differs."""
    wanted = _parser().parse_args(arguments)
    models = ZOO if wanted.folder is None else map(str, find_shared(wanted.folder).networks())
    out = console()
    total: list[Checked] = []
    for model in models:
        if wanted.network and Path(model).stem not in wanted.network:
            continue
        compilation = _compiled(model, wanted.stream_input)
        if compilation is not None:
            checked = list(check(compilation, wanted.core))
            out.print(_table(compilation, checked))
            total += checked
    _print_totals(total)
    return 0 if total and all(point.right for point in total) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.points", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--core", type=int, default=10, metavar="POINTS", help="on the core, each")
    parser.add_argument("--stream-input", action="store_true", help="with the input streamed")
    return parser


def check(compilation: Compilation, on_core: int) -> Iterator[Checked]:
    """Every point of a compilation, least memory first; so many of them on the core, too."""
    inputs = api.drawn_sets(compilation, 1)[0]
    reference = run_graph(compilation.model, inputs)
    chosen = spread(len(compilation.points), on_core)
    for number, point in enumerate(compilation.points):
        of = f"{number + 1} of {len(compilation.points)}"
        print(f"{compilation.model.name}: point {of}", file=sys.stderr)
        try:
            machine = ladder.run_point(compilation, inputs, reference, point)
        except InternalError as error:
            yield Checked(point, Comparison(), fault=first_line(error))
            continue
        if number not in chosen:
            yield Checked(point, machine)
            continue
        core, cycles = _on_core(with_point(compilation, point), inputs, reference)
        yield Checked(point, machine, core, cycles)


def spread(count: int, wanted: int) -> frozenset[int]:
    """So many of the numbers below `count`, evenly spread, ends included.

    >>> sorted(spread(9, 3)), sorted(spread(3, 10)), sorted(spread(5, 0))
    ([0, 4, 8], [0, 1, 2], [])
    """
    return frozenset(np.linspace(0, count - 1, min(count, wanted)).round().astype(int).tolist())


def _compiled(model: str, stream_input: bool) -> Compilation | None:
    """A network with its points; None, with a word why, where it is not taken."""
    try:
        done = compile_request(api.request(model, TARGET, stream_input=stream_input))
    except PenstockError as error:
        print(f"not taken: {model}: {first_line(error)}", file=sys.stderr)
        return None
    if len(done.parts.parts) > MOST_PARTS:
        print(f"not taken: {model}: {len(done.parts.parts)} parts", file=sys.stderr)
        return None
    return done


def _on_core(
    compilation: Compilation, inputs: Mapping[str, Array], reference: Mapping[str, Array]
) -> tuple[Comparison | None, int | None]:
    """All tensors by C on the simulated core, and its cycles; nothing where that takes too long."""
    if compilation.schedule.cost.macs > MAX_SIMULATED_MACS:
        return None, None
    run = execution.run_on_core(compilation, (inputs,))[0]
    tensors = ladder.completed(compilation, run.tensors, inputs)
    unobserved = ladder.in_bands(compilation)
    names = (name for name in ladder.surviving(compilation) if name not in unobserved)
    return compare_sets(names, (tensors,), (reference,)), run.counts.cycles


def _table(compilation: Compilation, checked: Sequence[Checked]) -> Table:
    table = Table(title=f"{compilation.model.name}: {len(checked)} points")
    right = ("arena", "calls", "machine: elements", "differ", "bytes moved", "core: elements")
    for heading in (*right, "differ", "estimated", "simulated", "error", "differ by", "simulated"):
        table.add_column(heading, justify="right")
    last = checked[-1]
    for c in checked:
        cost = c.point.schedule.cost
        moved = sum(size for _, size in (*cost.read_bytes, *cost.written_bytes))
        table.add_row(
            *map(shown, (c.point.height_bytes, cost.calls)),
            *map(shown, (c.machine.elements, c.machine.mismatches)),
            c.fault or f"{moved:,} equal",
            *map(shown, (c.core.elements, c.core.mismatches) if c.core else (None, None)),
            *map(shown, (cost.cycles, c.simulated_cycles)),
            *_errors(c, last),
        )
    return table


def _errors(c: Checked, last: Checked) -> tuple[str, str, str]:
    """The estimate's error; and by how much the point is slower than the last, twice."""
    if c.simulated_cycles is None or last.simulated_cycles is None:
        return "-", "-", "-"
    estimated = c.point.schedule.cost.cycles
    more = estimated / last.point.schedule.cost.cycles - 1
    truly = c.simulated_cycles / last.simulated_cycles - 1
    return f"{estimated / c.simulated_cycles - 1:+.1%}", f"{more:+.3%}", f"{truly:+.3%}"


def _print_totals(total: Sequence[Checked]) -> None:
    elements = sum(c.machine.elements + (c.core.elements if c.core else 0) for c in total)
    on_core = sum(c.core is not None for c in total)
    wrong = sum(not c.right for c in total)
    print(f"{len(total)} points in the machine, {on_core} on the core; {elements:,} elements")
    print(f"{wrong} points differ from the reference or from their estimate of bytes moved")


if __name__ == "__main__":
    entry(main)
