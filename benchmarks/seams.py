"""seams: hashes of what passes between the stages of the compiler, for every frontier point.

    python -m benchmarks.seams --save FILE [--only MODEL,..] [--streamed]
    python -m benchmarks.seams --against FILE [--only MODEL,..] [--streamed]

A restructuring changes one seam and must leave those behind it as they are.  For each point of each
case of `benchmarks.unchanged`, the seams are, from the search to the files:

    calls       parts and rows of every call, in order
    live        live range of every row
    blocks      what is placed in each memory: size, alignment, live range, fixed distances
    unrolled    every call of the program, with the address of each row that it accesses
    c           the C files, without those of drivers, and without the commit of penstock

`--against` names, for each point that differs, the first seam that does, and exits with 1.  Points
are compared in the order of the frontier.  `--streamed` adds the networks with streamed inputs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.entry import entry
from benchmarks.shared import Shared, find_shared
from benchmarks.unchanged import Case, comparing_parser, selected
from penstock import api
from penstock.ir.tensor import rows_region
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.emission import lower_point, write
from penstock.pipeline.placing import PlacedPoint
from penstock.program.expr import evaluate
from penstock.program.program import Buffer, Call, Program, View
from penstock.program.steps import computed_rows, unrolled_calls
from penstock.revision import identity
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, placement_problems
from penstock.simulators.memories import ConcreteOperand

SEAMS = ("calls", "live", "blocks", "unrolled", "c")
"""In order from the search to the files."""
Point = Mapping[str, str]
"""A hash for each seam, and the figures that a user sees."""


def main(arguments: Sequence[str]) -> int:
    """Records or compares; returns 1 if a point differs."""
    parser = comparing_parser("seams", __doc__ or "")
    parser.add_argument("--streamed", action="store_true", help="also with streamed inputs")
    wanted = parser.parse_args(arguments)
    shared = find_shared(wanted.models)
    inputs = (False, True) if wanted.streamed else (False,)
    every = [(case, streamed) for case in selected(wanted.only) for streamed in inputs]
    if wanted.save:
        found = {_key(*each): points(*each, shared) for each in every}
        wanted.save.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        return 0
    recorded = json.loads(wanted.against.read_text("utf-8"))
    differing = 0
    for each in every:
        for number, difference in differences(recorded[_key(*each)], points(*each, shared)):
            print(f"{_key(*each)}, point {number}: {difference}", flush=True)
            differing += 1
    print(f"{len(every)} cases, {differing} points differ")
    return int(differing > 0)


def _key(case: Case, streamed: bool) -> str:
    return f"{case.key}, input streamed" if streamed else case.key


def points(case: Case, streamed: bool, shared: Shared) -> list[Point]:
    """The hashes of every point of a case; none if the compiler refuses it."""
    print(_key(case, streamed), file=sys.stderr)
    (path,) = shared.named([case.model])
    accelerators = (case.accelerator,) if case.accelerator else ()
    done = api.compile(
        path, case.target, accelerators=accelerators, stream_input=streamed
    ).compilation
    return [hashes(done, point) for point in done.points]


def differences(before: Sequence[Point], now: Sequence[Point]) -> Iterator[tuple[int, str]]:
    """The number of each point that differs, and its first seam that does."""
    if len(before) != len(now):
        yield min(len(before), len(now)), f"{len(now)} points, were {len(before)}"
    for number, (old, new) in enumerate(zip(before, now, strict=False)):
        seam = next((name for name in SEAMS if old[name] != new[name]), None)
        if old != new:
            yield number, f"{seam}; {old['figures']} -> {new['figures']}"


def hashes(done: Compilation, point: PlacedPoint) -> Point:
    """The hashes of a point."""
    expanded = ExpandedSchedule(point.schedule)
    program = lower_point(point, done.request.accelerators)
    files, own = write(program, done.request).files, identity().encode()
    ranges = expanded.live_ranges
    return {
        "calls": _hash(cascade.calls.tolist() for cascade in expanded.cascades),
        "live": _hash((ranges.born.tolist(), ranges.dead.tolist())),
        "blocks": _hash(placement_problems(expanded)),
        "unrolled": _hash(_accesses(program)),
        "c": _hash((name, content.replace(own, b"")) for name, content in files),
        "figures": f"{point.schedule.peak_bytes} live, {point.height_bytes} placed, "
        f"{point.schedule.cost.cycles:.0f} cycles",
    }


def _hash(items: Any) -> str:
    found = hashlib.sha256()
    for item in items:
        found.update(repr(item).encode())
    return found.hexdigest()[:16]


def _accesses(program: Program) -> Iterator[Any]:
    """Every call as the rows that it computes and the addresses of the rows that it accesses."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    for call, variables in unrolled_calls(program.run, lambda call: call):
        out = rows_region(call.output.type.shape, *computed_rows(call, variables))
        yield _kind(call), out, call.scratch
        for view in (*call.inputs, call.output):
            operand = ConcreteOperand.of(view, out, variables)
            yield _addresses(operand.view, buffers[view.buffer])


def _kind(call: Call) -> tuple[str, str, str]:
    return call.op.kind, call.engine, call.origin


def _addresses(view: View, buffer: Buffer) -> tuple[str, str, list[int]]:
    """The memory of a view, its tensor, and the address of each of its rows.  The linker chooses
    the addresses of constants."""
    if buffer.data is not None:
        return buffer.memory, view.tensor, []
    begin = buffer.address + evaluate(view.offset, {})
    rows = range(evaluate(view.lower, {}), evaluate(view.upper, {}))
    return buffer.memory, view.tensor, [begin + view.rows.offset(row) for row in rows]


if __name__ == "__main__":
    entry(main)
