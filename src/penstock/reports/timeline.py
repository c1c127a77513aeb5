"""Timeline: a memory over one inference: which bytes hold whose data, tick by tick.

    bytes ^  +--+                       a Span is a tensor (or scratch); a Piece, some of its bytes
          |  |b1+--+                    that live and die together: all of them where it lives
          |  +--+b2+--+   +-----+       whole, else rows of it; a Stretch, a cascade or a single
          | a   +--+b3|   |  c  |       layer, and the ticks that it takes
          |     |  +--+   +-----+
          +-----+------------------> ticks

Ticks are those of `scheduling/lifetimes.py`: 0 is the caller's who writes the inputs, then one for
each call of a kernel, then the caller's who reads the outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt

from penstock.brief import Brief
from penstock.program.program import Kind, Program, Rows
from penstock.program.steps import steps, views_of, walk
from penstock.reports.engine_work import is_offloaded
from penstock.scheduling.lifetimes import Unfolded, copy_name, problems
from penstock.scheduling.schedule import Schedule

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [lower_byte, upper_byte) in ticks [born, dead)."""

    lower_byte: int
    upper_byte: int
    born: int
    dead: int

    @property
    def size_bytes(self) -> int:
        return self.upper_byte - self.lower_byte


@dataclass(frozen=True, slots=True, repr=False)
class Span(Brief):
    """What a tensor, a kernel's scratch or a copied constant occupies of the memory."""

    name: str
    kind: str
    pieces: tuple[Piece, ...]

    @property
    def lower_byte(self) -> int:
        return min(piece.lower_byte for piece in self.pieces)

    @property
    def upper_byte(self) -> int:
        return max(piece.upper_byte for piece in self.pieces)

    @property
    def born(self) -> int:
        return min(piece.born for piece in self.pieces)

    @property
    def dead(self) -> int:
        return max(piece.dead for piece in self.pieces)

    @property
    def most_bytes(self) -> int:
        """The most bytes that it has at a time."""
        return int(_live(self.pieces, self.dead + 1).max())


@dataclass(frozen=True, slots=True)
class Stretch:
    """A cascade, or a layer that runs whole: so many layers, in so many calls; the numbers of its
    first and last step, None where it has no step; which of the cascades it is, None where it runs
    whole."""

    layers: int
    calls: int
    steps: tuple[int, int] | None
    cascade: int | None

    @property
    def words(self) -> str:
        """Which steps it has."""
        if self.steps is None:
            return "pull"
        first, last = self.steps
        return f"step {first}" if first == last else f"steps {first}–{last}"


@dataclass(frozen=True, slots=True)
class Turn:
    """Ticks [begun, ended) in which one engine runs, and no other; `offloaded`: an accelerator."""

    engine: str
    offloaded: bool
    begun: int
    ended: int


@dataclass(frozen=True, repr=False)
class Timeline(Brief):
    """A memory over one inference; its stretches follow each other.  No name: the arena.

    `turns`: where there are accelerators, who runs when, one after the other."""

    spans: tuple[Span, ...]
    stretches: tuple[Stretch, ...]
    memory: str | None = None
    turns: tuple[Turn, ...] = ()

    @property
    def ticks(self) -> int:
        """The caller's first, one a call, the caller's last."""
        return 2 + sum(stretch.calls for stretch in self.stretches)

    @property
    def layers(self) -> int:
        """Layers of all stretches."""
        return sum(stretch.layers for stretch in self.stretches)

    @cached_property
    def live_bytes(self) -> Numbers:
        """By tick, bytes that hold what someone will still read."""
        return _live((piece for span in self.spans for piece in span.pieces), self.ticks)

    @property
    def peak_bytes(self) -> int:
        return int(self.live_bytes.max())

    @property
    def peak_tick(self) -> int:
        """The first tick of greatest need."""
        return int(self.live_bytes.argmax())

    @property
    def height_bytes(self) -> int:
        """Where the highest piece ends."""
        return max((span.upper_byte for span in self.spans), default=0)

    def when(self, tick: int) -> str:
        """A tick in words."""
        begun = 1
        if tick < begun:
            return "before the run"
        for stretch in self.stretches:
            if tick < begun + stretch.calls:
                call = f" (call {tick - begun + 1} of {stretch.calls})"
                return stretch.words + (call if stretch.calls > 1 else "")
            begun += stretch.calls
        return "after the run"


def timelines(schedule: Schedule, program: Program) -> tuple[Timeline, ...]:
    """The timelines of a schedule that is lowered: of the arena, then of other memories."""
    unfolded = Unfolded(schedule)
    homes = {buffer.name: buffer.memory for buffer in program.buffers}
    spans = (*_tensors(unfolded, program), *_others(unfolded, program))
    stretches = tuple(_stretches(unfolded, program))
    turns = tuple(_turns(unfolded))
    return tuple(
        Timeline(
            tuple(span for span in spans if homes[span.name] == memory.name),
            stretches,
            memory.name if k else None,
            turns,
        )
        for k, memory in enumerate(program.ram())
    )


def _stretches(unfolded: Unfolded, program: Program) -> Iterator[Stretch]:
    numbers = {step.output.tensor: number for step, number in steps(program).items()}
    parts, cascade = unfolded.schedule.steps, 0
    for found in unfolded.cascades:
        names = [part.name for part in parts[found.lower : found.upper]]
        own = [numbers[name] for name in names if name in numbers]
        striped = found.plan.stripe is not None
        yield Stretch(
            len(names),
            len(found.calls),
            (min(own), max(own)) if own else None,
            cascade if striped else None,
        )
        cascade += striped


def _turns(unfolded: Unfolded) -> Iterator[Turn]:
    """The turns of the engines; none where no accelerator runs anything."""
    parts = unfolded.schedule.steps
    if not any(map(is_offloaded, parts)):
        return
    engines = [(part.engine, is_offloaded(part)) for part in parts]
    calls = (engines[k] for c in unfolded.cascades for k in c.calls[:, 0].tolist())
    tick = 1
    for (engine, offloaded), turn in groupby(calls):
        ended = tick + len(list(turn))
        yield Turn(engine, offloaded, tick, ended)
        tick = ended


def _tensors(unfolded: Unfolded, program: Program) -> Iterator[Span]:
    """A span for each storage."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    views = {view.tensor: view for view in program.inputs}
    views |= {view.tensor: view for c in walk(program.run) for view in views_of(c)[-1:]}
    lives, ends = unfolded.lives, _ends(unfolded)
    for s, storage in enumerate(unfolded.schedule.parts.rows.storages):
        buffer = buffers[storage.name]
        rows = slice(int(lives.starts[s]), int(lives.starts[s]) + storage.places)
        places = buffer.address + _offsets(views[storage.name].rows, storage.places)
        pieces = _pieces(places, lives.born[rows], ends[rows], storage.row_bytes)
        yield Span(storage.name, buffer.kind.value, tuple(pieces))


def _offsets(rows: Rows, count: int) -> Numbers:
    """Where each of so many rows lies, from the beginning of their buffer."""
    if rows.table is not None:
        return np.array(rows.table, np.int64)
    return np.arange(count) % rows.ring * rows.pitch


def _ends(unfolded: Unfolded) -> Numbers:
    """By row, when its bytes are its own no longer: it is dead, or another is written over it."""
    lives = unfolded.lives
    ends = lives.dead.copy()
    for s in range(len(lives.starts) - 1):
        mine = np.arange(lives.starts[s], lives.starts[s + 1])
        mine = mine[lives.over[mine] >= 0]
        below = lives.starts[lives.over[mine]] + mine - lives.starts[s]
        ends[below] = np.minimum(ends[below], lives.born[mine])
    return ends


def _pieces(places: Numbers, born: Numbers, dead: Numbers, row_bytes: int) -> Iterator[Piece]:
    """Rows, those together that lie one behind the other and have one life."""
    follows = (np.diff(places) == row_bytes) & (np.diff(born) == 0) & (np.diff(dead) == 0)
    bounds = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(places)]
    for first, end in pairwise(bounds):
        lower = int(places[first])
        upper = lower + (end - first) * row_bytes
        yield Piece(lower, upper, int(born[first]), int(dead[first]))


def _others(unfolded: Unfolded, program: Program) -> Iterator[Span]:
    """Scratch of kernels, and constants that are copied."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    schedule = unfolded.schedule
    copies = {copy_name(schedule, copy) for plan in schedule.plans for copy in plan.copies}
    for life in (life for _, problem in problems(unfolded) for life in problem.buffers):
        buffer = buffers.get(life.name)
        if buffer is not None and (buffer.kind is Kind.SCRATCH or life.name in copies):
            kind = Kind.CONSTANT if life.name in copies else Kind.SCRATCH
            end = buffer.address + buffer.size_bytes
            piece = Piece(buffer.address, end, life.lower, life.upper)
            yield Span(life.name, kind.value, (piece,))


def _live(pieces: Iterable[Piece], ticks: int) -> Numbers:
    """By tick, the bytes of the pieces that are alive."""
    table = np.array([(p.born, p.dead, p.size_bytes) for p in pieces], np.int64).reshape(-1, 3)
    change = np.zeros(ticks + 1, np.int64)
    np.add.at(change, table[:, 0], table[:, 2])
    np.add.at(change, table[:, 1], -table[:, 2])
    return np.cumsum(change)[:-1]
