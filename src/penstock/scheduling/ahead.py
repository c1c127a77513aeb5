"""ahead: constants of accelerators' kernels, fetched while something else runs.

A kernel may offer to have constants fetched (`Part.fetching`): its accelerator copies them into the
memory of tensors in a call before the part's own, and computes meanwhile; a part that runs in many
calls then reads its constants in slow memory once.  What is fetched lies there while its cascade
runs, and the one before if it does so early.

Greedy, for a schedule whose costs are known: what spares most first, as long as no more is alive at
any time than is said, and a call fetches no more than `MOST_FETCHED`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from penstock.ir.op import Fetch
from penstock.scheduling.demand import Numbers
from penstock.scheduling.expenses import Expenses
from penstock.scheduling.lifetimes import Cascade, Unfolded
from penstock.scheduling.plan import Fetched, Plan
from penstock.scheduling.schedule import Homes, Schedule

MOST_FETCHED = 3
"""Of a cascade, early or not; accelerators know a few regions of memory only."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """A kernel that serves part number k of a cascade in so many cycles less, apart from waiting
    for what it fetches."""

    k: int
    fetch: Fetch
    early: bool
    spared: int

    def pays(self, meanwhile: float) -> float:
        """Cycles that it should spare where the call that fetches takes so many."""
        free = max(0.0, meanwhile) if self.early else 0.0
        return self.spared - max(0.0, self.fetch.cycles - free)


@dataclass(frozen=True, slots=True)
class Ahead:
    """A schedule with constants fetched, not costed, and the cycles that it should take."""

    schedule: Schedule
    cycles: int


@dataclass(frozen=True, slots=True)
class Offers:
    """All that fetching spares; what a cascade is offered is remembered, since schedules have most
    of their cascades in common."""

    expenses: Expenses
    _known: dict[tuple[Plan, Homes, str], tuple[_Offer, ...]] = field(
        default_factory=dict[tuple[Plan, Homes, str], tuple[_Offer, ...]]
    )

    def of(self, schedule: Schedule, cascades: Sequence[Cascade]) -> Iterator[tuple[int, _Offer]]:
        """With the number of the cascade for which it is."""
        before = ""
        for c, cascade in enumerate(cascades):
            key = cascade.plan, schedule.homes, before
            if key not in self._known:
                self._known[key] = tuple(self._of(cascade, before))
            yield from ((c, offer) for offer in self._known[key])
            before = self._engine(cascade)

    def _of(self, cascade: Cascade, before: str) -> Iterator[_Offer]:
        """For a cascade behind one whose first call is of the engine `before`."""
        engine = self._engine(cascade)
        for k, cost in zip(cascade.plan.parts, cascade.plan.costs, strict=True):
            part = self.expenses.parts.parts[k]
            hosts = [
                early for early in (True, False) if part.engine == (before if early else engine)
            ]
            stripes = _stripes(cascade, k) if hosts and part.fetching else []
            for kernel in part.fetching if hosts else ():
                assert kernel.fetch is not None
                other = part.by(kernel)
                spared = cost.cycles - self.expenses.model.cycles(other, stripes)
                if spared > 0:
                    yield from (_Offer(k, kernel.fetch, e, spared) for e in hosts)

    def _engine(self, cascade: Cascade) -> str:
        return self.expenses.parts.parts[_first_part(cascade)].engine


def fetched_ahead(schedule: Schedule, offers: Offers, limits: Iterable[int]) -> Iterator[Ahead]:
    """The schedule, whose plans must be costed and fetch nothing, with constants fetched: for each
    limit, no more bytes than that are alive in the memory of inputs and outputs."""
    unfolded = Unfolded(schedule)
    cascades, live = unfolded.cascades, unfolded.live_bytes
    meanwhile = [0.0, *(float(offers.expenses.first_call(cascade)) for cascade in cascades)]
    found = sorted(offers.of(schedule, cascades), key=lambda o: -o[1].pays(meanwhile[o[0]]))
    for limit in limits:
        room = _Room(offers.expenses, schedule, cascades, live, limit)
        for c, offer in found:
            room.take(c, offer)
        peak = int(room.live.max())
        full = replace(schedule, plans=tuple(room.plans), peak_bytes=peak)
        yield Ahead(full, schedule.cost.cycles - room.spared)


def _first_part(cascade: Cascade) -> int:
    """The part that does the first call of a cascade, and may fetch in it."""
    return cascade.plan.parts[int(cascade.calls[0, 0]) - cascade.lower]


class _Room:
    """What is alive in the memory of inputs and outputs, as more and more is fetched into it.

    `live`: bytes by tick; `plans`: as they are so far; `spared`: cycles."""

    def __init__(
        self,
        expenses: Expenses,
        schedule: Schedule,
        cascades: Sequence[Cascade],
        live: Numbers,
        limit_bytes: int,
    ) -> None:
        self._expenses = expenses
        self._parts, self._cascades = schedule.parts.parts, cascades
        self.live, self._limit_bytes = live.copy(), limit_bytes
        self.plans = list(schedule.plans)
        self._waiting = [0] * len(cascades)
        self.spared = 0

    def take(self, c: int, offer: _Offer) -> None:
        """Fetches what cascade number c is offered, if there is room, and it pays."""
        plan = self.plans[c]
        alike = [f for f in plan.fetched if f.early == offer.early]
        if len(alike) >= MOST_FETCHED or any(f.part == offer.k for f in plan.fetched):
            return
        fetched = (*plan.fetched, Fetched(offer.k, offer.fetch, offer.early))
        scratch = self._scratch_bytes(plan, fetched)
        ticks = _ticks(self._cascades[c])
        begun = _ticks(self._cascades[c - 1]).start if offer.early else ticks.start
        live = self.live[begun : ticks.stop] + offer.fetch.size_bytes
        live[ticks.start - begun :] += scratch - plan.scratch_bytes
        if live.max() > self._limit_bytes:
            return
        self.plans[c] = replace(plan, fetched=fetched, scratch_bytes=scratch)
        waiting = {k: self._waits(k) for k in ((c - 1, c) if offer.early else (c,))}
        more = sum(cycles - self._waiting[k] for k, cycles in waiting.items())
        if offer.spared <= more:
            self.plans[c] = plan
            return
        self.live[begun : ticks.stop] = live
        self.spared += offer.spared - more
        for k, cycles in waiting.items():
            self._waiting[k] = cycles

    def _waits(self, c: int) -> int:
        """Cycles that the first call of cascade number c takes more since it fetches."""
        after = self.plans[c + 1] if c + 1 < len(self.plans) else None
        return self._expenses.waiting(self._cascades[c], self.plans[c], after)

    def _scratch_bytes(self, plan: Plan, fetched: Sequence[Fetched]) -> int:
        """Working memory that a plan needs where this is fetched, and each other part runs the
        kernel that it runs so far."""
        fetching = {f.part: f.fetch for f in fetched}
        return max(
            self._parts[k].kernel_for(fetching[k]).scratch_bytes
            if k in fetching
            else plan.kernel(k, self._parts[k]).scratch_bytes
            for k in plan.parts
        )


def _ticks(cascade: Cascade) -> slice:
    return slice(cascade.tick, cascade.tick + len(cascade.calls))


def _stripes(cascade: Cascade, k: int) -> list[int]:
    """Rows of each call of a part."""
    position = cascade.lower + cascade.plan.parts.index(k)
    mine = cascade.calls[cascade.calls[:, 0] == position]
    return (mine[:, 2] - mine[:, 1]).tolist()
