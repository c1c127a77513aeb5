"""What each memory holds and what each engine does over one inference, as report.json has it.

    bytes ^  +--+                       Span: a tensor or scratch buffer. Piece: bytes of a span
          |  |b1+--+                    with one live range; a span that is live as a whole is
          |  +--+b2+--+   +-----+       one piece, otherwise its pieces are rows. Stretch: a
          | a   +--+b3|   |  c  |       cascade or a single layer, and its ticks.
          |     |  +--+   +-----+
          +-----+------------------> ticks

Tick 0 is the caller writing the inputs. Each kernel call is one tick. In the last tick, the caller
reads the outputs. `scheduling/simulate/` uses the same ticks.

    processor   ####        #########      #: computes
    accelerator     ....####               .: waits for a prefetch
                +------------------> cycles

The cycles of a layer are exact; those of its calls are in proportion to the rows that they compute,
because the cost model does not divide the cost of a layer further.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.brief import Brief
from penstock.frozen import frozen

Numbers = npt.NDArray[np.int64]


class LivePiece(NamedTuple):
    """Bytes [lower_byte, upper_byte) in ticks [born, dead)."""

    lower_byte: int
    upper_byte: int
    born: int
    dead: int

    @property
    def size_bytes(self) -> int:
        return self.upper_byte - self.lower_byte


@frozen(repr=False)
class MemorySpan(Brief):
    """The bytes of a tensor, scratch buffer or copied constant.

    `layers` names the layers that write a tensor; it is empty for other buffers and for inputs.
    `by_rows` tells that its rows have live ranges or places of their own; `pieces` are as few
    rectangles as cover them.
    """

    name: str
    kind: str
    pieces: tuple[LivePiece, ...]
    layers: tuple[str, ...] = ()
    by_rows: bool = False

    @property
    def upper_byte(self) -> int:
        return max(piece.upper_byte for piece in self.pieces)

    @property
    def dead(self) -> int:
        return max(piece.dead for piece in self.pieces)

    @property
    def most_bytes(self) -> int:
        """Maximum number of bytes that are live at one tick."""
        return int(_live(self.pieces, self.dead + 1).max())


@frozen
class Stretch:
    """A cascade, or a layer that runs whole.

    `steps` are the numbers of its first and last step, or None if it has none. `cascade` is the
    index of the cascade, or None for a layer that runs whole.
    """

    layers: int
    calls: int
    steps: tuple[int, int] | None
    cascade: int | None

    @property
    def words(self) -> str:
        """Its steps as a phrase."""
        if self.steps is None:
            return "pull"
        first, last = self.steps
        return f"step {first}" if first == last else f"steps {first}–{last}"


@dataclass(frozen=True, repr=False)
class Timeline(Brief):
    """The contents of one memory over one inference. `memory` is None for the arena.

    The stretches are consecutive.
    """

    spans: tuple[MemorySpan, ...]
    stretches: tuple[Stretch, ...]
    memory: str | None = None

    @property
    def ticks(self) -> int:
        """Number of ticks: one per call, and two of the caller."""
        return 2 + sum(stretch.calls for stretch in self.stretches)

    @cached_property
    def live_bytes(self) -> Numbers:
        """Bytes that are live at each tick."""
        return _live((piece for span in self.spans for piece in span.pieces), self.ticks)

    @property
    def peak_bytes(self) -> int:
        return int(self.live_bytes.max())

    @property
    def peak_tick(self) -> int:
        """First tick at which the live bytes reach their peak."""
        return int(self.live_bytes.argmax())

    @property
    def height_bytes(self) -> int:
        """Highest address in use, in bytes."""
        return max((span.upper_byte for span in self.spans), default=0)


class Activity(Enum):
    """What an engine does."""

    COMPUTES = "computes"
    WAITS = "waits"


@frozen(repr=False)
class EngineSpan(Brief):
    """Cycles [lower, upper) that an engine spends on one activity, for some layers."""

    engine: str
    activity: Activity
    lower_cycles: float
    upper_cycles: float
    layers: tuple[str, ...]


@frozen(repr=False)
class EngineTimes(Brief):
    """The spans of all engines, and the cycles at which each call begins, followed by the end of
    the last one."""

    spans: tuple[EngineSpan, ...]
    call_cycles: tuple[float, ...]


def _live(pieces: Iterable[LivePiece], ticks: int) -> Numbers:
    """The number of live bytes at each tick."""
    table = np.array([(p.born, p.dead, p.size_bytes) for p in pieces], np.int64).reshape(-1, 3)
    change = np.zeros(ticks + 1, np.int64)
    np.add.at(change, table[:, 0], table[:, 2])
    np.add.at(change, table[:, 1], -table[:, 2])
    return np.cumsum(change)[:-1]


def merged_areas(pieces: Iterable[LivePiece]) -> tuple[LivePiece, ...]:
    """Return the area of pieces as few rectangles: pieces that follow each other at the same
    addresses are merged, then rectangles above each other with the same ticks."""
    over_time: list[LivePiece] = []
    for piece in sorted(pieces):
        last = over_time[-1] if over_time else None
        if last is not None and last[:2] == piece[:2] and last.dead == piece.born:
            over_time[-1] = last._replace(dead=piece.dead)
        else:
            over_time.append(piece)
    found: list[LivePiece] = []
    for piece in sorted(over_time, key=lambda p: (p.born, p.dead, p.lower_byte)):
        last = found[-1] if found else None
        if last is not None and last[2:] == piece[2:] and last.upper_byte == piece.lower_byte:
            found[-1] = last._replace(upper_byte=piece.upper_byte)
        else:
            found.append(piece)
    return tuple(found)
