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
above and extended to alignment and fixed boxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.compiled import UNBOUNDED
from penstock.memory.problem import Column, LiveBuffer, columns


@dataclass(frozen=True, slots=True)
class Tricks:
    """Reductions of the search space.  None of them changes a result found without a node limit.

    ascend: boxes are chosen in ascending order of offset; a box with a lower floor must wait.
    settle: no box above another one that would still fit below it.
    sections: backtrack where the remaining bytes of a section exceed the remaining space.
    split: search groups of boxes that no longer share a tick separately.
    twins: among boxes of equal live range, size and alignment, try only the first.
    """

    ascend: bool = True
    settle: bool = True
    sections: bool = True
    split: bool = True
    twins: bool = True


@dataclass(frozen=True, slots=True)
class Boxes:
    """Buffers as arrays.

    first, last: half-open interval of sections; fixed: prescribed offset, or -1.
    live: whether a box is live in a section, shape (sections, boxes).
    meeting: whether two boxes share a section, shape (boxes, boxes).
    """

    first: Column
    last: Column
    size: Column
    alignment: Column
    fixed: Column
    live: npt.NDArray[np.bool_]
    meeting: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of the search.

    offsets: offsets of all boxes; None if none were found, which is proven if `finished`.
    """

    offsets: Column | None
    finished: bool
    nodes: int


def buffers_as_boxes(buffers: tuple[LiveBuffer, ...]) -> Boxes:
    """Return buffers as boxes, with their live ranges in sections."""
    lower, upper, size, alignment = columns(buffers)
    ticks = np.unique(lower)
    first, last = np.searchsorted(ticks, lower), np.searchsorted(ticks, upper)
    fixed = np.array([-1 if b.fixed_offset is None else b.fixed_offset for b in buffers])
    sections = np.arange(len(ticks))[:, None]
    live = (first <= sections) & (sections < last)
    meeting = (first[:, None] < last) & (first < last[:, None])
    return Boxes(first, last, size, alignment, fixed, live, meeting)


def stack(
    boxes: Boxes, ceiling: int, rank: Column, max_nodes: int, tricks: Tricks | None = None
) -> Answer:
    """Return offsets of all boxes under `ceiling`, if there are any.

    rank: tie-breaker among boxes with equal floors, the lowest first.
    max_nodes: budget; a node is one attempt to place a box.

    The result depends on the arguments only.
    """
    search = _Search(boxes, ceiling, rank, tricks or Tricks())
    found = search.run(max_nodes)
    return Answer(search.offset if found else None, found is not None, search.nodes)


@dataclass(slots=True)
class _Frame:
    """One decision: which of `members` is placed next.

    mark: length of the trail before the decision.
    offset: offset of the placed box; nothing placed later lies lower.
    groups: groups of boxes still to be placed after the placed box, if one is placed.
    """

    mark: int
    members: Column
    candidates: Iterator[int]
    offset: int = 0
    groups: list[Column] | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    """The changes made by placing a box, for backtracking."""

    box: int
    raised: Column
    floors: Column
    window: slice
    lowest: Column


class _Search:
    def __init__(self, boxes: Boxes, ceiling: int, rank: Column, tricks: Tricks) -> None:
        self.boxes, self.ceiling, self.rank, self.tricks = boxes, ceiling, rank, tricks
        # Every box but the topmost occupies whole grains (see `problem.stacked_bytes`).
        grain = int(np.gcd.reduce(boxes.alignment))
        self.filled = -(-boxes.size // grain) * grain
        self.spill = int((self.filled - boxes.size).max(initial=0))
        self.floor = np.where(boxes.fixed < 0, 0, boxes.fixed)
        self.offset = np.full(len(boxes.size), -1, dtype=np.int64)
        self.due = boxes.live @ self.filled  # by section: bytes not placed yet
        self.lowest = np.zeros(len(boxes.live), dtype=np.int64)  # by section: least floor
        fixed: list[int] = np.flatnonzero(boxes.fixed >= 0).tolist()
        self.fixed = sorted(fixed, key=boxes.fixed.item)  # from low to high
        # Boxes live in section s: tenants[starts[s] : starts[s + 1]], never empty.
        self.tenants = np.nonzero(boxes.live)[1]
        self.starts = np.concatenate(([0], boxes.live.sum(axis=1).cumsum()))
        self.elder = _elder_twins(boxes, rank)
        self.trail: list[_Step] = []
        self.nodes = 0

    def run(self, max_nodes: int) -> bool | None:
        """Return True if all boxes are placed, False if proven impossible, None if out of nodes."""
        everyone = np.lexsort((self.boxes.last, self.boxes.first))
        self.floor[everyone] = self._over_fixed(everyone, self.floor[everyone])
        self._survey(slice(0, len(self.lowest)))
        if not self._promising(everyone, 0):
            return False
        frames = [_Frame(0, everyone, iter(()), groups=self._groups(everyone))]
        while frames:
            frame = frames[-1]
            if frame.groups:
                frames.append(self._frame(frame.groups.pop(), frame.offset))
            elif frame.groups is not None:
                frames.pop()
                if not frames:
                    return True
            elif not self._try_next(frame):
                frames.pop()
                if frames:
                    frames[-1].groups = None
            if self.nodes > max_nodes:
                return None
        return False

    def _frame(self, members: Column, base: int) -> _Frame:
        floors = self.floor[members]
        allowed = np.ones(len(members), dtype=np.bool_)
        if self.tricks.settle:
            allowed &= floors < (floors + self.boxes.size[members]).min()
        if self.tricks.ascend:
            allowed &= floors >= base
        if self.tricks.twins:
            elder = self.elder[members]
            allowed &= (elder < 0) | (self.offset[elder] >= 0)
        order = np.lexsort((self.rank[members], floors))
        candidates = members[order[allowed[order]]]
        return _Frame(len(self.trail), members, iter(candidates.tolist()))

    def _try_next(self, frame: _Frame) -> bool:
        """Undo the frame's last candidate and place its next one; return False if there is none."""
        while len(self.trail) > frame.mark:
            self._undo()
        box = next(frame.candidates, None)
        if box is None:
            return False
        self.nodes += 1
        others = frame.members[frame.members != box]
        if self._lay(box, others):
            frame.offset = int(self.offset[box])
            if self._promising(others, frame.offset):
                frame.groups = self._groups(others)
        return True

    def _lay(self, box: int, others: Column) -> bool:
        """Place a box on its floor and raise the others' floors; return False if it hits a fixed
        box.
        """
        boxes = self.boxes
        met = others[boxes.meeting[box, others]]
        end = self.floor[box] + boxes.size[box]
        floors = self._over_fixed(met, np.maximum(self.floor[met], end))
        fixed = boxes.fixed[met]
        raised = met[floors > self.floor[met]]
        window = slice(
            int(boxes.first[raised].min(initial=boxes.first[box])),
            int(boxes.last[raised].max(initial=boxes.last[box])),
        )
        lowest = self.lowest[window].copy()
        self.trail.append(_Step(box, raised, self.floor[raised], window, lowest))
        self.floor[met] = floors
        self.offset[box] = self.floor[box]
        self.due[boxes.first[box] : boxes.last[box]] -= self.filled[box]
        self._survey(window)
        return not bool(((fixed >= 0) & (floors > fixed)).any())

    def _undo(self) -> None:
        step = self.trail.pop()
        self.floor[step.raised] = step.floors
        self.offset[step.box] = -1
        self.lowest[step.window] = step.lowest
        first, last = self.boxes.first[step.box], self.boxes.last[step.box]
        self.due[first:last] += self.filled[step.box]

    def _over_fixed(self, members: Column, floors: Column) -> Column:
        """Return floors, aligned and raised above every fixed box below which their member does not
        fit.
        """
        boxes = self.boxes
        floors = -(-floors // boxes.alignment[members]) * boxes.alignment[members]
        for box in self.fixed:
            lower, upper = boxes.fixed[box], boxes.fixed[box] + boxes.size[box]
            blocked = boxes.meeting[box, members] & (boxes.fixed[members] < 0)
            blocked &= (floors < upper) & (floors + boxes.size[members] > lower)
            above = -(-upper // boxes.alignment[members]) * boxes.alignment[members]
            floors = np.where(blocked, above, floors)
        return floors

    def _survey(self, window: slice) -> None:
        """Update the least floor of the remaining boxes in each section of a window."""
        starts = self.starts[window.start : window.stop + 1]
        tenants = self.tenants[starts[0] : starts[-1]]
        unplaced = self.offset < 0
        floors = np.where(unplaced, self.floor, UNBOUNDED)[tenants]
        self.lowest[window] = np.minimum.reduceat(floors, starts[:-1] - starts[0])

    def _promising(self, members: Column, base: int) -> bool:
        """Return False if some member, or the remaining bytes of some section, cannot fit under the
        ceiling.
        """
        boxes = self.boxes
        base = base if self.tricks.ascend else 0
        floors = np.maximum(self.floor[members], base)
        if (floors + boxes.size[members] > self.ceiling).any():
            return False
        if not self.tricks.sections or not len(members):
            return True
        window = slice(boxes.first[members].min(), boxes.last[members].max())
        due = self.due[window]
        tops = np.maximum(self.lowest[window], base) + due - self.spill
        return not bool((tops > self.ceiling)[due > 0].any())

    def _groups(self, members: Column) -> list[Column]:
        """Split members, sorted by birth, where no live range crosses."""
        if not len(members):
            return []
        if not self.tricks.split:
            return [members]
        ends = np.maximum.accumulate(self.boxes.last[members])
        cuts = np.flatnonzero(self.boxes.first[members][1:] >= ends[:-1]) + 1
        return np.split(members, cuts)


def _elder_twins(boxes: Boxes, rank: Column) -> Column:
    """Return, for each box, the next better ranked one of equal live range, size and alignment, or
    -1.
    """
    elder = np.full(len(rank), -1, dtype=np.int64)
    last_seen: dict[tuple[int, ...], int] = {}
    compared = (boxes.first, boxes.last, boxes.size, boxes.alignment)
    for box in np.argsort(rank, kind="stable").tolist():
        if boxes.fixed[box] < 0:
            key = tuple(int(column[box]) for column in compared)
            elder[box] = last_seen.get(key, -1)
            last_seen[key] = box
    return elder
