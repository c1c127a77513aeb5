"""The horizontal axis of the memory figure: the mapping from ticks to columns.

column   -1       0          1     ..               columns - 2
         caller   first      a cascade of n         caller
         writes   layer      layers: n columns      reads
                  (a tick)   or more (its calls)

A layer that runs whole is one call and one column. A cascade has at least one column per layer,
independent of its number of calls. It gets more columns if whole layers would otherwise take more
than half of the figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.reports.timeline import LivePiece, Timeline

MOST_COLUMNS = 4.0
"""Maximum number of columns per layer of a cascade."""
Places = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TimeAxis:
    """The axis of a timeline, and the curve of its live bytes."""

    timeline: Timeline

    @cached_property
    def widths(self) -> tuple[float, ...]:
        """Columns of each stretch."""
        stretches = self.timeline.stretches
        striped = sum(s.layers for s in stretches if s.cascade is not None)
        whole = self.timeline.layers - striped
        each = min(MOST_COLUMNS, max(1.0, whole / max(1, striped)))
        return tuple(s.layers * (1.0 if s.cascade is None else each) for s in stretches)

    @cached_property
    def columns(self) -> float:
        """Total number of columns, including the two of the caller."""
        return sum(self.widths) + 2

    @cached_property
    def places(self) -> Places:
        """Column at which each tick begins, followed by the end of the axis."""
        ticks = np.cumsum([0, 1, *(stretch.calls for stretch in self.timeline.stretches), 1])
        bounds = np.cumsum([-1, 1, *self.widths, 1])
        return np.interp(np.arange(ticks[-1] + 1), ticks, bounds)

    @cached_property
    def bounds(self) -> tuple[float, ...]:
        """Column at which each stretch begins, followed by the end of the last one."""
        return tuple(np.cumsum([0.0, *self.widths]).tolist())

    @cached_property
    def middles(self) -> tuple[float, ...]:
        """Centre of the columns of each layer."""
        return tuple(
            begin + width * (k + 0.5) / stretch.layers
            for begin, width, stretch in zip(
                self.bounds, self.widths, self.timeline.stretches, strict=False
            )
            for k in range(stretch.layers)
        )

    def interval(self, piece: LivePiece) -> tuple[float, float]:
        """Return the columns of the live range of a piece."""
        return float(self.places[piece.born]), float(self.places[piece.dead])

    def between(self, left: float, right: float) -> tuple[float, float]:
        """Return the minimum and maximum of live bytes over the columns [left, right)."""
        first = max(0, int(np.searchsorted(self.places, left, side="right")) - 1)
        end = max(first + 1, int(np.searchsorted(self.places, right, side="left")))
        live = self.timeline.live_bytes[first:end]
        return float(live.min()), float(live.max())
