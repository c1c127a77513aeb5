"""Check: the independent judge of placements, the O(n^2) way. Shares no code with the placers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from penstock.memory.problem import Placement, Problem


class Reason(Enum):
    """What can be wrong with a placement."""

    MISSING = "missing"  # a buffer has no offset, or more than one
    UNKNOWN = "unknown"  # an offset belongs to no buffer
    NEGATIVE = "negative"
    MISALIGNED = "misaligned"
    FIXED_MOVED = "fixed moved"
    OVERLAP = "overlap"
    OVER_CAPACITY = "over capacity"
    WRONG_HEIGHT = "wrong height"  # the height said is not the highest end


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and with which buffers."""

    reason: Reason
    names: tuple[str, ...]


def check(problem: Problem, placement: Placement) -> tuple[Fault, ...]:
    """Every fault of a placement; none if it is good."""
    named = Counter(name for name, _ in placement.offsets)
    offsets = dict(placement.offsets)
    known = {buffer.name for buffer in problem.buffers}
    faults = [Fault(Reason.MISSING, (n,)) for n in sorted(known) if named[n] != 1]
    faults += [Fault(Reason.UNKNOWN, (n,)) for n in named if n not in known]
    placed = [(b, offsets[b.name]) for b in problem.buffers if b.name in offsets]
    capacity = problem.capacity_bytes
    for b, offset in placed:
        found = {
            Reason.NEGATIVE: offset < 0,
            Reason.MISALIGNED: offset % b.alignment != 0,
            Reason.FIXED_MOVED: b.fixed_offset is not None and offset != b.fixed_offset,
            Reason.OVER_CAPACITY: capacity is not None and offset + b.size_bytes > capacity,
        }
        faults += [Fault(reason, (b.name,)) for reason, wrong in found.items() if wrong]
    placed.sort(key=lambda pair: pair[0].lower)
    for i, (a, at) in enumerate(placed):
        for b, bt in placed[i + 1 :]:
            if b.lower >= a.upper:
                break  # and so are all that follow
            if at < bt + b.size_bytes and bt < at + a.size_bytes:
                faults.append(Fault(Reason.OVERLAP, (a.name, b.name)))
    if placement.height_bytes != max((at + b.size_bytes for b, at in placed), default=0):
        faults.append(Fault(Reason.WRONG_HEIGHT, ()))
    return tuple(faults)
