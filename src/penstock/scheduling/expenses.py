"""expenses: what each part of an unfolded cascade costs, exactly as a machine would count it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from penstock.ir.op import Fetch, row_axis, row_before, row_count
from penstock.ir.placed_call import Filling
from penstock.ir.region import Region
from penstock.scheduling.cost import NOTHING, Around, Bytes, Cost, CostModel
from penstock.scheduling.lifetimes import Cascade
from penstock.scheduling.memories import FINE, Memories
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.plan import Plan
from penstock.scheduling.schedule import Homes, Schedule


@dataclass(frozen=True, slots=True)
class Moved:
    """Work of one call; bytes that it reads of each input, constants too, and of the row before its
    output, and that it writes."""

    macs: int
    read_bytes: tuple[int, ...]
    before_bytes: int
    written_bytes: int


@dataclass(frozen=True, slots=True)
class Calls:
    """How part number k runs: by which of its kernels (`id`), in which intervals of rows; the
    memory in which each of its inputs is read, and that in which its output lives."""

    k: int
    kernel: int
    stripes: tuple[tuple[int, int], ...]
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, slots=True)
class Expenses:
    """Costs of the parts of a graph on an engine; what was asked for is remembered, since schedules
    have most of their cascades in common."""

    parts: Parts
    model: CostModel
    memories: Memories
    _moves: dict[tuple[int, int, int], Moved] = field(
        default_factory=dict[tuple[int, int, int], Moved]
    )
    _costs: dict[Calls, Cost] = field(default_factory=dict[Calls, Cost])
    _waiting: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _plans: dict[tuple[Plan, Homes], Plan] = field(default_factory=dict[tuple[Plan, Homes], Plan])

    def of(self, schedule: Schedule, cascade: Cascade) -> Plan:
        """The cascade's plan with its costs."""
        bare = cascade.plan.bare
        key = (bare, schedule.homes)
        if key not in self._plans:
            self._plans[key] = replace(bare, costs=tuple(self._of(schedule, cascade)))
        return self._plans[key]

    def _of(self, schedule: Schedule, cascade: Cascade) -> Iterator[Cost]:
        """By part of the cascade, its costs."""
        parts = cascade.plan.parts
        stripes: dict[int, list[tuple[int, int]]] = {k: [] for k in parts}
        for position, first, end in cascade.calls[:, :3].tolist():
            stripes[parts[position - cascade.lower]].append((first, end))
        copied = {copy.constant: copy.memory for copy in cascade.plan.copies}
        homes = schedule.homes
        for k, some in stripes.items():
            part = self.parts.parts[k]
            kernel = cascade.plan.kernel(k, part)
            inputs, output = self._memories_of(part, homes, copied)
            calls = Calls(k, id(kernel), tuple(some), inputs, output)
            if calls not in self._costs:
                around = homes.around(part, self.owners)
                self._costs[calls] = self._cost(part.by(kernel), calls, around)
            yield self._costs[calls]

    def first_call(self, cascade: Cascade) -> int:
        """Cycles of a cascade's first call."""
        position, first, end = cascade.calls[0, :3].tolist()
        k = cascade.plan.parts[position - cascade.lower]
        return self.model.cycles(cascade.plan.served(k, self.parts.parts[k]), [end - first])

    def with_copying(
        self, cascades: Sequence[Cascade], plans: Sequence[Plan], homes: Homes
    ) -> tuple[Plan, ...]:
        """The plans with what their copies cost, and waiting for what they fetch.  Early copies run
        while the plan before does; what is fetched early, while its first call does."""
        found: list[Plan] = []
        before = 0  # cycles for which the cascade before waits for what this one fetches early
        for cascade, plan, after in zip_longest(cascades, plans, plans[1:]):
            copying = self._copying(plan, homes, found[-1] if found else None)
            mine = self.waiting(cascade, plan)
            waiting = Cost(before + mine) if before + mine else NOTHING
            same = (plan.copying, plan.waiting) == (copying, waiting)
            found.append(plan if same else replace(plan, copying=copying, waiting=waiting))
            before = self.waiting(cascade, plan, after) - mine
        return tuple(found)

    def waiting(self, cascade: Cascade, plan: Plan, after: Plan | None = None) -> int:
        """Cycles that the first call of a cascade takes more by this plan since it fetches for the
        cascade, and for the one after if there is one."""
        late = tuple(f.fetch for f in plan.fetched if not f.early)
        early = tuple(f.fetch for f in after.fetched if f.early) if after is not None else ()
        if not late and not early:
            return 0
        position, first, end = cascade.calls[0, :3].tolist()
        k = plan.parts[position - cascade.lower]
        kernel = plan.kernel(k, self.parts.parts[k])
        key = id(kernel), end - first, late, early
        if key not in self._waiting:
            part = self.parts.parts[k].by(kernel)
            self._waiting[key] = self._more(part, end - first, late, early)
        return self._waiting[key]

    def _more(
        self, part: Part, rows: int, late: tuple[Fetch, ...], early: tuple[Fetch, ...]
    ) -> int:
        """Cycles that a call takes more since it fetches; where its accelerator does not say, what
        is late is waited for, and the rest as far as it takes longer than the call."""
        call = self.model.cycles(part, [rows])
        if part.kernel.filled is None:
            hidden = max(0.0, sum(fetch.cycles for fetch in early) - call)
            return round(sum(fetch.cycles for fetch in late) + hidden)
        fillings = tuple(
            Filling(fetch.size_bytes, fetch is part.kernel.fetch) for fetch in (*late, *early)
        )
        return round(part.kernel.filled(rows, fillings).cycles) - call

    def _copying(self, plan: Plan, homes: Homes, before: Plan | None) -> Cost:
        copier = self.memories.copier
        if copier is None or not plan.copies:
            return NOTHING
        meanwhile = before.cost.cycles if before is not None else 0
        early = now = 0
        read: dict[str, int] = {}
        written: dict[str, int] = {}
        for copy in plan.copies:
            cycles = self.memories.copy_cycles(homes.constants, copy.memory, copy.size_bytes)
            early, now = (early + cycles, now) if copy.early else (early, now + cycles)
            read[homes.constants] = read.get(homes.constants, 0) + copy.size_bytes
            written[copy.memory] = written.get(copy.memory, 0) + copy.size_bytes
        setup = len(plan.copies) * copier.setup_cycles
        waiting = setup + now + max(0, early - meanwhile)
        return Cost(waiting, 0, 0, _bytes(read), _bytes(written))

    def _cost(self, part: Part, calls: Calls, around: Around) -> Cost:
        """Cost of the calls, by the kernel that serves them."""
        moved = [self._moved(calls.k, *stripe) for stripe in calls.stripes]
        output = calls.output
        sizes = [*zip(*(call.read_bytes for call in moved), strict=True)]
        sizes += [tuple(call.before_bytes for call in moved)]
        read: dict[str, int] = {}
        written = [call.written_bytes for call in moved]
        fine = self._waits(output, written)
        for memory, each in zip((*calls.inputs, output), sizes, strict=True):
            read[memory] = read.get(memory, 0) + sum(each)
            fine += self._waits(memory, each)
        nominal = sum(call.macs for call in moved)
        executed = part.executed_macs(nominal)
        return Cost(
            self.model.cycles(part, [end - first for first, end in calls.stripes], around)
            + round(fine / FINE),
            len(moved),
            executed,
            _bytes(read),
            _bytes({output: sum(written)}),
            nominal - executed,
        )

    def _waits(self, memory: str, sizes: Sequence[int]) -> int:
        """What moving a region of each of these sizes adds to calls, in fine units."""
        return self.memories.accesses(memory, sum(size > 0 for size in sizes), sum(sizes))

    def _memories_of(
        self, part: Part, homes: Homes, copied: Mapping[str, str]
    ) -> tuple[tuple[str, ...], str]:
        """The memory in which each input of a part is read, and that in which its output lives."""
        inputs = (
            homes.of(self.owners[value.name])
            if value.data is None
            else copied.get(value.name, homes.constants)
            for value in part.inputs
        )
        return tuple(inputs), homes.of(self.owners[part.output.name])

    @property
    def owners(self) -> Mapping[str, str]:
        """Storage of a value, by name."""
        return self.parts.owners

    def _moved(self, k: int, first: int, end: int) -> Moved:
        key = (k, first, end)
        if key not in self._moves:
            self._moves[key] = _of_call(self.parts.parts[k], first, end)
        return self._moves[key]


def _bytes(sizes: dict[str, int]) -> Bytes:
    return tuple(sorted((memory, size) for memory, size in sizes.items() if size))


def _of_call(part: Part, first: int, end: int) -> Moved:
    shape = part.output.type.shape
    out = Region.whole(shape)
    if end - first < row_count(shape):
        out = out.replace(row_axis(len(shape)), (first, end))
    pairs = zip(part.needs(out), part.inputs, strict=True)
    read = tuple(need.elements * value.type.dtype.size_bytes for need, value in pairs)
    element = part.output.type.dtype.size_bytes
    before = row_before(out).elements * element if part.kernel.accumulates else 0
    return Moved(part.macs(out), read, before, out.elements * element)
