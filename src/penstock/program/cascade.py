"""cascade: the loop nests of a cascade, derived from its expanded schedule.

Each part that no other part of the cascade reads is the root of a nest: a loop over its stripes.
Before the call for a stripe, the nest contains a loop over the missing rows of each producer, and
so on recursively.  The bounds of such an inner loop are the rows that the outer stripe needs
without those already computed: formulas of the outer variable if there are any (`bounds`), else
look-ups in tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.program.bounds import count_at
from penstock.program.expr import Expr, TableEntry, Var, binary
from penstock.program.program import Command, Loop
from penstock.scheduling.model.row_stripes import highest_stripe
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade
from penstock.scheduling.simulate.row_tables import Numbers, RowTables

MakeCalls = Callable[[int, Expr, Expr], tuple[Command, ...]]
"""Returns the commands that compute rows [first, end) of the part at a position."""


def commands(
    tables: RowTables, cascade: ExpandedCascade, call: MakeCalls, waits: Mapping[int, Command]
) -> tuple[Command, ...]:
    """The loop nests of a cascade, in order.

    `waits`: by position of a part whose calls are asynchronous copies, the command that waits for
    them.  It precedes each call of the part that reads the copies.  If no part of the cascade reads
    them, it precedes each copy, so that at most one is under way, and follows the last one."""
    there: dict[int, int] = {}
    found: list[Command] = []
    for turns in _nests(cascade.calls):
        nest = _Nest(tables, cascade, call, waits, _asked(turns), dict(there))
        sink, first = int(turns[-1, 0]), int(turns[turns[:, 0] == turns[-1, 0]][0, 1])
        found += nest.produced(sink, first, int(turns[-1, 2]))
        if sink in waits and not tables.on_request[sink]:
            found.append(waits[sink])
        for position in np.unique(turns[:, 0]).tolist():
            there[position] = int(turns[turns[:, 0] == position][-1, 2])
    return tuple(found)


def _nests(calls: Numbers) -> Iterator[Numbers]:
    """Yields the calls of each nest: the calls of a cascade, split after the last call of each
    root."""
    sinks = calls[:, 0] == calls[:, 3]
    ends = [
        int(np.flatnonzero(sinks & (calls[:, 0] == position))[-1]) + 1
        for position in dict.fromkeys(calls[sinks, 0].tolist())
    ]
    for first, end in zip([0, *ends], ends, strict=False):
        yield calls[first:end]


Asked = Mapping[tuple[int, int], Mapping[tuple[int, int], tuple[int, int]]]
"""For each (consumer, producer), the rows of the producer computed for each stripe of the
consumer."""


def _asked(calls: Numbers) -> Asked:
    """The rows computed for each stripe of a consumer, (0, 0) for stripes that need no new ones."""
    waiting: dict[int, dict[int, tuple[int, int]]] = {}
    found: dict[tuple[int, int], dict[tuple[int, int], tuple[int, int]]] = {}
    stripes: dict[int, list[tuple[int, int]]] = {}
    for a, first, end, asker in calls.tolist():
        stripes.setdefault(a, []).append((first, end))
        for producer, rows in waiting.pop(a, {}).items():
            found.setdefault((a, producer), {})[first, end] = rows
        if asker != a:
            mine = waiting.setdefault(asker, {})
            mine[a] = (mine.get(a, (first, 0))[0], end)
    return {
        pair: {stripe: rows.get(stripe, (0, 0)) for stripe in stripes[pair[0]]}
        for pair, rows in found.items()
    }


@dataclass(frozen=True, slots=True)
class _Nest:
    """The loop nest of one root."""

    tables: RowTables
    cascade: ExpandedCascade
    call: MakeCalls
    waits: Mapping[int, Command]
    asked: Asked
    there: Mapping[int, int]
    loops: dict[int, tuple[Command, ...]] = field(default_factory=dict[int, tuple[Command, ...]])

    def rows(self, position: int) -> int:
        """Number of rows of a part's output."""
        return int(self.tables.rows[self.tables.written[position]])

    def step(self, position: int) -> int:
        """Number of rows of a part's stripes; the first and the last ones may have fewer."""
        if self.tables.whole[position]:
            return self.rows(position)
        return highest_stripe(self.cascade.stripes[position - self.cascade.lower])

    def produced(self, position: int, lower: Expr, upper: Expr) -> tuple[Command, ...]:
        """Commands that compute rows [lower, upper) of a part, stripe by stripe."""
        if self.tables.on_request[position]:
            return self.call(position, lower, upper)
        rows = self.rows(position)
        whole = bool(self.tables.whole[position])
        step = self.step(position)
        if isinstance(lower, int) and isinstance(upper, int) and upper - lower <= step:
            return self._turn(position, lower, upper) if lower < upper else ()
        first = Var(f"r{position}")
        end = (
            binary("+", first, 1) if step == 1 else
            binary("min", binary("+", first, step), upper) if step < rows else
            upper
        )  # fmt: skip
        body = self._turn(position, 0, rows) if whole else self._turn(position, first, end)
        return (Loop(first.name, lower, upper, step, body),)

    def _turn(self, position: int, first: Expr, end: Expr) -> tuple[Command, ...]:
        """Commands for one stripe: those of its producers, then its call."""
        before: list[Command] = []
        for e in range(self.tables.reads[position], self.tables.reads[position + 1]):
            producer = int(self.tables.maker[self.tables.storage[e]])
            if producer in self.waits:
                before.append(self.waits[producer])
            if (position, producer) in self.asked:
                before += self._supply(position, producer, e, first, end)
        if position in self.waits and not self.tables.on_request[position]:
            before.append(self.waits[position])
        return (*before, *self.call(position, first, end))

    def _supply(
        self, position: int, producer: int, e: int, first: Expr, end: Expr
    ) -> tuple[Command, ...]:
        """Commands that compute the rows of a producer that a stripe needs."""
        asked = self.asked[position, producer]
        if (
            all(stripe == rows for stripe, rows in asked.items())
            and not self.tables.whole[producer]
            and not self.tables.whole[position]  # its call may exceed a stripe of the producer
        ):
            return self._turn(producer, first, end)
        lower, upper = self._bounds(asked, producer, e, first, end)
        return self.produced(producer, lower, upper)

    def _bounds(
        self,
        asked: Mapping[tuple[int, int], tuple[int, int]],
        producer: int,
        e: int,
        first: Expr,
        end: Expr,
    ) -> tuple[Expr, Expr]:
        t = self.tables
        rows = self.rows(int(t.reader[e]))
        needed = tuple(t.needed[t.table[e] : t.table[e] + rows + 1].tolist())
        there = self.there.get(producer, 0)
        by_need = all(
            upper == needed[b] and lower == max(needed[a], there)
            if lower < upper
            else needed[b] <= max(needed[a], there)
            for (a, b), (lower, upper) in asked.items()
        )
        if by_need:
            lower = count_at(needed, first, positive=False)
            lower = binary("max", lower, there) if there else lower
            return lower, count_at(needed, end, positive=True)
        lowers, uppers = [0] * rows, [0] * rows
        for (a, _), (lower, upper) in asked.items():
            lowers[a], uppers[a] = lower, upper
        if isinstance(first, int):
            return lowers[first], uppers[first]
        return TableEntry(tuple(lowers), first), TableEntry(tuple(uppers), first)
