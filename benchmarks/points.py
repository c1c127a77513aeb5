"""Points: every point of every frontier, executed and counted.

    python -m benchmarks.points [FOLDER] [--network NAME ...] [--target NAME ...]
                                [--input memory|streamed] [--core 10] [-o FILE]

Each point of each network of at most 40 parts runs on the reference machine: every tensor must
equal the reference, and the multiply-accumulates, bytes and stripes counted must be those of the
schedule. Some points of each frontier, evenly spread from the least memory to the most, also run
as generated C on the simulated core: tensors must be equal, and estimated cycles within LIMIT of
the counted ones. On a target with several memories for activations only tensors are compared
there, because the simulated core has a single one.

The networks are those of FOLDER, or else the zoo, and small ones whose frontiers have exchanged
images, bands and channel groups (`benchmarks.striped_networks`), each with its input in memory and
streamed. By default, they are compiled for TARGET, and some also for OTHER_TARGETS. -o writes a
line of JSON for each point. Exits with 1 if a point fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.entry import console, entry, first_line, shown
from benchmarks.figures import MAX_SIMULATED_MACS, TARGET, ZOO
from benchmarks.shared import find_shared
from benchmarks.striped_networks import STRIPED
from penstock import api, execution, ladder
from penstock.errors import InternalError, PenstockError
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array
from penstock.ops.partial_product import RequantiseSums
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.compilation import Compilation, compile_graph, stack_error, with_point
from penstock.pipeline.graphs import read, simplify
from penstock.pipeline.placing import PlacedPoint
from penstock.pipeline.request import Request
from penstock.scheduling.model.cost import total
from penstock.scheduling.model.schedule import Schedule
from penstock.simulators.compare import Comparison, compare_sets
from penstock.simulators.graph import initial_states, run_sequences

MOST_PARTS = 40
OTHER_TARGETS = ("cortex-m0plus", "cortex-m55", "two-region")
CAPACITIES = {"two-region": {"tcm": 4096}}
"""Bytes of memories, by target: so small that not all tensors fit."""
ON_OTHER_TARGETS = ("kws_ref_model", "pretrainedResnet_quant", "vww_96_int8")
LIMIT = 0.10
"""Largest error of the estimated cycles, as a fraction of the counted ones."""
INPUTS = ("memory", "streamed")


@dataclass(frozen=True, slots=True)
class Checked:
    """A point of the frontier, and what its runs showed.

    machine, core: the comparison of tensors; `core` is None if the point did not run there.
    counted_cycles: cycles on the simulated core.
    limited: whether the estimate must be within LIMIT of `counted_cycles`.
    fault: the first figure that the machine counted otherwise than stated; empty if there is none.
    """

    point: PlacedPoint
    machine: Comparison
    core: Comparison | None = None
    counted_cycles: int | None = None
    limited: bool = True
    fault: str = ""

    @property
    def error(self) -> float | None:
        """Relative error of the estimated cycles; None if the point did not run on the core."""
        if self.counted_cycles is None:
            return None
        return self.point.schedule.cost.cycles / self.counted_cycles - 1

    @property
    def right(self) -> bool:
        """Whether the point ran exactly and as stated."""
        wrong = self.machine.mismatches + (self.core.mismatches if self.core else 0)
        off = self.limited and self.error is not None and abs(self.error) > LIMIT
        return not (self.fault or wrong or off)


@dataclass(frozen=True, slots=True)
class Record:
    """The figures of a point, as the JSON file has them.

    factor: F, executed multiply-accumulates as a multiple of the necessary ones.
    means: how the point saves memory (see `means`).
    calls, moved_bytes, estimated_cycles: figures of the schedule.
    core_elements: number of elements compared on the simulated core.
    """

    network: str
    target: str
    input: str
    arena_bytes: int
    factor: float
    means: str
    calls: int
    moved_bytes: int
    machine_elements: int
    core_elements: int | None
    estimated_cycles: int
    counted_cycles: int | None
    right: bool


def main(arguments: Sequence[str]) -> int:
    """Prints a table for each frontier, and totals; returns 1 if a point fails."""
    wanted = _parser().parse_args(arguments)
    models = ZOO if wanted.folder is None else map(str, find_shared(wanted.folder).networks())
    out = console()
    found: list[Checked] = []
    records: list[Record] = []
    ways = [wanted.input] if wanted.input else INPUTS
    for name, model, graph in _graphs((*models, *STRIPED), wanted.network or ()):
        others = OTHER_TARGETS if name in ON_OTHER_TARGETS else ()
        for target, way in product(wanted.target or [TARGET, *others], ways):
            capacities = CAPACITIES.get(target, {})
            request = api.request(model, target, memory=capacities, stream_input=way == "streamed")
            compilation = _compiled(name, graph, request)
            if compilation is not None:
                checked = list(check(compilation, wanted.core))
                out.print(_table(f"{name} on {target}, input: {way}", compilation, checked))
                records += [_record(name, target, way, compilation, c) for c in checked]
                found += checked
    _print_totals(found)
    if wanted.output is not None:
        rows = ",\n".join(json.dumps(asdict(record)) for record in records)
        wanted.output.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    return 0 if found and all(point.right for point in found) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.points", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="only this; repeatable")
    parser.add_argument("--target", action="append", metavar="NAME", help="repeatable")
    parser.add_argument("--input", choices=INPUTS, help="only in memory, or only streamed")
    parser.add_argument("--core", type=int, default=10, metavar="POINTS", help="on the core, each")
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", help="JSON file to write")
    return parser


def check(compilation: Compilation, on_core: int) -> Iterator[Checked]:
    """Run every point of a compilation on the machine, least memory first, and some on the core.

    on_core: the number of points that also run on the simulated core.
    """
    inputs = api.drawn_sets(compilation, 1)[0]
    reference = run_sequences(compilation.model, (inputs,), 1)[0]
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
        limited = len(compilation.request.target.arenas) == 1
        yield Checked(point, machine, core, cycles, limited)


def spread(count: int, wanted: int) -> frozenset[int]:
    """So many of the numbers below `count`, evenly spread, ends included.

    >>> sorted(spread(9, 3)), sorted(spread(3, 10)), sorted(spread(5, 0))
    ([0, 4, 8], [0, 1, 2], [])
    """
    return frozenset(np.linspace(0, count - 1, min(count, wanted)).round().astype(int).tolist())


def means(schedule: Schedule) -> str:
    """The means by which a schedule saves memory or cycles, beyond stripes of rows, as a phrase."""
    chains = sum(bands.call_rows is not None for bands in schedule.bands)
    parts = schedule.assigned_parts
    found = [
        _counted(chains, "chain"),
        _counted(len(schedule.bands) - chains, "cascade", " in bands"),
    ]
    if any(isinstance(node.op, RequantiseSums) for node in parts.graph.nodes):
        found.append("channel groups")
    elif parts.alternative:
        found.append("whole reductions" if parts.is_for_speed else "exchanged images")
    return ", ".join(filter(None, found))


def _counted(count: int, name: str, more: str = "") -> str:
    """Return a count with the word for what is counted; empty if there is none."""
    word = name if count == 1 else f"{name}s"
    return f"{count} {word}{more}" if count else ""


def _graphs(models: Sequence[str], wanted: Sequence[str]) -> Iterator[tuple[str, str, Graph]]:
    """Yield (name, model of the request, graph); print why a network is not taken."""
    for model in models:
        name = model if model.startswith("zoo:") or model in STRIPED else Path(model).stem
        if wanted and name not in wanted:
            continue
        try:
            if model in STRIPED:
                yield name, ZOO[0], STRIPED[model]()  # a request names a model that exists
            else:
                yield name, model, read(model)
        except PenstockError as error:
            print(f"not taken: {name}: {first_line(error)}", file=sys.stderr)


def _compiled(name: str, graph: Graph, request: Request) -> Compilation | None:
    """Compile a network; print why and return None if that is not possible, or it is too large."""
    try:
        count = len(assign_engines(simplify(graph), request).parts)
        if count > MOST_PARTS:
            print(f"not taken: {name}: {count} parts", file=sys.stderr)
            return None
        return compile_graph(graph, request)
    except PenstockError as error:
        print(f"not taken: {name}: {first_line(error)}", file=sys.stderr)
        return None


def _on_core(
    compilation: Compilation, inputs: Mapping[str, Array], reference: Mapping[str, Array]
) -> tuple[Comparison | None, int | None]:
    """Return the comparison of all observed tensors on the simulated core, and its cycles; None
    if the target has no core, or the run takes too long."""
    too_long = compilation.schedule.cost.macs > MAX_SIMULATED_MACS
    if too_long or compilation.request.target.core is None:
        return None, None
    run = execution.run_on_core(compilation, (inputs,))[0]
    if (error := stack_error(compilation, run.stack_bytes)) is not None:
        raise error
    known = {**initial_states(compilation.graph), **inputs}
    tensors = ladder.completed(compilation, run.tensors, known)
    found = compare_sets(ladder.surviving(compilation), (tensors,), (reference,))
    return found, run.counts.cycles


def _factor(compilation: Compilation, point: PlacedPoint) -> float:
    macs = compilation.model.macs()
    return point.schedule.cost.nominal_macs / macs if macs else 1.0


def _moved_bytes(point: PlacedPoint) -> int:
    cost = point.schedule.cost
    return total(cost.read_bytes) + total(cost.written_bytes)


def _record(name: str, target: str, way: str, compilation: Compilation, checked: Checked) -> Record:
    point = checked.point
    return Record(
        name,
        target,
        way,
        point.height_bytes,
        round(_factor(compilation, point), 4),
        means(point.schedule),
        point.schedule.cost.calls,
        _moved_bytes(point),
        checked.machine.elements,
        checked.core.elements if checked.core else None,
        point.schedule.cost.cycles,
        checked.counted_cycles,
        checked.right,
    )


def _table(title: str, compilation: Compilation, checked: Sequence[Checked]) -> Table:
    table = Table(title=f"{title}: {len(checked)} points")
    for heading in ("arena", "F", "means", "calls", "bytes moved", "machine: elements", "differ"):
        table.add_column(heading, justify="left" if heading == "means" else "right")
    for heading in ("core: elements", "differ", "estimated", "counted", "error"):
        table.add_column(heading, justify="right")
    for c in checked:
        table.add_row(
            shown(c.point.height_bytes),
            f"{_factor(compilation, c.point):.3f}",
            means(c.point.schedule),
            shown(c.point.schedule.cost.calls),
            c.fault or f"{_moved_bytes(c.point):,} equal",
            *map(shown, (c.machine.elements, c.machine.mismatches)),
            *map(shown, (c.core.elements, c.core.mismatches) if c.core else (None, None)),
            *map(shown, (c.point.schedule.cost.cycles, c.counted_cycles)),
            "-" if c.error is None else f"{c.error:+.1%}" + " WRONG" * (not c.right),
        )
    return table


def _print_totals(found: Sequence[Checked]) -> None:
    elements = sum(c.machine.elements + (c.core.elements if c.core else 0) for c in found)
    on_core = sum(c.core is not None for c in found)
    limited = [c.error for c in found if c.limited and c.error is not None]
    wrong = sum(not c.right for c in found)
    print(f"{len(found)} points on the machine, {on_core} on the core; {elements:,} elements")
    if limited:
        print(f"estimated cycles are off by {min(limited):+.1%} to {max(limited):+.1%}")
    print(
        f"{wrong} points differ from the reference, from their schedule, or by more than the limit"
    )


if __name__ == "__main__":
    entry(main)
