"""Stacking: can boxes be stacked under a ceiling? A search that can also prove that they cannot.

If a placement exists, then so does a *settled* one, in which no box can be lowered by itself (take
the one of least sum of offsets). Read from low to high, every box of it lies directly on what was
read before it: on its *floor*. So it is enough to choose who is next; the offset follows.

    time ->   0   1   2   3          next may be   c   (floor 0)
      2 |           +---+                     or   d   (floor 1)
      1 |   +---+   | d |              not d before c, if the top of c is not above d's floor:
      0 |   | a |  [c]--+              c would then fit below d, where it has to be in a
        +---+---+---+---+              settled placement
        sections: 0   1   2

A *section* is a tick at which some box begins its life. Time matters only as sections.
Source of the idea: Moffitt, MiniMalloc, ASPLOS 2023; the search here is written from the argument
above and extended to alignment and fixed boxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.memory.problem import Buffer, Column, columns

_FAR = 1 << 60  # above every address


@dataclass(frozen=True, slots=True)
class Tricks:
    """What the search may leave out. None changes an answer that is found without node limit."""

    ascend: bool = True  # a box whose floor is under the last one's offset must wait to be raised
    settle: bool = True  # not above a box that would still fit below: it could be lowered
    sections: bool = True  # give up where what a section still has to hold exceeds what is left
    split: bool = True  # boxes that no longer share a tick, directly or through others, part ways
    twins: bool = True  # of boxes of equal life, size and alignment only the first is tried


@dataclass(frozen=True, slots=True)
class Boxes:
    """Buffers in columns: `first`, `last` are half-open intervals of sections."""

    first: Column
    last: Column
    size: Column
    alignment: Column
    fixed: Column  # offset, or -1
    live: npt.NDArray[np.bool_]  # (sections, boxes)
    meeting: npt.NDArray[np.bool_]  # (boxes, boxes)


@dataclass(frozen=True, slots=True)
class Answer:
    """The offsets where boxes fit; else None, which is proven if the search was finished."""

    offsets: Column | None
    finished: bool
    nodes: int


def boxes_of(buffers: tuple[Buffer, ...]) -> Boxes:
    """Buffers as boxes, with their lives counted in sections."""
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
    """Offsets of all boxes under `ceiling`, if there are any; of equal floors the best rank first.

    A node is one attempt to lay one box. The answer depends on the arguments alone.
    """
    search = _Search(boxes, ceiling, rank, tricks or Tricks())
    found = search.run(max_nodes)
    return Answer(search.offset if found else None, found is not None, search.nodes)


@dataclass(slots=True)
class _Frame:
    """One choice: which of `members` is next."""

    mark: int  # length of the trail before the choice
    members: Column
    candidates: Iterator[int]
    offset: int = 0  # of the box laid; nothing after it lies lower
    groups: list[Column] | None = None  # what is to be stacked after the box laid, if one is


@dataclass(frozen=True, slots=True)
class _Step:
    """What laying a box changed, so that it can be undone."""

    box: int
    raised: Column
    floors: Column
    window: slice
    lowest: Column


class _Search:
    def __init__(self, boxes: Boxes, ceiling: int, rank: Column, tricks: Tricks) -> None:
        self.boxes, self.ceiling, self.rank, self.tricks = boxes, ceiling, rank, tricks
        # Every box but the topmost fills whole grains (see `problem.stacked_bytes`).
        grain = int(np.gcd.reduce(boxes.alignment))
        self.filled = -(-boxes.size // grain) * grain
        self.spill = int((self.filled - boxes.size).max(initial=0))
        self.floor = np.where(boxes.fixed < 0, 0, boxes.fixed)
        self.offset = np.full(len(boxes.size), -1, dtype=np.int64)
        self.due = boxes.live @ self.filled  # per section: bytes not laid yet
        self.lowest = np.zeros(len(boxes.live), dtype=np.int64)  # per section: their least floor
        fixed: list[int] = np.flatnonzero(boxes.fixed >= 0).tolist()
        self.fixed = sorted(fixed, key=boxes.fixed.item)  # from low to high
        # Boxes alive in section s: tenants[starts[s] : starts[s + 1]]; at least the newborn.
        self.tenants = np.nonzero(boxes.live)[1]
        self.starts = np.concatenate(([0], boxes.live.sum(axis=1).cumsum()))
        self.elder = _elder_twins(boxes, rank)
        self.trail: list[_Step] = []
        self.nodes = 0

    def run(self, max_nodes: int) -> bool | None:
        """True: all are laid; False: proven impossible; None: it would take more nodes."""
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
        """Undo the frame's last candidate and lay its next; False if there is none."""
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
        """Lay a box on its floor and raise the others' floors; False if a fixed box is hit."""
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
        """Floors, aligned, and above every fixed box under which its member no longer fits."""
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
        """Per section of the window, the least floor of the boxes that are still to be laid."""
        starts = self.starts[window.start : window.stop + 1]
        tenants = self.tenants[starts[0] : starts[-1]]
        floors = np.where(self.offset < 0, self.floor, _FAR)[tenants]
        self.lowest[window] = np.minimum.reduceat(floors, starts[:-1] - starts[0])

    def _promising(self, members: Column, base: int) -> bool:
        """False if some member, or what some section still has to hold, cannot get under."""
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
        """Members, which come in order of birth, parted where no life crosses."""
        if not len(members):
            return []
        if not self.tricks.split:
            return [members]
        ends = np.maximum.accumulate(self.boxes.last[members])
        cuts = np.flatnonzero(self.boxes.first[members][1:] >= ends[:-1]) + 1
        return np.split(members, cuts)


def _elder_twins(boxes: Boxes, rank: Column) -> Column:
    """For each box the next better ranked one of equal life, size and alignment; or -1."""
    elder = np.full(len(rank), -1, dtype=np.int64)
    last_seen: dict[tuple[int, ...], int] = {}
    compared = (boxes.first, boxes.last, boxes.size, boxes.alignment)
    for box in np.argsort(rank, kind="stable").tolist():
        if boxes.fixed[box] < 0:
            key = tuple(int(column[box]) for column in compared)
            elder[box] = last_seen.get(key, -1)
            last_seen[key] = box
    return elder
