"""cascades: Parts -> Frontier.  Cuts orders of the parts into cascades, in every way worth it.

An interval of an order is a candidate cascade, and cascades that cover the order are a proposal.
The search is exhaustive for the orders and heights of stripes tried, at most `max_parts` parts a
cascade, and at most `MOST_SHARED` parts in it that several ask for rows; and exact for live bytes
and time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

from penstock.errors import CapacityError, UsageError
from penstock.scheduling.ahead import Ahead, Offers, fetched_ahead
from penstock.scheduling.cost import CostModel
from penstock.scheduling.demand import WHOLE
from penstock.scheduling.expenses import Expenses
from penstock.scheduling.grouped import (
    SECOND,
    grouped,
    grouping_problem,
    most_alive,
    resident,
    whole_cascades,
)
from penstock.scheduling.grouping.orders import ORDERS
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.lifetimes import Unfolded
from penstock.scheduling.memories import Memories
from penstock.scheduling.options import BEST, CASCADES, LEAST, RESIDENT, Options
from penstock.scheduling.order import Order, OrderOptions, find_order, order_by
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.plan import ConstantCopy, Fetched, Plan
from penstock.scheduling.prefetch import FILLS, prefetched
from penstock.scheduling.proposals import UNLIMITED, Candidate, Plans, Proposal, proposals
from penstock.scheduling.regions import FILL, RegionSearch
from penstock.scheduling.schedule import Frontier, Gaps, Homes, Schedule
from penstock.scheduling.selection import noticeably_faster
from penstock.scheduling.steps import OrderProblem, Step
from penstock.scheduling.uniform import UniformSearch


def cascades(parts: Parts, model: CostModel, memories: Memories, options: Options) -> Frontier:
    """The efficient schedules of the parts, and those that placement may make efficient."""
    return Frontier(tuple(schedules(parts, model, memories, options)))


def schedules(
    parts: Parts,
    model: CostModel,
    memories: Memories,
    options: Options,
    limit_bytes: int = UNLIMITED,
) -> Iterator[Schedule]:
    """The same one by one, least memory first; what each costs is found out when it is asked for.
    A search for cascades leaves out those that need more than the limit; with constants fetched
    ahead they may need more again.

    Raises UsageError, see `_in_second`."""
    found, orders = _orders(parts, options)
    make = _Maker(Expenses(parts, model, memories), found, options)
    chosen = _worth_making(parts, orders, model, memories, options, limit_bytes)
    if options.partition == CASCADES and parts.fetches:
        yield from make.fetching(chosen)
    else:
        yield from (schedule for proposal in chosen for schedule in make.schedules(proposal))


def _worth_making(
    parts: Parts,
    orders: Sequence[tuple[int, ...]],
    model: CostModel,
    memories: Memories,
    options: Options,
    limit_bytes: int,
) -> list[Proposal]:
    """The proposals of which schedules are made, least memory first."""
    if options.partition != CASCADES:
        return _in_second(parts, orders, model, memories, options)
    every: list[Proposal] = []
    inputs_bytes = _inputs_bytes(parts)
    for order in orders:
        plans = _plans(parts, order, model, memories, options, limit_bytes)
        every += proposals(order, plans, inputs_bytes, limit_bytes)
        if len(memories.tensors) > 1:  # what fits where nothing fits into the other memories
            alone = replace(memories, tensors=memories.tensors[:1])
            plans = _plans(parts, order, model, alone, options, limit_bytes)
            every += proposals(order, plans, inputs_bytes, limit_bytes)
    chosen = _worth_placing(every, options.slack)
    if len(memories.tensors) > 1:
        alone = _worth_placing((p for p in every if not any(c.away for c in p.cascades)), 0.0)
        whole = _in_second(parts, orders, model, memories, replace(options, partition=RESIDENT))
        chosen += [p for p in (*alone, *whole) if p not in chosen]
        chosen.sort(key=lambda p: (p.peak_bytes, p.time))
    chosen[1:1] = _lean_twins(chosen[:1], parts)
    return chosen


def _orders(parts: Parts, options: Options) -> tuple[Order, tuple[tuple[int, ...], ...]]:
    """What is known of orders, and those that are cut into cascades."""
    problem = order_problem(parts, keep_inputs=options.keep_input)
    found = find_order(problem, OrderOptions(max_states=options.order_states))
    if options.order == LEAST:
        file_order = tuple(range(len(parts.parts)))
        return found, tuple(dict.fromkeys((found.order, file_order)))
    named = order_by(problem, ORDERS[options.order])
    return replace(named, bound_bytes=found.bound_bytes), (named.order,)


def _inputs_bytes(parts: Parts) -> int:
    return sum(parts.rows.storages[k].size_bytes for k in parts.rows.inputs)


def _in_second(
    parts: Parts,
    orders: Iterable[tuple[int, ...]],
    model: CostModel,
    memories: Memories,
    options: Options,
) -> list[Proposal]:
    """Every part whole, and in the second memory what the options' strategy keeps there.

    Raises UsageError where there is none, CapacityError where a group does not fit."""
    if len(memories.tensors) == 1:
        raise UsageError(
            "usage-057",
            "there is no second memory for tensors",
            where=f"--partition {options.partition}",
            why=f"all of them live in {memories.tensors[0].name}",
            help="take a target or an accelerator that has one, or leave the option out",
        )
    room = int(memories.tensors[SECOND].size_bytes * FILL)
    problem = grouping_problem(parts)
    if options.partition == RESIDENT:
        kept = [(order, resident(problem, order, room)) for order in orders]
    else:
        kept = [grouped(problem, room, options)]
    found: list[Proposal] = []
    for order, away in kept:
        search = RegionSearch(parts, order, model, memories, options)
        proposal = search.proposal(whole_cascades(parts, order, away), _inputs_bytes(parts))
        if proposal is None:
            raise _group_too_large(problem, order, away, memories, options)
        found.append(proposal)
    return found


def _group_too_large(
    problem: GroupingProblem,
    order: Sequence[int],
    away: Iterable[int],
    memories: Memories,
    options: Options,
) -> CapacityError:
    """The error that says which group, in its order, does not fit into the second memory."""
    memory = memories.tensors[SECOND]
    alive, node = most_alive(problem, order, away)
    name = problem.nodes[node].name.split(";")[0]
    larger = f"more --order-states than {options.order_states} may find an order in which it fits"
    other = f"--inside {BEST} looks for an order in which it fits"
    return CapacityError(
        "capacity-004",
        f"a group's tensors do not fit into {memory.name}",
        where=f"--partition {options.partition} --inside {options.inside}",
        why=f'while "{name}" runs, {alive} bytes of them are alive; of its '
        f"{memory.size_bytes} bytes, {FILL:.0%} may be, since addresses need the rest",
        help=larger if options.inside == BEST else other,
    )


def _plans(
    parts: Parts,
    order: tuple[int, ...],
    model: CostModel,
    memories: Memories,
    options: Options,
    limit_bytes: int,
) -> Plans:
    """Who says which candidates end at a position."""
    if memories.uniform:
        return UniformSearch(parts, order, model, options, limit_bytes).plans
    return RegionSearch(parts, order, model, memories, options).plans


def _worth_placing(every: Iterable[Proposal], slack: float) -> list[Proposal]:
    """Proposals, but those of which another is as fast and needs less by more than the slack; for
    live bytes are not addresses yet."""
    kept: list[Proposal] = []
    for p in sorted(every, key=lambda p: (p.time, p.peak_bytes)):
        least = min((other.peak_bytes for other in kept), default=p.peak_bytes)
        if p.peak_bytes <= least * (1 + slack):
            kept.append(p)
    return sorted(kept, key=lambda p: (p.peak_bytes, p.time))


def _noticed(proposals: Iterable[Proposal]) -> Iterator[Proposal]:
    """The proposals, least memory first, without those that are faster by too little to matter.

    Where constants can be fetched, many proposals differ that little."""
    least: int | None = None
    for p in proposals:
        if least is None or p.time >= least or noticeably_faster(p.time, least):
            yield p
            least = p.time if least is None else min(least, p.time)


Group = tuple[int, Sequence[Ahead]]
"""A schedule, and others made of it; all of these and of groups that follow need at least so many
bytes."""


def _unbeaten(groups: Iterable[Group]) -> Iterator[Ahead]:
    """Those of which no other is as fast and needs less, least memory first; each as soon as no
    group that follows can have one that needs less."""
    known: list[tuple[int, int]] = []
    waiting: list[tuple[int, int, bool, Ahead]] = []
    for floor, group in chain(groups, [(UNLIMITED, ())]):
        waiting.sort(key=lambda found: found[:3])
        while waiting and waiting[0][0] < floor:
            peak, cycles, _, ahead = waiting.pop(0)
            if not any(c <= cycles and p < peak for c, p in known):
                yield ahead
        for k, ahead in enumerate(group):
            peak, cycles = ahead.schedule.peak_bytes, ahead.cycles
            known.append((cycles, peak))
            waiting.append((peak, cycles, k > 0, ahead))


def _lean_twins(chosen: Sequence[Proposal], parts: Parts) -> list[Proposal]:
    """The proposals without the scratch that their cascades can do without, where they have any: it
    may take memory after all, where blocks cannot be placed without gaps."""
    twins = [
        replace(p, cascades=tuple(_without_scratch(c, p.order, parts) for c in p.cascades))
        for p in chosen
    ]
    return [twin for twin in twins if twin not in chosen]


def _without_scratch(cascade: Candidate, order: tuple[int, ...], parts: Parts) -> Candidate:
    fetched = dict(cascade.fetched)

    def least(position: int) -> int:
        part = parts.parts[order[position]]
        if position in fetched:
            return part.fetching[fetched[position]].scratch_bytes
        return part.least_scratch_bytes

    needed = max(map(least, range(cascade.lower, cascade.upper)))
    return replace(cascade, scratch_bytes=needed)


def _partition_gap(parts: Parts, peak_bytes: int, memories: Memories, options: Options) -> float:
    """By how much, at most, other cascades could need less: nothing where all were tried, else what
    no cascade whatsoever can do without."""
    if memories.uniform and len(parts.parts) <= options.max_parts:
        return 0.0
    return max(0.0, peak_bytes / max(1, parts.rows.least_bytes) - 1.0)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Proposal -> Schedules: as proposed, and with constants fetched early."""

    expenses: Expenses
    found: Order
    options: Options

    def schedules(self, proposal: Proposal) -> Iterator[Schedule]:
        parts, memories = self.expenses.parts, self.expenses.memories
        names = [memory.name for memory in memories.tensors]
        away = (
            (parts.rows.storages[s].name, names[m]) for c in proposal.cascades for s, m in c.away
        )
        copier = memories.copier.name if memories.copier is not None else ""
        homes = Homes(names[0], memories.constants.name, copier, tuple(away))
        plans = tuple(_plan(c, proposal.order, names, parts) for c in proposal.cascades)
        keep = self.options.keep_input
        partition = _partition_gap(parts, proposal.peak_bytes, memories, self.options)
        gaps = Gaps(self.found.gap, partition)
        bare = Schedule(parts, plans, homes, keep, proposal.peak_bytes, gaps)
        costed = self._costed(bare)
        yield costed
        if memories.copier is not None and self.options.copies and self.options.double_buffering:
            yield from (self._costed(prefetched(costed, memories, fill)) for fill in FILLS)

    def fetching(self, proposals: Sequence[Proposal]) -> Iterator[Schedule]:
        """The schedules of all proposals, and each with constants fetched where there is room
        beside what it needs itself, or up to what the next one needs or half the way there, or
        wherever it does good; of all these, what is worth placing, least memory first."""
        known: set[tuple[Plan, ...]] = set()
        for ahead in _unbeaten(self._ahead([*_noticed(proposals)])):
            schedule = ahead.schedule
            if schedule.plans not in known:
                known.add(schedule.plans)
                fetches = any(plan.fetched for plan in schedule.plans)
                yield self._costed(schedule) if fetches else schedule

    def _ahead(self, proposals: Sequence[Proposal]) -> Iterator[Group]:
        """Each schedule, and it with constants fetched."""
        offers = Offers(self.expenses)
        for one, follower in pairwise(chain(self._with_floors(proposals), [None])):
            assert one is not None
            floor, schedule = one
            needed = schedule.peak_bytes
            above = max(needed, follower[1].peak_bytes) if follower is not None else needed
            made = [Ahead(schedule, schedule.cost.cycles)]
            if any(plan.fetched for plan in schedule.plans):
                bare = (self._fetching_nothing(plan) for plan in schedule.plans)
                schedule = self._costed(replace(schedule, plans=tuple(bare)))
            limits = dict.fromkeys((needed, (needed + above) // 2, above, UNLIMITED))
            made += fetched_ahead(schedule, offers, limits)
            yield floor, made

    def _with_floors(self, proposals: Sequence[Proposal]) -> Iterator[tuple[int, Schedule]]:
        """Each schedule, and what it and all that follow need at least, whatever is fetched instead
        of what they fetch, and in whatever working memory."""
        floors = [*accumulate((p.tensors_bytes for p in reversed(proposals)), min)][::-1]
        for floor, proposal in zip(floors, proposals, strict=True):
            yield from ((floor, schedule) for schedule in self.schedules(proposal))

    def _fetching_nothing(self, plan: Plan) -> Plan:
        """The plan without what is fetched, with the scratch that its parts then need at least."""
        parts = self.expenses.parts.parts
        least = max(parts[k].least_scratch_bytes for k in plan.parts)
        return replace(plan, fetched=(), scratch_bytes=max(plan.scratch_bytes, least))

    def _costed(self, schedule: Schedule) -> Schedule:
        cascades = Unfolded(schedule).cascades
        plans = tuple(self.expenses.of(schedule, cascade) for cascade in cascades)
        return replace(schedule, plans=self.expenses.with_copying(cascades, plans, schedule.homes))


def _plan(c: Candidate, order: tuple[int, ...], names: list[str], every: Parts) -> Plan:
    """A candidate as a plan that is not costed."""
    copies = tuple(ConstantCopy(name, size, names[m], False) for name, size, m in c.copied)
    stripe = None if c.stripe == WHOLE else c.stripe
    parts = order[c.lower : c.upper]
    scratch, fetched = c.scratch_bytes, tuple(_fetched(c, order, every))
    return Plan(parts, stripe, c.nearest_first, (), copies, scratch_bytes=scratch, fetched=fetched)


def _fetched(c: Candidate, order: tuple[int, ...], parts: Parts) -> Iterator[Fetched]:
    for position, number in c.fetched:
        k = order[position]
        fetch = parts.parts[k].fetching[number].fetch
        assert fetch is not None
        yield Fetched(k, fetch, early=False)


def order_problem(parts: Parts, *, keep_inputs: bool) -> OrderProblem:
    """The parts as steps that read and write storages."""
    storages = parts.owners
    graph = parts.graph
    sizes = ((storage.name, storage.size_bytes) for storage in parts.rows.storages)
    outputs = (storages[v.name] for v in graph.outputs if v.data is None)
    return OrderProblem(
        tuple(_step(part, storages) for part in parts.parts),
        tuple(sizes),
        tuple(v.name for v in parts.inputs),
        tuple(dict.fromkeys(outputs)),
        keep_inputs,
    )


def _step(part: Part, storages: Mapping[str, str]) -> Step:
    reads = tuple(dict.fromkeys(storages[v.name] for v in part.variable_inputs))
    written = storages[part.output.name]
    pairs = ((read, written) for read in reads if _may_overwrite(part, read, storages))
    return Step(part.name, reads, (written,), part.least_scratch_bytes, tuple(pairs))


def _may_overwrite(part: Part, storage: str, storages: Mapping[str, str]) -> bool:
    """Whether the part may write over `storage` while it reads it: element i of its output depends
    on element i of it alone, through every input that lies in it."""
    allowed = part.in_place()
    return all(
        k in allowed
        for k, value in enumerate(part.inputs)
        if value.data is None and storages[value.name] == storage
    )
