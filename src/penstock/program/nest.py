"""nest: the loop nests of a cascade, written from its plan.

The parts of a cascade compute their rows on demand (`simulate/walk.py`); this is the same rule
as loops.  Each part that no other part asks for all of its rows is the root of a nest: a loop over
its stripes.  Before the call for a stripe, the nest contains a loop over the missing rows of each
producer, and so on recursively:

    producer that one place asks for     for (r = needed(first); r < needed(end); r += step)
    several places                       for (r = made; r < needed(end); r += step), which leaves
                                         `made` at its end

`needed` is a formula if there is one (`count_at`), else a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import groupby

import numpy as np

from penstock.program.expr import Expr, TableEntry, Var, binary
from penstock.program.program import Command, Counted, Loop, RowCounter
from penstock.scheduling.model.stripe import highest_stripe
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade
from penstock.scheduling.simulate.row_tables import RowTables

MakeCalls = Callable[[int, Expr, Expr], tuple[Command, ...]]
"""Returns the commands that compute rows [first, end) of the part at a position."""


def commands(tables: RowTables, cascade: ExpandedCascade, call: MakeCalls) -> tuple[Command, ...]:
    """The loop nests of a cascade, in order."""
    return tuple(_Nests(tables, cascade, call).commands())


@dataclass(frozen=True, slots=True)
class _Read:
    """What a part reads of a producer in the cascade: its first `needed[n]` rows, to have computed
    the first n rows of the output.

    A producer or reader that computes all rows at once counts as one row here.  image: the rows of
    an image of the reader."""

    producer: int
    needed: tuple[int, ...]
    image: int

    @property
    def is_identity(self) -> bool:
        return self.needed == tuple(range(len(self.needed)))


@dataclass(frozen=True)
class _Nests:
    """Writes the nests.

    made: by position, the turns that a part has had before the command that is written next or,
        in a loop, before the loop.  A turn is a row, or the only call of a part that computes all
        rows at once."""

    tables: RowTables
    cascade: ExpandedCascade
    call: MakeCalls
    made: dict[int, int] = field(default_factory=dict[int, int])

    def commands(self) -> Iterator[Command]:
        """The nests in the order in which `run_cascade` starts them."""
        t, positions = self.tables, range(self.cascade.lower, self.cascade.upper)
        if self.cascade.plan.whole_requests and len(positions) == 1:
            yield from self._calls_of_part_alone()
            return
        sinks = [p for p in positions if not self._is_read(p)]
        yield from (c for p in sinks if not t.late[p] for c in self._root(p))
        yield from (c for p in reversed(sinks) for c in self._root(p))
        yield from (c for p in positions for c in self._root(p))

    def _calls_of_part_alone(self) -> Iterator[Command]:
        """The calls of the only part, which may compute different numbers of rows."""
        rows = [call[:3] for call in self.cascade.calls.tolist()]
        for height, run in groupby(rows, lambda call: call[2] - call[1]):
            (position, lower, _), *_ = calls = list(run)
            upper, first = calls[-1][2], Var(f"r{position}")
            loop = Loop(first.name, lower, upper, height, ())
            if len(calls) == 1:
                yield from self._called(position, lower, upper)
            else:
                yield replace(loop, body=self._called(position, first, loop.after(first)))

    def _is_read(self, position: int) -> bool:
        """Whether the last reader of a part's output is in the cascade."""
        last = self.tables.last[self.tables.written[position]]
        return bool(self.cascade.lower <= last < self.cascade.upper)

    def _root(self, position: int) -> tuple[Command, ...]:
        """The nest that computes the missing rows of a part."""
        return self._produced(position, self.made.get(position, 0), self._turns(position), None)

    def _turns(self, position: int) -> int:
        """Number of turns of a part."""
        rows = self.tables.rows[self.tables.written[position]]
        return 1 if self.tables.whole[position] else int(rows)

    def _step(self, position: int) -> int:
        """Turns of an iteration; the first and the last one may have fewer."""
        if self.tables.whole[position]:
            return 1
        return highest_stripe(self.cascade.stripes[position - self.cascade.lower])

    @cached_property
    def _reads(self) -> Mapping[int, tuple[_Read, ...]]:
        """What each part reads of producers in the cascade, in the order of its requests."""
        positions = range(self.cascade.lower, self.cascade.upper)
        return {p: tuple(self._reads_of(p)) for p in positions}

    def _reads_of(self, position: int) -> Iterator[_Read]:
        t = self.tables
        for e in range(t.reads[position], t.reads[position + 1]):
            producer = int(t.maker[t.storage[e]])
            if not self.cascade.lower <= producer < self.cascade.upper:
                continue
            rows = int(t.rows[t.written[position]])
            needed = t.needed[t.table[e] : t.table[e] + rows + 1]
            if t.whole[position]:
                needed = needed[[0, rows]]
            if t.whole[producer]:
                needed = needed.clip(0, 1)
            yield _Read(producer, tuple(needed.tolist()), int(t.image[position]))

    def _period(self, position: int) -> int | None:
        """The rows of an image of a part whose calls compute rows of one image; None if there is
        only one, or if a call computes all rows or a single one."""
        turns, image = self._turns(position), int(self.tables.image[position])
        return image if image < turns and 1 < self._step(position) < turns else None

    def _produced(
        self, position: int, lower: Expr, upper: Expr, places: Counter[int] | None
    ) -> tuple[Command, ...]:
        """Commands for the turns [lower, upper) of a part.

        places: in a loop, the number of places in it that ask for each part; else None."""
        if isinstance(lower, int) and isinstance(upper, int):
            period = self._period(position) or self._turns(position)
            most = min(self._step(position), period - lower % period)
            if upper - lower <= most:
                return self._turn(position, lower, upper, places) if lower < upper else ()
        return (self._loop(position, lower, upper, places),)

    def _loop(self, position: int, lower: Expr, upper: Expr, places: Counter[int] | None) -> Loop:
        """The loop over the turns [lower, upper) of a part."""
        step, period = self._step(position), self._period(position)
        if period is not None and isinstance(lower, int) and not (period % step or lower % step):
            period = None  # the steps end with each image
        first = Var(f"r{position}")
        counted: Counted | None = None
        if places is not None and places[position] > 1:
            counted = Counted(_counter(position), f"upto{position}")
        limit = upper if counted is None else Var(counted.limit)
        loop = Loop(first.name, lower, upper, step, (), counted, period=period)
        end = (
            loop.after(first) if step == 1 or (loop.period and upper == self._turns(position)) else
            binary("min", loop.after(first), limit) if step < self._turns(position) else
            limit
        )  # fmt: skip
        inside = self._places(position) if places is None else places
        loop = replace(loop, body=self._turn(position, first, end, inside))
        if places is not None:
            return loop
        counters = tuple(
            RowCounter(_counter(p), self.made.get(p, 0))
            for p, count in sorted(inside.items())
            if count > 1
        )
        assert isinstance(upper, int)
        self._advance(position, upper)
        return replace(loop, counters=counters)

    def _places(self, root: int) -> Counter[int]:
        """The number of places in a loop over the turns of `root` that ask for each part."""
        found: Counter[int] = Counter()
        reached = [root]
        for position in reached:  # grows
            for read in self._reads[position]:
                found[read.producer] += 1
                if read.producer not in reached:
                    reached.append(read.producer)
        return found

    def _advance(self, position: int, upto: int) -> None:
        """Records that a part, and what it asks for, has had its turns."""
        if upto > self.made.get(position, 0):
            self.made[position] = upto
            for read in self._reads[position]:
                self._advance(read.producer, read.needed[upto])

    def _turn(
        self, position: int, first: Expr, end: Expr, places: Counter[int] | None
    ) -> tuple[Command, ...]:
        """Commands for one iteration: those of the producers, then the call."""
        before: list[Command] = []
        for read in self._reads[position]:
            before += self._supply(position, read, first, end, places)
        if places is None and isinstance(end, int):
            self.made[position] = end
        return (*before, *self._called(position, first, end))

    def _called(self, position: int, first: Expr, end: Expr) -> tuple[Command, ...]:
        """The call for some turns of a part."""
        if self.tables.whole[position]:
            first, end = 0, int(self.tables.rows[self.tables.written[position]])
        return self.call(position, first, end)

    def _supply(
        self,
        position: int,
        read: _Read,
        first: Expr,
        end: Expr,
        places: Counter[int] | None,
    ) -> tuple[Command, ...]:
        """Commands for the turns of a producer that an iteration lacks."""
        producer, made = read.producer, self.made.get(read.producer, 0)
        if places is None:
            assert isinstance(end, int)
            return self._produced(producer, made, max(made, read.needed[end]), None)
        if self._turns(position) == 1:
            first, end = 0, 1
        upper = count_at(read.needed, end, positive=True, image=read.image)
        if places[producer] > 1:
            return self._produced(producer, Var(_counter(producer)), upper, places)
        before = self.made.get(position, 0)
        aligned = read.is_identity and made == before
        aligned &= self._period(producer) in (None, self._period(position))
        if aligned and self._step(producer) >= self._step(position):
            return self._turn(producer, first, end, places)
        lower = count_at(read.needed, first, positive=False, image=read.image)
        if made > read.needed[before]:
            lower = binary("max", lower, made)
        return self._produced(producer, lower, upper, places)


def _counter(position: int) -> str:
    """The counter of the turns of a part."""
    return f"made{position}"


# The bounds of loops: sequences of row counts, as formulas of sliding windows where one exists.

MOST_DIVISOR = 8


@dataclass(frozen=True, slots=True)
class Formula:
    """min(most, max(0, (factor * n + offset) // divisor)) for n > 0, and 0 for n = 0."""

    factor: int
    offset: int
    divisor: int
    most: int
    rows: int

    def at(self, n: Expr, *, positive: bool) -> Expr:
        """The count for n; `positive` is true if n is known to be positive."""
        linear = binary("+", binary("*", n, self.factor), self.offset)
        count = binary("//", linear, self.divisor)
        if self._linear(1) < 0 or (not positive and self.offset < 0):
            count = binary("max", count, 0)
        if self._linear(self.rows) > self.most:
            count = binary("min", count, self.most)
        if not positive and self.offset >= self.divisor:
            count = binary("min", count, binary("*", n, self.most))
        return count

    def _linear(self, n: int) -> int:
        return (self.factor * n + self.offset) // self.divisor


@cache
def formula(counts: tuple[int, ...]) -> Formula | None:
    """The formula of the counts for n = 0, 1, ..; None if there is none."""
    table = np.array(counts)
    n = np.arange(len(counts))
    middle = len(counts) // 2
    for divisor in range(1, min(MOST_DIVISOR, len(counts) - middle - 1) + 1):
        factor = counts[middle + divisor] - counts[middle]
        for rest in range(divisor):
            offset = counts[middle] * divisor - factor * middle + rest
            found = np.clip((factor * n + offset) // divisor, 0, table.max())
            if (found[1:] == table[1:]).all() and counts[0] == 0:
                return Formula(factor, offset, divisor, int(table.max()), len(counts) - 1)
    return None


def count_at(counts: tuple[int, ...], n: Expr, *, positive: bool, image: int | None = None) -> Expr:
    """The count for n, by formula or from a table.

    image: rows of an image; a formula may hold for the rows of each image."""
    if isinstance(n, int):
        return counts[n]
    found = formula(counts)
    if found is not None:
        return found.at(n, positive=positive)
    if image is not None and _repeats(counts, image):
        found = formula(counts[:image])
        if found is not None:
            number = binary("//", n, image)
            row = binary("-", n, binary("*", number, image))
            before = binary("*", number, counts[image])
            return binary("+", before, found.at(row, positive=False))
    return TableEntry(counts, n)


def _repeats(counts: tuple[int, ...], image: int) -> bool:
    """Whether the counts of all images are alike, each on top of those before."""
    n = np.arange(len(counts))
    first = np.array(counts[: image + 1])
    return bool((np.array(counts) == n // image * first[-1] + first[n % image]).all())
