"""Texts of stage results.  Those of graphs (`frontends/open.py`) and of schedules
(`scheduling/text/`) are also read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby

from penstock.codegen.bundle import Bundle, print_bundle
from penstock.ir.graph import Graph
from penstock.ir.text.printer import Labels, print_graph
from penstock.memory.problem import Placement
from penstock.pipeline.placing import PlacedPoint
from penstock.pipeline.stages import PLACE, Outcomes, Placed
from penstock.program.program import Program
from penstock.program.text import ProgramContext, print_program
from penstock.quoting import name_or_string, quoted
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier
from penstock.scheduling.text.printer import print_frontier, print_parts, print_schedules


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


Label = Callable[[str], str]
"""Returns the token of a name."""

_ROWS = re.compile(r"(.+)\[(\d+):(\d+)\]", re.DOTALL)
_BLOCKS_PER_LINE = 8


def print_placement(placement: Placement, memory: str, label: Label = name_or_string) -> str:
    """The text of a placement in one memory.  `label` returns the token of a name."""
    return "".join(f"{line}\n" for line in _lines(placement, memory, label))


def _lines(placement: Placement, memory: str, label: Label) -> Iterator[str]:
    yield (
        f"placement in {name_or_string(memory)}: {placement.height_bytes} bytes, "
        f"bound {placement.bound_bytes}, by {quoted(placement.method)}, nodes {placement.nodes}"
    )
    for (stem, rows), found in groupby(map(_split, placement.offsets), key=lambda b: b[:2]):
        blocks = [text for _, _, text in found]
        step = _BLOCKS_PER_LINE if rows else 1
        for k in range(0, len(blocks), step):
            yield f"{label(stem)} {' '.join(blocks[k : k + step])}"


def _split(block: tuple[str, int]) -> tuple[str, bool, str]:
    """Returns the name of a block without its rows, whether it has rows, and the text of rows and
    offset.

    Rows are those of a suffix "[lower:upper]" whose numbers have no superfluous digits."""
    name, offset = block
    found = _ROWS.fullmatch(name)
    if found and all(str(int(row)) == row for row in found.groups()[1:]):
        return found[1], True, f"[{found[2]}:{found[3]}] {offset}"
    return name, False, str(offset)
