"""regions: cascades where it matters which memory a tensor lives in, and what is copied when.

As `uniform`, with choices more.  Of a cascade: the memory of the tensors that only it knows, that
of each tensor that it hands on, and whether constants that it reads again and again are copied
before it.  The memories of the tensors that live at a position are the state there, so the
programming stays exact for these choices; inputs and outputs live where the caller finds them.
Of large networks, what cascades hand on lives in the first memory.
Of a part's inputs, the one that reads furthest ahead is always asked for first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from penstock.ir.graph import Value
from penstock.scheduling.cost import Around, CostModel
from penstock.scheduling.demand import (
    NO_CEILING,
    WHOLE,
    Numbers,
    peaks_and_time,
    tables_of,
    unfold,
)
from penstock.scheduling.memories import FINE, Memories
from penstock.scheduling.options import Options
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.proposals import Away, Candidate, Proposal, Valued
from penstock.scheduling.scratch import Rooms

FILL = 0.9
"""How much of a memory but the first may be alive at a time; addresses need the rest."""
MOST_HANDED_APART = 3
"""Of more tensors that a cascade hands on, all live in one memory."""


def reading(memories: Memories, memory: str, part: Part, constant: Value) -> Numbers:
    """Fine units that reading a constant in a memory adds to the first call of a part, and to each
    other one."""
    first = memories.access(memory, constant.type.size_bytes)
    return np.array([first, memories.accesses(memory, *part.read_again(constant))], np.int64)


class Arounds:
    """Where the tensors of parts live, by the memories of storages."""

    def __init__(self, parts: Parts, order: tuple[int, ...], memories: Memories) -> None:
        self._names = ["", *(memory.name for memory in memories.tensors[1:])]
        index = {storage.name: s for s, storage in enumerate(parts.rows.storages)}
        self._storages = [
            [
                -1 if value.data is not None else index[parts.owners[value.name]]
                for value in (*part.inputs, part.output)
            ]
            for part in (parts.parts[k] for k in order)
        ]

    def of(self, lower: int, upper: int, home: Numbers) -> Iterator[tuple[int, Around]]:
        """The parts at positions in an interval that have tensors in another memory than the first,
        and where; `home`: of each storage, the number of its memory."""
        if not home.any():
            return
        for p in range(lower, upper):
            found = tuple(self._names[home[s]] if s >= 0 else "" for s in self._storages[p])
            if any(found):
                yield p, found


@dataclass(frozen=True, slots=True, eq=False)
class _Cascade:
    """A cascade, unfolded: its candidate without choices, its calls, the storages that only it
    knows and those that it hands on, as far as their homes are free."""

    candidate: Candidate
    calls: Numbers
    inner: tuple[int, ...]
    handed: tuple[int, ...]


class RegionSearch:
    """The candidates for one order, with memories chosen."""

    def __init__(
        self,
        parts: Parts,
        order: tuple[int, ...],
        model: CostModel,
        memories: Memories,
        options: Options,
    ) -> None:
        self._order, self._memories, self._options = order, memories, options
        self._free = len(order) <= options.max_free_parts
        self._parts = [parts.parts[k] for k in order]
        self._model, self._around = model, Arounds(parts, order, memories)
        calls = tuple(model.call_cycles(part) for part in parts.parts)
        self._scratch = Rooms.of(parts, order, model)
        keep = options.keep_input
        self._tables = tables_of(
            parts.rows, order, call_cycles=calls, keep_inputs=keep, nearest_first=False
        )
        self._fixed = frozenset((*parts.rows.inputs, *parts.rows.outputs))
        self._waits = np.array([memories.waits(m) for m in memories.every], np.int64)
        rooms = [NO_CEILING, *(int(m.size_bytes * FILL) for m in memories.tensors[1:])]
        self._rooms = np.array(rooms, np.int64)
        home = memories.constants.name
        self._moved: dict[tuple[int, Around], Numbers] = {}
        self._reading = np.zeros((2, len(order)), np.int64)
        self._readers: dict[str, list[tuple[int, Value]]] = {}
        for p, part in enumerate(self._parts):
            for value in part.constants:
                self._reading[:, p] += reading(memories, home, part, value)
                self._readers.setdefault(value.name, []).append((p, value))

    def proposal(self, cascades: Sequence[Candidate], inputs_bytes: int) -> Proposal | None:
        """Cascades that cover the order, with as much scratch as does good; None where a memory but
        the first is too small."""
        home = np.zeros(len(self._tables.rows), np.int64)
        for s, m in (pair for cascade in cascades for pair in cascade.away):
            home[s] = m
        chosen: list[Valued] = []
        for c in cascades:
            calls = unfold(self._tables, c.lower, c.upper, c.stripe)
            found = self._value(_Cascade(c, calls, (), ()), home, c.copied)
            if found is None:
                return None
            every = self._scratch.valued(c, *found, FINE)
            chosen.append(min(every, key=lambda v: (v.time, v.peak_bytes)))
        return Proposal.of(self._order, chosen, inputs_bytes)

    def plans(self, upper: int, states: Sequence[Iterable[Away]]) -> Iterator[Valued]:
        """The candidates that end at a position."""
        for lower in range(upper - 1, max(-1, upper - 1 - self._options.max_region_parts), -1):
            for cascade in self._cascades(lower, upper):
                for before in states[lower]:
                    yield from self._placed(cascade, before)

    def _cascades(self, lower: int, upper: int) -> Iterator[_Cascade]:
        stripes = [1 << k for k in range(self._options.max_stripe.bit_length())]
        for stripe in [WHOLE, *stripes] if upper - lower == 1 else stripes:
            t = self._tables
            calls = unfold(t, lower, upper, stripe)
            made = [int(s) for s in t.written[lower:upper] if int(s) not in self._fixed]
            yield _Cascade(
                Candidate(lower, upper, stripe, False),
                calls,
                tuple(s for s in made if t.last[s] < upper),
                tuple(s for s in made if t.last[s] >= upper),
            )

    def _placed(self, cascade: _Cascade, before: Away) -> Iterator[Valued]:
        """A cascade with every choice of homes and copies that fits into the memories."""
        c, t = cascade.candidate, self._tables
        for inner, *handed in self._homes(len(cascade.inner), len(cascade.handed)):
            mine = [(s, inner) for s in cascade.inner if inner]
            mine += [(s, m) for s, m in zip(cascade.handed, handed, strict=True) if m]
            home = np.zeros(len(t.rows), np.int64)
            for s, m in (*before, *mine):
                home[s] = m
            after = tuple(sorted(x for x in (*before, *mine) if t.last[x[0]] >= c.upper))
            for copied in self._copied(cascade):
                found = self._value(cascade, home, copied)
                if found is not None:
                    candidate = replace(c, away=tuple(sorted(mine)), copied=copied)
                    for room in self._scratch.valued(candidate, *found, FINE):
                        yield replace(room, before=before, after=after)

    def _homes(self, inner: int, handed: int) -> Iterator[tuple[int, ...]]:
        """Homes of what only the cascade knows, then of each tensor that it hands on."""
        memories = range(len(self._rooms))
        if not self._free:
            yield from ((one, *(0,) * handed) for one in (memories if inner else (0,)))
            return
        for one in memories if inner else (0,):
            if handed <= MOST_HANDED_APART:
                yield from ((one, *rest) for rest in product(memories, repeat=handed))
            else:
                yield from ((one, *(m,) * handed) for m in memories)

    def _copied(self, cascade: _Cascade) -> Iterator[tuple[tuple[str, int, int], ...]]:
        """No copies; and, for each memory, those that take less time than they spare."""
        yield ()
        if self._memories.copier is None or not self._options.copies:
            return
        positions, counts = np.unique(cascade.calls[:, 0], return_counts=True)
        for m, memory in enumerate(self._memories.tensors):
            pays = tuple(
                (name, size, m)
                for p, calls in zip(positions.tolist(), counts.tolist(), strict=True)
                for value in self._parts[p].constants
                for name, size in [(value.name, value.type.size_bytes)]
                if self._spared(p, value, memory.name) @ (1, calls - 1)
                > FINE * self._copy(size, memory.name)
            )
            if pays:
                yield pays

    def _spared(self, position: int, value: Value, memory: str) -> Numbers:
        """Fine units that the first call, and each other one, spares of the part at a position if
        it reads a constant in another memory."""
        part, constants = self._parts[position], self._memories.constants.name
        slow, fast = (reading(self._memories, m, part, value) for m in (constants, memory))
        return slow - fast

    def _copy(self, size: int, memory: str) -> int:
        """Cycles that a processor waits for a constant to be copied."""
        copier = self._memories.copier
        assert copier is not None
        constants = self._memories.constants.name
        return copier.setup_cycles + self._memories.copy_cycles(constants, memory, size)

    def _value(
        self, cascade: _Cascade, home: Numbers, copied: tuple[tuple[str, int, int], ...]
    ) -> tuple[int, int] | None:
        """Peak in the first memory and time; None where another memory is too small."""
        c = cascade.candidate
        names = [memory.name for memory in self._memories.tensors]
        constants = self._reading[:, c.lower : c.upper].copy()
        extra = np.zeros(len(names), np.int64)
        for name, size, m in copied:
            extra[m] += size
            for p, value in self._readers[name]:
                if c.lower <= p < c.upper:
                    constants[:, p - c.lower] -= self._spared(p, value, names[m])
        for p, around in self._around.of(c.lower, c.upper, home):
            constants[:, p - c.lower] += self._added(p, around)
        found = peaks_and_time(
            self._tables,
            c.lower,
            c.upper,
            cascade.calls,
            home,
            extra,
            constants,
            self._waits,
            self._rooms,
        )
        if found is None:
            return None
        peaks, time = found
        wait = sum(FINE * self._copy(size, names[m]) for _, size, m in copied)
        return int(peaks[0]), time + wait

    def _added(self, position: int, around: Around) -> Numbers:
        """Fine units that the first call, and each other one, takes more of the part at a position
        than where all its tensors live in the first memory, as far as its engine says."""
        found = self._moved.get((position, around))
        if found is None:
            part, model = self._parts[position], self._model
            call = model.call_cycles(part, around) - model.call_cycles(part)
            work = model.work_cycles(part, around) - model.work_cycles(part)
            found = FINE * np.array([work + call, call], np.int64)
            self._moved[position, around] = found
        return found
