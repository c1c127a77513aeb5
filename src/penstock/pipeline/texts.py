"""Texts of stage results: prints any of them, and parses those whose reader needs the target.

Graph         frontends/text.py            Placement, Schedule   `read_point` below
Parts         `read_assigned_parts` below  Program               program/text/
Frontier      scheduling/text/frontier.py  Bundle                codegen/bundle_text.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.backends.accelerator import Accelerator
from penstock.backends.partition import choose
from penstock.backends.processor_parts import CALLER, single_node_part
from penstock.codegen.bundle import Bundle
from penstock.codegen.bundle_text import print_bundle
from penstock.frontends.text import classes
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Kernel, row_count
from penstock.ir.text.constants import Constants
from penstock.ir.text.labels import Labels
from penstock.ir.text.printer import print_graph
from penstock.memory.placement_text import print_placement, read_placement
from penstock.memory.problem import Placement
from penstock.pipeline.placed_point import PlacedPoint
from penstock.pipeline.request import Request
from penstock.pipeline.stages import PLACE, Outcomes, Placed
from penstock.program.placed_cost import with_placed_costs
from penstock.program.program import Body, Command, Invoke, Program, View
from penstock.program.steps import walk
from penstock.program.text.context import ProgramContext, kernels
from penstock.program.text.printer import print_program
from penstock.scanner import Scanner, name_or_string
from penstock.scheduling.bands.variant import BandSource
from penstock.scheduling.model.bands import Bands
from penstock.scheduling.model.part import PULL, Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import placement_problems
from penstock.scheduling.text.frontier import print_frontier, read_alternative
from penstock.scheduling.text.parts import print_parts, read_parts
from penstock.scheduling.text.schedule_printer import print_schedules
from penstock.scheduling.text.schedule_reader import ScheduleReader


def print_stage(outcomes: Outcomes, *, with_data: bool = False) -> str:
    """Return the text of the last of several results, of which that of stage `read` is the first.

    For placed schedules, this is the text of the selected one.  Long constants and file contents
    are printed as digests.
    with_data: append their contents.
    """
    match outcomes.outcomes[-1].result:
        case Graph() as graph:
            return print_graph(graph, with_data=with_data)
        case Parts() as parts:
            return print_parts(parts, with_data=with_data)
        case Frontier() as frontier:
            return print_frontier(frontier)
        case Placed(chosen=chosen):
            return print_point(chosen)
        case Program() as program:
            context = ProgramContext.of(outcomes.result(PLACE).chosen.schedule)
            return print_program(program, context, with_data=with_data)
        case Bundle() as bundle:
            return print_bundle(bundle, with_data=with_data)
        case result:
            raise TypeError(f"{type(result).__name__} has no text form")


def read_assigned_parts(text: str, request: Request, constants: Constants | None = None) -> Parts:
    """Parse the text of parts.

    request: its target and accelerators provide the kernels.
    constants: contents of constants by digest, for a text that does not contain them.

    Raises ModelError if the text is malformed or names other kernels.
    """
    return read_parts(text, classes(), _Resolver(request), constants)


def print_point(point: PlacedPoint) -> str:
    """Return the text of a placed schedule: the schedule, then a placement per memory region."""
    graph = point.schedule.assigned_parts.graph
    labels = Labels.of(graph)
    head = f"point of {name_or_string(graph.name)}"
    if point.schedule.assigned_parts.alternative:
        head += f" alternative {point.schedule.assigned_parts.alternative}"
    if point.unbudgeted:
        head += f" unbudgeted {', '.join(map(name_or_string, sorted(point.unbudgeted)))}"
    placements = ((point.schedule.memory.default, point.placement), *point.others)
    texts = (print_placement(placement, memory, labels) for memory, placement in placements)
    schedule = print_schedules((point.schedule,), with_stripes=True)
    return f"{head}\n{schedule}{''.join(texts)}"


def read_point(text: str, parts: Parts, bands: BandSource | None = None) -> PlacedPoint:
    """Parse the text of a placed schedule.

    parts: the parts to which the text refers, those of the stage `assign`.
    bands: splits a cascade into bands of columns (see `search.band_source`); None: a
        text with such cascades is rejected.

    Raises ModelError if the text is malformed or contradicts the parts.
    """
    scanner = Scanner(text)
    scanner.skip_newlines()
    scanner.expect_word("point")
    scanner.expect_word("of")
    at = scanner.peek()
    if scanner.name() != parts.graph.name:
        raise scanner.contradiction(f'the parts are of "{parts.graph.name}"', at=at)
    if scanner.accept_word("alternative"):
        parts = read_alternative(scanner, parts)
    unbudgeted: list[str] = []
    if scanner.accept_word("unbudgeted"):
        unbudgeted.append(scanner.name())
        while scanner.accept(","):
            unbudgeted.append(scanner.name())
    scanner.end_statement()
    reader = ScheduleReader(scanner, parts, bands)
    at = scanner.peek()
    schedules = reader.schedules()
    if len(schedules) != 1:
        raise scanner.error(f"a point has one schedule, not {len(schedules)}", at=at)
    placements: list[tuple[str, Placement]] = []
    while not scanner.at_end:
        placements.append(read_placement(scanner, reader.labels.name))
    if not placements:
        raise scanner.unexpected('"placement"')
    (_, first), *others = placements
    point = PlacedPoint(schedules[0], first, tuple(others), frozenset(unbudgeted))
    return _with_placed_bands(scanner, point) if schedules[0].bands else point


def _with_placed_bands(scanner: Scanner, point: PlacedPoint) -> PlacedPoint:
    """Return a point with the costs of its bands at their addresses, which the text leaves out."""
    expanded = ExpandedSchedule(point.schedule)
    blocks = (b.name for _, problem in placement_problems(expanded) for b in problem.buffers)
    missing = [name for name in blocks if name not in point.addresses.offsets]
    if missing:
        raise scanner.contradiction(f'the placement lacks "{missing[0]}"', at=scanner.peek())
    bands = with_placed_costs(expanded, point.addresses).bands
    return replace(point, schedule=replace(point.schedule, bands=bands))


def program_context(
    parts: Parts, accelerators: Sequence[Accelerator], bands: tuple[Bands, ...] = ()
) -> ProgramContext:
    """Return the context for parsing the text of a program.

    parts: the parts of the stage `assign`.
    accelerators: provide the functions of their drivers.
    bands: those of the schedule, `Schedule.bands`.
    """
    functions = (f for a in accelerators for f in (a.codegen.submit, a.codegen.wait))
    found = [Invoke(function, ()) for function in functions if function is not None]
    for part in parts.parts:
        for _, kernel in kernels(part):
            commands = () if kernel.body is None else _body(part, kernel)
            found += (command for command in walk(commands) if isinstance(command, Invoke))
    return ProgramContext(parts, tuple(found), bands)


def _body(part: Part, kernel: Kernel) -> tuple[Command, ...]:
    """Return the commands with which an accelerator computes all rows, on placeholder buffers."""
    body: Body | None = kernel.body
    assert body is not None
    inputs = tuple(View.whole(v.name, v.type, v.name) for v in part.inputs)
    output = View.whole(part.name, part.output.type, part.name)
    tables = {name: name for name, _ in kernel.tables}
    scratch = "scratch" if kernel.scratch_bytes else None
    prefetched = None if kernel.prefetch is None else "prefetched"
    return body(inputs, output, row_count(part.output.type.shape), tables, scratch, prefetched)


@dataclass(frozen=True, slots=True)
class _Resolver:
    """Provides kernels in the same way as the stage `assign`."""

    request: Request

    def graph(self, graph: Graph) -> Graph:
        """Return the graph with the kernels that accelerators select for their composites."""
        for accelerator in self.request.accelerators:
            graph, _ = choose(graph, accelerator, lambda node: 0)
        return graph

    def part(self, node: Node) -> Part:
        """Return the part of a node, on the processor or on the accelerator that claims it."""
        return single_node_part(node, self.request.target.engines[0])

    def stream(self, value: Value) -> Part:
        """Return the part of a network input whose rows the caller supplies."""
        return Part((), CALLER, PULL, value)
