"""Text of a frontier (Pareto front of schedules): its schedules, then their plans and costs.

    frontier of lenet5
    memory MemoryAssignment(default="sram", constants="flash")
    schedule 2020 bytes 1300369 cycles = p0, p1, p2
    ..
    plan p0: conv1, pool1 stripe 2 scratch 352 cost c0, c1
    plan p1: dense1 cost c2
    ..
    cost c0 = Cost(cycles=651244, calls=14, macs=117600, read_bytes=(("flash", 2436), ..), ..)

A plan lists its parts in execution order.  Clauses that may follow the parts:

    stripe N                              maximum number of rows per call; default: all rows
    nearest                               `Plan.nearest_first` is True (default: False); it defines
                                          the order in which missing rows of inputs are computed
    scratch N                             scratch memory in bytes
    columns N                             the parts run in bands of N columns; stripe and scratch
                                          apply inside each band, and there is only one cost
    chain a, b columns N kept             the parts a and b run as one: each call recomputes the
                                          rows of a that it needs, in bands of N columns; with
                                          `kept`, each band keeps the columns that the next one
                                          needs; there is one clause and one cost for each chain
    tiles                                 an accelerator runs the parts as one, tile by tile; there
                                          is only one cost
    rows x to dtcm overlapped             row copy: the cascade reads the tensor x from a ring in
                                          dtcm; with `overlapped`, the rows for a call are copied
                                          during the previous call (double buffering); the costs of
                                          these copies precede those of the parts
    rows y from dtcm                      row copy: the cascade writes the tensor y in a ring in
                                          dtcm, from which the rows of a call are copied during
                                          the next call; these clauses follow those with `to`, and
                                          the costs of these copies follow those of the parts
    copy w from flash to dtcm 64 bytes early
                                          prefetch of the constant w by the copy engine; it starts
                                          in the previous plan if `early` is given, else in this one
    prefetch conv2 "weights" from flash to sram 64 bytes early
                                          prefetch of the constant table "weights" of the part
                                          conv2 by its accelerator
    cost c0, c1  copying c2  waiting c3   costs of each part, of copies, and of stalls

In the text of a single schedule (`penstock show --stop-after place`), lines such as

    stripes p0 conv1 rolling = (StripeConfig(shape=(1, 2, 24, 6), extent=(1, 24, 24, 6), ..),)

state the stripes in which a plan computes a tensor, and how much of it is kept (`TensorConfig`).
A plan with neither `stripe` nor `columns` has no such lines.  The stripes follow from the plan;
parsing checks them.

A schedule whose optimality is not proved states its `Gaps` before the plans:

    schedule 2104 bytes 1296261 cycles order_gap 0.02 partition_gap 0.25 = p3, p4

The lines `memory`, `copier`, `keep_inputs` and `updating` (costs of updates of states) apply to
all schedules that follow.  A line `alternative N` precedes the schedules of the N-th
alternative of the parts (`Parts.alternatives`), with plans and costs of their own.

Parsing requires the parts of the stage `assign`, since the text only names them.  Plans with
bands or chains also require a source of bands.
"""

from __future__ import annotations

from penstock.scanner import Scanner, name_or_string, quoted
from penstock.scheduling.bands.variant import BandSource
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.text.schedule_printer import print_schedules
from penstock.scheduling.text.schedule_reader import ScheduleReader


def print_frontier(frontier: Frontier) -> str:
    """Return a frontier as text; only the word "frontier" if it has no schedules."""
    if not frontier.schedules:
        return "frontier\n"
    name = name_or_string(frontier.schedules[0].assigned_parts.graph.name)
    groups: dict[int, list[Schedule]] = {}
    for schedule in frontier.schedules:
        groups.setdefault(schedule.assigned_parts.alternative, []).append(schedule)
    texts = (
        (f"alternative {number}\n" if number else "") + print_schedules(schedules)
        for number, schedules in sorted(groups.items())
    )
    return f"frontier of {name}\n{''.join(texts)}"


def read_frontier(text: str, parts: Parts, bands: BandSource | None = None) -> Frontier:
    """Parse the text of a frontier.

    parts: the parts to which the text refers by name (result of the stage `assign`).
    bands: creates the bands (intervals of columns) of a cascade; None: a frontier with cascades in
        bands is rejected.

    Raises ModelError if the text is malformed or contradicts the parts.
    """
    scanner = Scanner(text)
    scanner.skip_newlines()
    scanner.expect_word("frontier")
    if scanner.accept_word("of"):
        at = scanner.peek()
        if scanner.name() != parts.graph.name:
            raise scanner.contradiction(f"the parts are of {quoted(parts.graph.name)}", at=at)
    scanner.end_statement()
    found = [*ScheduleReader(scanner, parts, bands).schedules()]
    while scanner.accept_word("alternative"):
        alternative = _alternative(scanner, parts)
        scanner.end_statement()
        found += ScheduleReader(scanner, alternative, bands).schedules()
        found.sort(key=lambda schedule: schedule.peak_bytes)
    if not scanner.at_end:
        raise scanner.unexpected('"alternative", "cost", "plan" or "schedule"')
    return Frontier(tuple(found))


def _alternative(scanner: Scanner, parts: Parts) -> Parts:
    """Parse the number of an alternative graph and return the parts of this graph.

    parts: the parts of the network's own graph; `parts.alternatives[k]` has number k + 1.

    Raises ModelError if there is no alternative with this number.
    """
    at = scanner.peek()
    number = scanner.integer()
    if not 1 <= number <= len(parts.alternatives):
        count = len(parts.alternatives)
        raise scanner.contradiction(f"the parts have {count} alternatives, not {number}", at=at)
    return parts.alternatives[number - 1]
