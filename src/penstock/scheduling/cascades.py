"""cascades: Parts -> Frontier.  Cuts orders of the parts into cascades, in every way worth it.

An interval of an order is a candidate cascade; for each stripe height it has one plan.  A proposal
covers the order with plans: its peak is the largest of theirs, its cycles are their sum.  So for
each position the efficient proposals of what stands before it are kept, and extended by the plans
that begin there: dynamic programming, exact for the order, for live bytes and cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.scheduling.cost import CostModel
from penstock.scheduling.demand import NO_CEILING, WHOLE, choices, peak_and_cycles, tables_of
from penstock.scheduling.expenses import Expenses
from penstock.scheduling.lifetimes import Unfolded
from penstock.scheduling.options import Options
from penstock.scheduling.order import Order, OrderOptions, find_order
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.plan import Plan
from penstock.scheduling.schedule import Frontier, Gaps, Homes, Schedule
from penstock.scheduling.steps import OrderProblem, Step

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Positions [lower, upper) of an order as one cascade."""

    lower: int
    upper: int
    stripe: int
    nearest_first: bool


@dataclass(frozen=True, slots=True)
class Proposal:
    """Cascades that cover an order: live bytes at the peak, and the cycles that calls add."""

    order: tuple[int, ...]
    peak_bytes: int
    call_cycles: int
    cascades: tuple[Candidate, ...]


def cascades(parts: Parts, model: CostModel, homes: Homes, options: Options) -> Frontier:
    """The efficient schedules of the parts, and those that placement may make efficient."""
    problem = order_problem(parts, keep_inputs=options.keep_input)
    found = find_order(problem, OrderOptions(max_states=options.order_states))
    file_order = tuple(range(len(parts.parts)))
    orders = dict.fromkeys((found.order, file_order))
    expenses = Expenses(parts, model, homes)
    proposals = [p for order in orders for p in _Search(parts, order, model, options).proposals()]
    make = _Maker(expenses, _gaps(found, options), options)
    return Frontier(tuple(make.schedule(p) for p in _worth_placing(proposals, options.slack)))


def _worth_placing(proposals: list[Proposal], slack: float) -> list[Proposal]:
    """Proposals, but those of which another is as fast and needs less by more than the slack; for
    live bytes are not addresses yet."""
    kept: list[Proposal] = []
    for p in sorted(proposals, key=lambda p: (p.call_cycles, p.peak_bytes)):
        least = min((other.peak_bytes for other in kept), default=p.peak_bytes)
        if p.peak_bytes <= least * (1 + slack):
            kept.append(p)
    return sorted(kept, key=lambda p: (p.peak_bytes, p.call_cycles))


def _gaps(found: Order, options: Options) -> Gaps:
    """What the search proves: cascades are the best of the orders tried, which is all of them where
    the least live bytes of any order, each part whole, are proven and reached."""
    exhaustive = len(found.order) <= options.max_parts
    return Gaps(found.gap, 0.0 if exhaustive else 1.0)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Proposal -> Schedule."""

    expenses: Expenses
    gaps: Gaps
    options: Options

    def schedule(self, proposal: Proposal) -> Schedule:
        plans = tuple(
            Plan(
                proposal.order[c.lower : c.upper],
                None if c.stripe == WHOLE else c.stripe,
                c.nearest_first,
                (),
            )
            for c in proposal.cascades
        )
        parts, homes = self.expenses.parts, self.expenses.homes
        keep, peak = self.options.keep_input, proposal.peak_bytes
        bare = Schedule(parts, plans, homes, keep, peak, self.gaps)
        costed = (
            replace(c.plan, costs=self.expenses.of(c.plan.parts, c.lower, c.calls))
            for c in Unfolded(bare).cascades
        )
        return replace(bare, plans=tuple(costed))


class _Search:
    """Dynamic programming over the positions of one order."""

    def __init__(
        self, parts: Parts, order: tuple[int, ...], model: CostModel, options: Options
    ) -> None:
        rows, keep = parts.rows, options.keep_input
        calls = tuple(model.call_cycles(part) for part in parts.parts)
        self._order, self._options = order, options
        self._tables = tuple(
            tables_of(rows, order, call_cycles=calls, keep_inputs=keep, nearest_first=nearest)
            for nearest in (False, True)
        )
        most = min(max((s.rows for s in rows.storages), default=1) - 1, options.max_stripe)
        self._stripes = tuple(1 << k for k in range(most.bit_length()))
        count = len(order)
        wholes = [self._run(Candidate(p, p + 1, WHOLE, False), NO_CEILING) for p in range(count)]
        self._wholes = [whole for whole in wholes if whole is not None]
        self._choices = np.append(0, np.cumsum(choices(*self._tables)))

    def proposals(self) -> Iterator[Proposal]:
        """The efficient proposals for the whole order."""
        states = [_States.start()]
        for upper in range(1, len(self._order) + 1):
            states.append(_States.efficient(states, tuple(self._plans(upper))))
        end = states[-1]
        for k in range(len(end.peaks)):
            chain = tuple(_chain(states, k))
            yield Proposal(self._order, int(end.peaks[k]), int(end.cycles[k]), chain)

    def _plans(self, upper: int) -> Iterator[Valued]:
        """Plans that end at a position.

        Rule `prune_by_whole`: a cascade that needs no less than its parts one by one, each whole,
        is dominated by them, for they make the fewest calls."""
        layered = 0
        yield Valued(Candidate(upper - 1, upper, WHOLE, False), *self._wholes[upper - 1])
        for lower in range(upper - 1, max(-1, upper - 1 - self._options.max_parts), -1):
            layered = max(layered, self._wholes[lower][0])
            same = self._choices[lower] == self._choices[upper]
            for stripe in self._stripes:
                for nearest_first in (False,) if same else (False, True):
                    candidate = Candidate(lower, upper, stripe, nearest_first)
                    found = self._run(
                        candidate, layered if self._options.prune_by_whole else NO_CEILING
                    )
                    if found is not None:
                        yield Valued(candidate, *found)

    def _run(self, c: Candidate, ceiling: int) -> tuple[int, int] | None:
        tables = self._tables[c.nearest_first]
        return peak_and_cycles(tables, c.lower, c.upper, c.stripe, ceiling)


@dataclass(frozen=True, slots=True)
class Valued:
    """A candidate with live bytes at its peak and the cycles that its calls add."""

    candidate: Candidate
    peak_bytes: int
    call_cycles: int


@dataclass(frozen=True, slots=True, eq=False)
class _States:
    """The efficient proposals for what stands before a position: peak and cycles of each, its last
    cascade, and which of the proposals before that cascade it extends."""

    peaks: Numbers
    cycles: Numbers
    last: tuple[Candidate, ...]
    before: Numbers

    @staticmethod
    def start() -> _States:
        """Nothing has run, at no cost."""
        return _States(np.zeros(1, np.int64), np.zeros(1, np.int64), (), np.zeros(1, np.int64))

    @staticmethod
    def efficient(states: list[_States], plans: tuple[Valued, ...]) -> _States:
        """The efficient ones of all that the plans make of the proposals before them."""
        heads = [states[plan.candidate.lower] for plan in plans]
        sizes = [len(head.peaks) for head in heads]
        pairs = list(zip(heads, plans, strict=True))
        peaks = np.concatenate([np.maximum(head.peaks, p.peak_bytes) for head, p in pairs])
        cycles = np.concatenate([head.cycles + p.call_cycles for head, p in pairs])
        of = np.repeat(np.arange(len(plans)), sizes)
        before = np.concatenate([np.arange(size) for size in sizes])
        ranked = np.lexsort((of, cycles, peaks))
        least = np.minimum.accumulate(cycles[ranked])
        better = np.append(True, cycles[ranked][1:] < least[:-1])
        kept = ranked[better]
        last = tuple(plans[k].candidate for k in of[kept])
        return _States(peaks[kept], cycles[kept], last, before[kept])


def _chain(states: list[_States], k: int) -> list[Candidate]:
    """The cascades of proposal k of the last position, in order."""
    found: list[Candidate] = []
    position = len(states) - 1
    while position:
        state = states[position]
        found.append(state.last[k])
        position, k = found[-1].lower, int(state.before[k])
    return found[::-1]


def order_problem(parts: Parts, *, keep_inputs: bool) -> OrderProblem:
    """The parts as steps that read and write storages."""
    storages = parts.storages()
    graph = parts.graph
    named = {storages[v.name] for v in graph.variables()}
    sizes = ((v.name, v.type.size_bytes) for v in graph.variables() if v.name in named)
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
    return Step(part.name, reads, (written,), part.kernel.scratch_bytes, tuple(pairs))


def _may_overwrite(part: Part, storage: str, storages: Mapping[str, str]) -> bool:
    """Whether the part may write over `storage` while it reads it: element i of its output depends
    on element i of it alone, through every input that lies in it."""
    allowed = part.in_place()
    return all(
        k in allowed
        for k, value in enumerate(part.inputs)
        if value.data is None and storages[value.name] == storage
    )
