"""Conflict: which buffers cannot fit together, with nothing superfluous among them.

A deletion filter: leave out buffers, the smallest first and many at once, as long as the rest still
cannot fit. What stays cannot fit, and fits as soon as any one of it is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.errors import InternalError
from penstock.memory.exact import ExactOptions, fit
from penstock.memory.problem import Buffer, Problem, live_peak, refuse_ties


@dataclass(frozen=True, slots=True)
class ConflictOptions:
    """How much the filter may spend."""

    max_asks: int = 400  # sets that are tried
    exact: ExactOptions = field(default_factory=lambda: ExactOptions(max_nodes=2_000))  # per ask


@dataclass(frozen=True, slots=True)
class Conflict:
    """Buffers, in the problem's order, that cannot fit into the capacity together."""

    names: tuple[str, ...]
    proven: bool  # that they cannot fit; else the search gave up, and these are live at the peak
    irreducible: bool  # that without any one of them the others fit


def conflict(problem: Problem, options: ConflictOptions | None = None) -> Conflict | None:
    """Buffers that cannot fit together into the capacity; None if a placement was found.

    Where the live bytes of one tick alone exceed the capacity, all of them are live at the peak.
    """
    options = options or ConflictOptions()
    if problem.capacity_bytes is None:
        raise InternalError("memory-006", "a conflict needs a capacity")
    refuse_ties(problem, "the search for a conflict")
    peak = live_peak(problem)
    at_peak = tuple(buffer for buffer in problem.buffers if buffer.name in set(peak.names))
    start = at_peak if peak.size_bytes > problem.capacity_bytes else problem.buffers
    fits = fit(Problem(start), problem.capacity_bytes, options.exact).fits
    if fits:
        return None
    if fits is None:
        return Conflict(peak.names, proven=False, irreducible=False)
    shrinking = _Filter(list(start), problem.capacity_bytes, options)
    shrinking.leave_out(sorted(start, key=lambda buffer: buffer.size_bytes))
    names = tuple(buffer.name for buffer in shrinking.kept)
    return Conflict(names, proven=True, irreducible=shrinking.sure)


class _Filter:
    """The set that is known not to fit, and whether each of it is known to be needed for that."""

    def __init__(self, kept: list[Buffer], capacity_bytes: int, options: ConflictOptions) -> None:
        self.kept, self.capacity_bytes, self.options = kept, capacity_bytes, options
        self.asks = 0
        self.sure = True

    def leave_out(self, group: list[Buffer]) -> None:
        """Leave out as many of the group as possible: all at once, or half by half."""
        if self.asks >= self.options.max_asks:
            self.sure = False
            return
        left_out = {buffer.name for buffer in group}
        rest = [buffer for buffer in self.kept if buffer.name not in left_out]
        self.asks += 1
        fits = fit(Problem(tuple(rest)), self.capacity_bytes, self.options.exact).fits
        if fits is False:
            self.kept = rest
        elif len(group) > 1:
            middle = len(group) // 2
            self.leave_out(group[:middle])
            self.leave_out(group[middle:])
        elif fits is None:
            self.sure = False
