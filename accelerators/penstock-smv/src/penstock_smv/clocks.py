"""clocks: when several engines copy and compute, with one port to memory.

Each engine executes its operations in order.  A copy occupies the port.  The port prefers the
engine that comes first in the program: a copy proceeds, in pieces, while earlier ones leave the
port free.
"""

from __future__ import annotations

from bisect import bisect_right

Span = tuple[float, float]


class EngineClocks:
    """The cycle at which each engine has completed its operations so far, and the times at which
    the port is occupied."""

    def __init__(self, engines: int) -> None:
        self.times = [0.0] * engines
        self._occupied: list[Span] = []

    @property
    def end(self) -> float:
        """The cycle at which all engines have completed their operations."""
        return max(self.times)

    def compute(self, engine: int, cycles: float) -> None:
        """Let an engine compute."""
        self.times[engine] += cycles

    def copy(self, engine: int, cycles: float) -> None:
        """Let an engine copy while the port is free."""
        start = now = self.times[engine]
        first = bisect_right(self._occupied, (now, float("inf"))) - 1
        if first >= 0 and self._occupied[first][1] >= now:
            start, now = self._occupied[first][0], self._occupied[first][1]
        else:
            first += 1
        last = max(first, 0)
        while last < len(self._occupied):
            begins, ends = self._occupied[last]
            if now + cycles < begins:
                break
            cycles -= max(0.0, begins - now)
            now, last = max(now, ends), last + 1
        self.times[engine] = now + cycles
        self._occupied[first:last] = [(start, now + cycles)]

    def wait(self) -> None:
        """Let all engines wait for each other."""
        self.times = [self.end] * len(self.times)
        self._occupied.clear()
