"""lower: translates a schedule with addresses into a program.

Bands of columns are a loop over consecutive bands that are alike.  In a band that computes all
rows, the commands are the loop nests of its cascade.  In a chain, they are a call of each part, for
the rows that the call of the chain needs.

The parts of a cascade compute their rows on demand (`simulate/walk.py`); nests are the same rule as
loops.  Each part that no other part asks for all of its rows is the root of a nest: a loop over
its stripes.  Before the call for a stripe, the nest contains a loop over the missing rows of each
producer, and so on recursively:

    producer that one place asks for     for (r = needed(first); r < needed(end); r += step)
    several places                       for (r = made; r < needed(end); r += step), which leaves
                                         `made` at its end

`needed` is a formula if there is one (`count_at`), else a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import groupby, zip_longest

import numpy as np

from penstock.frozen import frozen
from penstock.ir.tensor import row_count
from penstock.program.constants import (
    band_tables,
    constant_buffers,
    initial_constant,
    initial_name,
    only_byte,
)
from penstock.program.expr import Expr, TableEntry, Var, binary
from penstock.program.program import (
    Buffer,
    Command,
    Counted,
    Discard,
    FillTensor,
    Kind,
    LoadTensor,
    Loop,
    Memory,
    Program,
    RowCounter,
    Rows,
    View,
)
from penstock.program.writer import (
    Addresses,
    Fills,
    Laid,
    Writer,
    counter_view,
    laid_storages,
    scratch_buffers,
)
from penstock.scheduling.bands.band_schedule import band_cascade, band_windows, expanded_band
from penstock.scheduling.model.bands import Band, Bands, KeptTensor, TensorSection
from penstock.scheduling.model.plan import Plan, Prefetch
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stripe import highest_stripe
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedCascade,
    ExpandedSchedule,
    prefetch_name,
    scratch_name,
)
from penstock.scheduling.simulate.row_tables import RowTables


def lower(expanded: ExpandedSchedule, addresses: Addresses) -> Program:
    """The program of a schedule: a call for a part that runs at once, loops for a cascade."""
    schedule = expanded.schedule
    graph, memory = schedule.parts.graph, schedule.memory
    constants = constant_buffers(expanded, memory.constants)
    constant_bytes = max((b.address + b.size_bytes for b in constants), default=0)
    writer = Writer(expanded, laid_storages(expanded, addresses))
    return Program(
        graph.name,
        (
            *(Memory(name, height, writable=True) for name, height in addresses.heights),
            Memory(memory.constants, constant_bytes, writable=False),
        ),
        (
            *writer.buffers(),
            *scratch_buffers(expanded, addresses),
            *band_buffers(expanded, addresses),
            *_prefetched(expanded, addresses),
            *constants,
        ),
        tuple(writer.view(v) for v in schedule.parts.inputs),
        tuple(writer.view(v) for v in graph.outputs),
        reset=tuple(_reset(expanded, writer)),
        run=(
            *_run(expanded, addresses, writer),
            *map(writer.update, schedule.parts.updates),
            *map(writer.advance, schedule.parts.queues),
        ),
    )


def _run(expanded: ExpandedSchedule, addresses: Addresses, writer: Writer) -> Iterator[Command]:
    """Commands of all cascades."""
    cascades = expanded.cascades
    for cascade, after in zip_longest(cascades, cascades[1:]):
        tables = expanded.tables_for(cascade.plan)
        fills = {int(cascade.calls[0, 0]): first_fills(cascade, after)}
        calls = partial(_calls, addresses, writer, cascade, fills)
        yield from commands(tables, cascade, calls)


def _calls(
    addresses: Addresses,
    writer: Writer,
    cascade: ExpandedCascade,
    fills: Fills,
    position: int,
    first: Expr,
    end: Expr,
) -> tuple[Command, ...]:
    """The commands that compute rows [first, end) of the part at a position: a call or bands."""
    schedule = writer.expanded.schedule
    bands = schedule.find_bands(schedule.parts.parts[schedule.order[position]])
    if bands is None:
        return writer.calls(cascade.plan, fills, position, first, end)
    return tuple(band_commands(addresses, writer, bands, cascade, (first, end)))


def _reset(expanded: ExpandedSchedule, writer: Writer) -> Iterator[Command]:
    """Commands that set all states and queues to their initial elements, and counters to 0."""
    parts = expanded.schedule.parts
    for queue in parts.queues:
        yield FillTensor(counter_view(queue), 0)
    for state in (*parts.graph.states, *parts.graph.queues):
        target = writer.view(state.before)
        byte = only_byte(state.initial)
        name = initial_name(expanded, state)
        source = View.whole(name, initial_constant(name, state).type, name)
        yield LoadTensor(target, source) if byte is None else FillTensor(target, byte)


def first_fills(cascade: ExpandedCascade, after: ExpandedCascade | None) -> tuple[Prefetch, ...]:
    """The prefetches that the first call of a cascade issues: its own, and the early ones of the
    next cascade."""
    following = after.plan.prefetches if after is not None else ()
    own = (fill for fill in cascade.plan.prefetches if not fill.early)
    return (*own, *(fill for fill in following if fill.early))


def _prefetched(expanded: ExpandedSchedule, addresses: Addresses) -> tuple[Buffer, ...]:
    """One buffer for each prefetched constant."""
    schedule = expanded.schedule
    named = (
        (prefetch_name(schedule, prefetch), prefetch.size_bytes)
        for plan in schedule.plans
        for prefetch in plan.prefetches
    )
    home = schedule.memory.default
    return tuple(
        Buffer(name, Kind.ARENA, home, addresses.offsets[name], size) for name, size in named
    )


BAND = Var("band")
"""Loop variable: number of a band among consecutive bands that are alike."""


def band_commands(
    addresses: Addresses,
    writer: Writer,
    bands: Bands,
    cascade: ExpandedCascade,
    rows: tuple[Expr, Expr],
) -> Iterator[Command]:
    """Commands of all bands in a call of the part that stands for them, for rows (first, end).

    writer, cascade: those of the network.
    """
    for band in bands.bands:
        inner = band_writer(addresses, writer, cascade.plan, bands.kept, band)
        calls = band_cascade(inner.expanded, bands, cascade)
        if bands.call_rows is None:
            tables = inner.expanded.tables_for(calls.plan)
            body = commands(tables, calls, partial(inner.calls, calls.plan, {}))
        else:
            body = tuple(_chain_calls(replace(inner, chain=calls), band, *rows))
        yield from body if band.count == 1 else (Loop(BAND.name, 0, band.count, 1, body),)
    yield from (Discard(kept.tensor) for kept in bands.kept)


def band_writer(
    addresses: Addresses, writer: Writer, plan: Plan, kept: Sequence[KeptTensor], band: Band
) -> Writer:
    """The writer of the calls of a band; if there are several bands, offsets depend on `BAND`.

    writer, plan: those of the network; the scratch memory of the plan is the arena of the band.
    kept: the tensors of which bands keep columns for the next one.
    """
    schedule = writer.expanded.schedule
    values = {value.name: value for value in schedule.parts.graph.variables()}
    columns: dict[str, tuple[str, Expr]] = {}
    outside = dict(_kept_views(kept, band))
    for section in band.sections:
        first = first_column(band, section)
        columns[section.value] = section.tensor, first
        if section.value in band.parts.outside - band.kept.keys():
            tensor = values[section.tensor]
            view = writer.view(tensor)
            column_bytes = tensor.shape[-1] * tensor.dtype.size_bytes
            offset = binary("+", view.offset, binary("*", first, column_bytes))
            outside[section.value] = replace(view, offset=offset)
    inner = expanded_band(band, schedule.memory)
    laid = _laid(inner, band_addresses(schedule, addresses, plan, band), band)
    return Writer(inner, laid, outside, columns, band_tables(schedule))


def _kept_views(kept: Sequence[KeptTensor], band: Band) -> Iterator[tuple[str, View]]:
    memories, tensors = {one.tensor: one for one in kept}, band.tensors
    for value in (v for v in band.parts.graph.variables() if v.name in band.kept):
        memory = memories[tensors[value.name]]
        rows = Rows(memory.row_bytes, memory.slots)
        count = row_count(value.shape)
        offset = band.kept[value.name]
        yield value.name, View(value.name, value.type, memory.tensor, rows, 0, count, offset)


def _chain_calls(writer: Writer, band: Band, first: Expr, end: Expr) -> Iterator[Command]:
    for position, (lower, upper, image) in enumerate(band_windows(writer.expanded)):
        # no call begins at the last row
        begin = count_at(tuple(lower[:-1].tolist()), first, positive=False, image=image)
        after = count_at(tuple(upper.tolist()), end, positive=True, image=image)
        yield writer.call(band.plan, {}, position, begin, after)
    # the next call recomputes the intermediate tensors: the machine poisons what is left of them
    yield from map(Discard, writer.laid)


def _laid(inner: ExpandedSchedule, addresses: Addresses, band: Band) -> Mapping[str, Laid]:
    """The location of each intermediate tensor of a band: in a chain, a ring of rows."""
    if not band.slots and not band.kept:
        return laid_storages(inner, addresses)
    found: dict[str, Laid] = {}
    for name, slots in band.slots.items():
        storage = inner.schedule.parts.rows.storages[inner.schedule.parts.rows.number[name]]
        size = slots * storage.row_bytes
        rows = Rows(storage.row_bytes, slots)
        found[name] = Laid(storage, addresses.offsets[name], size, rows)
    return found


def first_column(band: Band, section: TensorSection) -> Expr:
    """The first column of a section; if there are several bands, in terms of the loop variable."""
    moved = binary("*", BAND, section.step) if band.count > 1 else 0
    return binary("+", section.first_column, moved)


def band_buffers(expanded: ExpandedSchedule, addresses: Addresses) -> Iterator[Buffer]:
    """The buffers of the intermediate tensors of all bands, and of their scratch."""
    schedule = expanded.schedule
    for plan in schedule.plans:
        found = (schedule.find_bands(schedule.parts.parts[k]) for k in plan.parts)
        for bands in (bands for bands in found if bands is not None):
            if bands.kept:
                arena = addresses.offsets[scratch_name(schedule, plan)]
                yield from (_kept_buffer(schedule, arena, kept) for kept in bands.kept)
            for band in bands.bands:
                inner = expanded_band(band, schedule.memory)
                placed = band_addresses(schedule, addresses, plan, band)
                yield from Writer(inner, _laid(inner, placed, band)).buffers()
                yield from scratch_buffers(inner, placed)


def _kept_buffer(schedule: Schedule, arena: int, kept: KeptTensor) -> Buffer:
    home, address = schedule.memory.default, arena + kept.offset
    return Buffer(kept.tensor, Kind.ARENA, home, address, kept.size_bytes)


def band_addresses(schedule: Schedule, addresses: Addresses, plan: Plan, band: Band) -> Addresses:
    """The addresses of a band's blocks: their offsets in the arena, from its address on."""
    arena = addresses.offsets[scratch_name(schedule, plan)] if band.offsets else 0
    offsets = {name: arena + offset for name, offset in band.offsets.items()}
    return Addresses(offsets, addresses.heights)


# The loop nests of a cascade, written from its plan.


MakeCalls = Callable[[int, Expr, Expr], tuple[Command, ...]]
"""Returns the commands that compute rows [first, end) of the part at a position."""


def commands(tables: RowTables, cascade: ExpandedCascade, call: MakeCalls) -> tuple[Command, ...]:
    """The loop nests of a cascade, in order."""
    return tuple(_Nests(tables, cascade, call).commands())


@frozen
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


@frozen
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
