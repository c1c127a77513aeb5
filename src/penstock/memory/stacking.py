"""Stacking: an exact search that decides whether boxes can be placed under a ceiling.

If a placement exists, so does a *settled* one, in which no single box can be lowered (take the
placement with the least sum of offsets).  Read from low to high, each box of it lies directly on a
box read before: on its *floor*.  So it suffices to choose which box comes next; its offset follows.

    time ->   0   1   2   3          next may be   c   (floor 0)
      2 |           +---+                     or   d   (floor 1)
      1 |   +---+   | d |              not d before c, if the top of c is not above d's floor:
      0 |   | a |  [c]--+              c would then fit below d, where it has to be in a
        +---+---+---+---+              settled placement
        sections: 0   1   2

A *section* is a tick at which the live range of some box begins; only sections matter.

Source of the idea: Moffitt, MiniMalloc, ASPLOS 2023.  This search is written from the argument
above and extended to alignment.  It reduces the search as follows, without changing a result:

- Boxes are chosen in ascending order of offset: a box with a lower floor must wait.
- No box lies above another one that would still fit below it.
- It backtracks where the remaining bytes of a section exceed the remaining space.
- Groups of boxes that no longer share a tick are searched separately.
- Of boxes of equal live range, size and alignment, only the first is tried.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.compiled import UNBOUNDED, compiled
from penstock.frozen import frozen
from penstock.memory.problem import Column, LiveBuffer, columns

Flags = npt.NDArray[np.bool_]
Records = Any
"""An array of records, or a record: compiled code reads their fields as attributes."""


class Boxes(NamedTuple):
    """Buffers as arrays.

    first, last: half-open interval of sections.
    live: whether a box is live in a section, shape (sections, boxes).
    meeting: whether two boxes share a section, shape (boxes, boxes).
    """

    first: Column
    last: Column
    size: Column
    alignment: Column
    live: Flags
    meeting: Flags


@frozen
class Answer:
    """Result of the search.

    offsets: offsets of all boxes; None if none were found, which is proven if `finished`.
    """

    offsets: Column | None
    finished: bool
    nodes: int


def buffers_as_boxes(buffers: tuple[LiveBuffer, ...]) -> Boxes:
    """Return buffers as boxes, with their live ranges in sections."""
    lower, upper, size, alignment = map(np.ascontiguousarray, columns(buffers))
    ticks = np.unique(lower)
    first, last = np.searchsorted(ticks, lower), np.searchsorted(ticks, upper)
    sections = np.arange(len(ticks))[:, None]
    live = (first <= sections) & (sections < last)
    meeting = (first[:, None] < last) & (first < last[:, None])
    return Boxes(first, last, size, alignment, live, meeting)


def stack(boxes: Boxes, ceiling: int, rank: Column, max_nodes: int) -> Answer:
    """Return offsets of all boxes under `ceiling`, if there are any.

    rank: tie-breaker among boxes with equal floors, the lowest first.
    max_nodes: budget; a node is one attempt to place a box.

    The result depends on the arguments only.
    """
    problem = _problem(boxes, ceiling, rank)
    by_birth = np.lexsort((boxes.last, boxes.first))
    placed, finished, nodes = _search(problem, _new_stack(by_birth), max_nodes)
    return Answer(problem.boxes["offset"].copy() if placed else None, finished, nodes)


_BOX = np.dtype(
    [
        *((name, np.int64) for name in ("first", "last", "size", "alignment")),
        *((name, np.int64) for name in ("filled", "rank", "elder", "floor", "offset")),
    ],
    align=True,
)
"""A box with what the search derives from it, and its state.

filled: size in whole grains, which every box but the topmost occupies (see
    `problem.live_peak`).
rank: tie-breaker, the lowest first.
elder: the next better ranked box of equal live range, size and alignment, or -1.
floor: least possible offset; offset: -1 before the box is placed.
"""
_SECTION = np.dtype([(name, np.int64) for name in ("begin", "end", "due", "lowest")], align=True)
"""A section: the boxes live in it, as a part of `tenants`, which is never empty; bytes not placed
yet; least floor of the boxes not placed yet."""


class _Problem(NamedTuple):
    """What is searched.

    meeting: whether two boxes share a section.
    tenants: the boxes of each section.
    spill: the largest difference between the filled size and the size of a box.
    """

    boxes: Records
    sections: Records
    meeting: Flags
    tenants: Column
    spill: int
    ceiling: int


def _problem(boxes: Boxes, ceiling: int, rank: Column) -> _Problem:
    grain = int(np.gcd.reduce(boxes.alignment))
    filled = -(-boxes.size // grain) * grain
    every = np.zeros(len(boxes.size), dtype=_BOX)
    for name in ("first", "last", "size", "alignment"):
        every[name] = getattr(boxes, name)
    every["filled"], every["rank"] = filled, rank
    every["elder"], every["offset"] = _elder_twins(boxes, rank), -1
    sections = np.zeros(len(boxes.live), dtype=_SECTION)
    sections["end"] = boxes.live.sum(axis=1).cumsum()
    sections["begin"][1:] = sections["end"][:-1]
    sections["due"] = boxes.live @ filled
    return _Problem(
        every,
        sections,
        boxes.meeting,
        np.ascontiguousarray(np.nonzero(boxes.live)[1]),
        int((filled - boxes.size).max(initial=0)),
        ceiling,
    )


def _elder_twins(boxes: Boxes, rank: Column) -> Column:
    """Return, for each box, the next better ranked one of equal live range, size and alignment, or
    -1.
    """
    elder = np.full(len(rank), -1, dtype=np.int64)
    last_seen: dict[tuple[int, ...], int] = {}
    compared = (boxes.first, boxes.last, boxes.size, boxes.alignment)
    for box in np.argsort(rank, kind="stable").tolist():
        key = tuple(int(column[box]) for column in compared)
        elder[box] = last_seen.get(key, -1)
        last_seen[key] = box
    return elder


_DECISION = np.dtype(
    [
        *((name, np.int64) for name in ("begin", "end", "next", "last", "top", "rest")),
        *((name, np.int64) for name in ("mark", "offset", "first_group", "pending")),
        ("is_placed", np.bool_),
    ],
    align=True,
)
"""A decision: which of its members is placed next.

begin, end: the members, sorted by birth, as a part of `numbers`; next, last: the candidates that
    are left; top, rest: the boxes that remain once a candidate is placed.
mark: boxes placed before the decision.
offset: of the placed candidate; nothing placed later lies lower.
is_placed: whether a candidate is placed, and the remaining boxes may fit.
first_group, pending: where the groups of the remaining boxes begin, and how many of them have not
    been searched yet.
"""
_STEP = np.dtype([(name, np.int64) for name in ("box", "first", "last", "lifted")], align=True)
"""What placing a box has changed: floors in sections `first` to `last`, those of the boxes in
`raised` up to `lifted`."""


class _Stack(NamedTuple):
    """The decisions so far, by depth.

    numbers: boxes, of which decisions own parts.
    groups: parts of `numbers`, shape (groups, 2).
    trail: a step for each placed box.
    raised: boxes and their floors before, of which steps own parts.
    """

    decisions: Records
    numbers: Column
    groups: Column
    trail: Records
    raised: Column


def _new_stack(everyone: Column) -> _Stack:
    """A stack with room for every search, and a decision whose remaining boxes are all boxes.

    The parts of `numbers` shrink by a box from decision to decision."""
    count = len(everyone)
    numbers = np.empty((count + 1) * (count + 1), dtype=np.int64)
    numbers[:count] = everyone
    raised = np.empty((count * count // 2 + 1, 2), dtype=np.int64)
    decisions = np.zeros(count + 2, dtype=_DECISION)
    decisions[0]["rest"], decisions[0]["is_placed"] = count, True
    groups = np.zeros((count + 2, 2), dtype=np.int64)
    return _Stack(decisions, numbers, groups, np.zeros(count + 1, dtype=_STEP), raised)


@compiled
def _search(problem: _Problem, stack: _Stack, max_nodes: int) -> tuple[bool, bool, int]:
    """Place all boxes; return whether they are placed, whether the search is complete, and the
    number of nodes."""
    everyone = stack.numbers[: stack.decisions[0].rest]
    _survey(problem, 0, len(problem.sections))
    if not _promising(problem, everyone, 0):
        return False, True, 0
    _split(problem, stack, 0)
    depth, steps, nodes = 0, 0, 0
    while depth >= 0:
        if stack.decisions[depth].is_placed and stack.decisions[depth].pending > 0:
            depth += 1
            stack.decisions[depth].mark = steps
            _open(problem, stack, depth)
            continue
        if stack.decisions[depth].is_placed:
            depth -= 1
            continue
        while steps > stack.decisions[depth].mark:
            steps -= 1
            _undo(problem, stack, steps)
        if stack.decisions[depth].next < stack.decisions[depth].last:
            nodes += 1
            _place(problem, stack, depth, steps)
            steps += 1
        else:
            depth -= 1
            stack.decisions[max(depth, 0)].is_placed = False
            if depth == 0:
                return False, True, nodes
        if nodes > max_nodes:
            return False, False, nodes
    return True, True, nodes


@compiled
def _open(problem: _Problem, stack: _Stack, depth: int) -> None:
    """Begin a decision on the last pending group of the decision before."""
    decision, before = stack.decisions[depth], stack.decisions[depth - 1]
    before.pending -= 1
    decision.first_group = before.first_group + before.pending
    decision.begin, decision.end = stack.groups[decision.first_group]
    decision.is_placed = False
    _list_candidates(problem, stack, depth)


@compiled
def _place(problem: _Problem, stack: _Stack, depth: int, step: int) -> None:
    """Place the next candidate of a decision, as a step of the trail."""
    decision = stack.decisions[depth]
    box = int(stack.numbers[decision.next])
    decision.next += 1
    decision.rest = decision.top
    for k in range(decision.begin, decision.end):
        if stack.numbers[k] != box:
            stack.numbers[decision.rest] = stack.numbers[k]
            decision.rest += 1
    others = stack.numbers[decision.top : decision.rest]
    _lay(problem, box, others, stack, step)
    decision.offset = problem.boxes[box].offset
    if _promising(problem, others, decision.offset):
        decision.is_placed = True
        _split(problem, stack, depth)


@compiled
def _list_candidates(problem: _Problem, stack: _Stack, depth: int) -> None:
    """Write the members that may be placed next, from the lowest floor on, after the remaining
    boxes of the decision before."""
    decision, before = stack.decisions[depth], stack.decisions[depth - 1]
    members = stack.numbers[decision.begin : decision.end]
    lowest_top = UNBOUNDED
    for number in members:
        lowest_top = min(lowest_top, problem.boxes[number].floor + problem.boxes[number].size)
    end = before.rest
    for number in members:
        box = problem.boxes[number]
        if box.floor >= lowest_top or box.floor < before.offset:
            continue
        if box.elder >= 0 and problem.boxes[box.elder].offset < 0:
            continue
        k = end
        while k > before.rest and _precedes(box, problem.boxes[stack.numbers[k - 1]]):
            stack.numbers[k] = stack.numbers[k - 1]
            k -= 1
        stack.numbers[k] = number
        end += 1
    decision.next, decision.last, decision.top = before.rest, end, end


@compiled
def _precedes(a: Records, b: Records) -> bool:
    if a.floor != b.floor:
        return bool(a.floor < b.floor)
    return bool(a.rank < b.rank)


@compiled
def _lay(problem: _Problem, number: int, others: Column, stack: _Stack, depth: int) -> None:
    """Place a box on its floor and raise the others' floors."""
    box, step = problem.boxes[number], stack.trail[depth]
    step.box, step.first, step.last = number, box.first, box.last
    step.lifted = stack.trail[depth - 1].lifted if depth else 0
    for met in others:
        if not problem.meeting[number, met]:
            continue
        other = problem.boxes[met]
        floor = -(-(box.floor + box.size) // other.alignment) * other.alignment
        if floor > other.floor:
            stack.raised[step.lifted] = met, other.floor
            step.lifted += 1
            other.floor = floor
            step.first, step.last = min(step.first, other.first), max(step.last, other.last)
    box.offset = box.floor
    for section in range(box.first, box.last):
        problem.sections[section].due -= box.filled
    _survey(problem, step.first, step.last)


@compiled
def _undo(problem: _Problem, stack: _Stack, depth: int) -> None:
    """Take back what `_lay` has changed."""
    step = stack.trail[depth]
    for k in range(stack.trail[depth - 1].lifted if depth else 0, step.lifted):
        problem.boxes[stack.raised[k, 0]].floor = stack.raised[k, 1]
    box = problem.boxes[step.box]
    box.offset = -1
    for section in range(box.first, box.last):
        problem.sections[section].due += box.filled
    _survey(problem, step.first, step.last)


@compiled
def _survey(problem: _Problem, first: int, last: int) -> None:
    """Update the least floor of the remaining boxes in sections `first` to `last`."""
    for k in range(first, last):
        section = problem.sections[k]
        section.lowest = UNBOUNDED
        for number in problem.tenants[section.begin : section.end]:
            if problem.boxes[number].offset < 0:
                section.lowest = min(section.lowest, problem.boxes[number].floor)


@compiled
def _promising(problem: _Problem, members: Column, base: int) -> bool:
    """Whether each member, and the remaining bytes of each section, may fit under the ceiling."""
    first, last = len(problem.sections), 0
    for number in members:
        box = problem.boxes[number]
        if max(box.floor, base) + box.size > problem.ceiling:
            return False
        first, last = min(first, box.first), max(last, box.last)
    for k in range(first, last):
        section = problem.sections[k]
        top = max(section.lowest, base) + section.due - problem.spill
        if section.due > 0 and top > problem.ceiling:
            return False
    return True


@compiled
def _split(problem: _Problem, stack: _Stack, depth: int) -> None:
    """Split the remaining boxes of a decision, sorted by birth, where no live range crosses."""
    decision = stack.decisions[depth]
    decision.pending = 0
    latest = 0
    for k in range(decision.top, decision.rest):
        box = problem.boxes[stack.numbers[k]]
        if k == decision.top or box.first >= latest:
            stack.groups[decision.first_group + decision.pending, 0] = k
            decision.pending += 1
        latest = max(latest, box.last)
        stack.groups[decision.first_group + decision.pending - 1, 1] = k + 1
