"""Conflict: an irreducible set of buffers that cannot fit into a capacity together.

A deletion filter: buffers are removed, the smallest first and many at once, as long as the rest
    still cannot fit.  The remaining set cannot fit, but does once any one buffer is removed.
"""

from __future__ import annotations

from dataclasses import field

from penstock.errors import InternalError
from penstock.frozen import frozen
from penstock.memory.place import ExactOptions, fit
from penstock.memory.problem import LiveBuffer, PlacementProblem, live_peak, refuse_ties


@frozen
class ConflictOptions:
    """Budget of the filter.

    max_asks: number of sets tried; exact: budget of exact placement for each set.
    """

    max_asks: int = 400
    exact: ExactOptions = field(default_factory=lambda: ExactOptions(max_nodes=2_000))


@frozen
class Conflict:
    """Buffers, in the problem's order, that cannot fit into the capacity together.

    proven: whether it is proven that they cannot fit.  If not, the search gave up, and these are
        the buffers that are live at the peak.
    irreducible: whether the others fit once any one of them is removed.
    """

    names: tuple[str, ...]
    proven: bool
    irreducible: bool


def conflict(problem: PlacementProblem, options: ConflictOptions | None = None) -> Conflict | None:
    """Return buffers that cannot fit into the capacity together; None if a placement was found.

    If the live bytes of one tick exceed the capacity, the result is a subset of the buffers that
    are live at the peak.  Does not support tied buffers.

    Raises InternalError if the problem has no capacity or a tied buffer.
    """
    options = options or ConflictOptions()
    if problem.capacity_bytes is None:
        raise InternalError("memory-006", "a conflict needs a capacity")
    refuse_ties(problem, "the search for a conflict")
    peak = live_peak(problem)
    at_peak = tuple(buffer for buffer in problem.buffers if buffer.name in set(peak.names))
    start = at_peak if peak.size_bytes > problem.capacity_bytes else problem.buffers
    fits = fit(PlacementProblem(start), problem.capacity_bytes, options.exact).fits
    if fits:
        return None
    if fits is None:
        return Conflict(peak.names, proven=False, irreducible=False)
    shrinking = _Filter(list(start), problem.capacity_bytes, options)
    shrinking.leave_out(sorted(start, key=lambda buffer: buffer.size_bytes))
    names = tuple(buffer.name for buffer in shrinking.kept)
    return Conflict(names, proven=True, irreducible=shrinking.sure)


class _Filter:
    """A set that cannot fit.

    kept: the set; sure: whether each of its buffers is known to be necessary.
    """

    def __init__(
        self, kept: list[LiveBuffer], capacity_bytes: int, options: ConflictOptions
    ) -> None:
        self.kept, self.capacity_bytes, self.options = kept, capacity_bytes, options
        self.asks = 0
        self.sure = True

    def leave_out(self, group: list[LiveBuffer]) -> None:
        """Remove as many buffers of the group as possible: all at once, or else half by half."""
        if self.asks >= self.options.max_asks:
            self.sure = False
            return
        left_out = {buffer.name for buffer in group}
        rest = [buffer for buffer in self.kept if buffer.name not in left_out]
        self.asks += 1
        fits = fit(PlacementProblem(tuple(rest)), self.capacity_bytes, self.options.exact).fits
        if fits is False:
            self.kept = rest
        elif len(group) > 1:
            middle = len(group) // 2
            self.leave_out(group[:middle])
            self.leave_out(group[middle:])
        elif fits is None:
            self.sure = False
