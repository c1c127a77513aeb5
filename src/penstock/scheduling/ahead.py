"""ahead: constants of accelerators' kernels, fetched while something else runs.

A kernel may offer to have constants fetched (`Part.fetching`): its accelerator copies them into the
memory of tensors in a call before the part's own, and computes meanwhile; a part that runs in many
calls then reads its constants in slow memory once.  What is fetched lies there while its cascade
runs, and the one before if it does so early.

Greedy, for a schedule whose costs are known: what spares most first, as long as no more is alive at
any time than is said, and a call fetches no more than `MOST_FETCHED`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from penstock.ir.op import Kernel
from penstock.scheduling.expenses import Expenses
from penstock.scheduling.lifetimes import Cascade, Unfolded, problems
from penstock.scheduling.plan import Fetched, Plan
from penstock.scheduling.schedule import Schedule

MOST_FETCHED = 3
"""Of a cascade, early or not; accelerators know a few regions of memory only."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """A kernel that serves part number k of cascade number `cascade` in so many cycles less, apart
    from waiting for what it fetches."""

    cascade: int
    k: int
    kernel: Kernel
    early: bool
    spared: int

    @property
    def fetched(self) -> Fetched:
        assert self.kernel.fetch is not None
        return Fetched(self.k, self.kernel.fetch, self.early)

    def pays(self, meanwhile: float) -> float:
        """Cycles that it spares where the call that fetches leaves so many."""
        cycles = self.fetched.fetch.cycles
        return self.spared - max(0.0, cycles - (meanwhile if self.early else 0.0))


def fetched_ahead(schedule: Schedule, expenses: Expenses, limit_bytes: int) -> Schedule:
    """The schedule with constants fetched, of which no more than the limit is alive in the memory
    of inputs and outputs; its plans must be costed, those of the result are not."""
    room = _Room(schedule, expenses, limit_bytes)
    offers = sorted(room.offers(), key=lambda o: -o.pays(room.meanwhile[o.cascade]))
    for offer in offers:
        room.take(offer)
    return replace(schedule, plans=tuple(room.plans), peak_bytes=int(room.live.max()))


class _Room:
    """What is alive in the memory of inputs and outputs, as more and more is fetched into it.

    `live`: bytes by tick; `plans`: as they are so far; `meanwhile`: by cascade, the cycles in which
    more can be fetched early for it."""

    def __init__(self, schedule: Schedule, expenses: Expenses, limit_bytes: int) -> None:
        self._parts, self._expenses, self._limit_bytes = schedule.parts.parts, expenses, limit_bytes
        self.plans = list(schedule.plans)
        unfolded = Unfolded(schedule)
        self._cascades = unfolded.cascades
        buffers = dict(problems(unfolded))[schedule.homes.tensors].buffers
        change = np.zeros(max((b.upper for b in buffers), default=0) + 1, np.int64)
        for buffer in buffers:
            change[buffer.lower] += buffer.size_bytes
            change[buffer.upper] -= buffer.size_bytes
        self.live = np.cumsum(change)
        self.meanwhile = [0.0] + [float(expenses.first_call(c)) for c in self._cascades[:-1]]

    def offers(self) -> Iterator[_Offer]:
        """All that spares cycles."""
        model = self._expenses.model
        for c, cascade in enumerate(self._cascades):
            for k, cost in zip(cascade.plan.parts, cascade.plan.costs, strict=True):
                part = self._parts[k]
                hosts = [early for early in (True, False) if self._engine(c - early) == part.engine]
                if not hosts:
                    continue
                stripes = _stripes(cascade, k)
                for kernel in part.fetching:
                    spared = cost.cycles - model.cycles(part.by(kernel), stripes)
                    if spared > 0:
                        yield from (_Offer(c, k, kernel, early, spared) for early in hosts)

    def take(self, offer: _Offer) -> None:
        """Fetches what is offered, if there is room, and it pays."""
        c, plan = offer.cascade, self.plans[offer.cascade]
        alike = [f for f in plan.fetched if f.early == offer.early]
        taken = any(f.part == offer.k for f in plan.fetched) or len(alike) >= MOST_FETCHED
        if taken or offer.pays(self.meanwhile[c]) <= 0:
            return
        grown = replace(plan, fetched=(*plan.fetched, offer.fetched))
        grown = replace(grown, scratch_bytes=self._scratch_bytes(plan, grown))
        live = self.live.copy()
        ticks = _ticks(self._cascades[c])
        live[ticks] += grown.scratch_bytes - plan.scratch_bytes
        begun = _ticks(self._cascades[c - 1]).start if offer.early else ticks.start
        live[begun : ticks.stop] += offer.fetched.fetch.size_bytes
        if live[begun : ticks.stop].max() <= self._limit_bytes:
            self.live, self.plans[c] = live, grown
            if offer.early:
                self.meanwhile[c] -= min(self.meanwhile[c], offer.fetched.fetch.cycles)

    def _engine(self, c: int) -> str:
        """Who does the first call of a cascade, and may fetch in it."""
        if c < 0:
            return ""
        cascade = self._cascades[c]
        return self._parts[cascade.plan.parts[int(cascade.calls[0, 0]) - cascade.lower]].engine

    def _scratch_bytes(self, plan: Plan, grown: Plan) -> int:
        """Working memory that a plan needs when each part runs the kernel that it runs so far, but
        those for which more is fetched."""
        fetching = {f.part for f in grown.fetched}
        return max(
            (grown if k in fetching else plan).served(k, self._parts[k]).kernel.scratch_bytes
            for k in plan.parts
        )


def _ticks(cascade: Cascade) -> slice:
    return slice(cascade.tick, cascade.tick + len(cascade.calls))


def _stripes(cascade: Cascade, k: int) -> list[int]:
    """Rows of each call of a part."""
    position = cascade.lower + cascade.plan.parts.index(k)
    mine = cascade.calls[cascade.calls[:, 0] == position]
    return (mine[:, 2] - mine[:, 1]).tolist()
