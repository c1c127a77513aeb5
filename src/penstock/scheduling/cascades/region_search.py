"""Candidate cascades with a choice of memory region for each tensor.

The inner tensors of a cascade, which only this cascade uses, share a region; each tensor that it
hands on to later cascades has one of its own.  Network inputs and outputs are always in the default
region.

The candidates are combined by dynamic programming (`proposals.py`), whose state is the memory
assignment of the live tensors, so the result is optimal over all of these choices.
`Plan.nearest_first` is always False.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.frozen import frozen
from penstock.scheduling.cascades.proposals import (
    Candidate,
    CascadeProblem,
    PartOrder,
    Proposal,
)
from penstock.scheduling.cascades.rows import KernelChoices
from penstock.scheduling.model.memories import FINE, LIVE_SHARE, MemoryAssignment
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.simulate.row_tables import Numbers, row_tables
from penstock.scheduling.simulate.walk import WHOLE, AccessTimes, expand, run_with_traffic

MOST_INDEPENDENT = 3
"""Maximum number of handed-on tensors whose regions are chosen independently.

If a cascade hands on more tensors, the same region is chosen for all of them.
"""


@frozen(eq=False)
class _UnassignedCascade:
    """A cascade whose memory regions have not been chosen yet."""

    lower: int
    upper: int
    plan: Plan
    calls: Numbers  # (calls, 4): part, first and end row, requester; see `walk.run_cascade`
    live: Numbers  # storages that are live before the cascade
    operands: Numbers  # storages that it accesses
    # By the regions of `operands`: live bytes at the peaks beyond those of `live`, and the time.
    known: dict[bytes, tuple[Numbers, int]]


@frozen(eq=False)
class _WrittenRegions:
    """A choice of memory regions for the tensors that a cascade writes."""

    written: MemoryAssignment
    handed_on: tuple[tuple[str, str], ...]  # (tensor, region) of those that later cascades read


class RegionSearch:
    """Enumerates the candidates of one execution order, with choices of memory regions."""

    def __init__(
        self,
        problem: CascadeProblem,
        order: PartOrder,
        minimised: Sequence[int] = (0,),
        given: MemoryAssignment | None = None,
    ) -> None:
        """minimised: indices of the regions whose live bytes are the peaks of the candidates.
        given: the only memory assignment; None: the search chooses."""
        parts, model, options = problem.parts, problem.model, problem.options
        memories = problem.memories
        self._order, self._options, self._inputs_bytes = order, options, parts.rows.inputs_bytes
        self._default = memories.default_assignment
        self._work = 0  # combinations valued so far
        self._minimised, self._given = list(minimised), given
        self._parts = [parts.parts[k] for k in order]
        self._model = model
        self._names = [storage.name for storage in parts.rows.storages]
        self._number = parts.rows.number
        self._regions = [memory.name for memory in memories.tensors]
        self._region_number = {name: m for m, name in enumerate(self._regions)}
        self._operands = [
            {
                value.name: self._number[parts.owners[value.name]]
                for value in sorted((*part.inputs, part.output), key=lambda v: v.name)
                if value.data is None
            }
            for part in self._parts
        ]
        calls = tuple(model.call_cycles(part) for part in parts.parts)
        self._kernels = KernelChoices.of(parts, order, model, self._default)
        keep = options.keep_input
        self._tables = row_tables(
            parts.rows, order, call_cycles=calls, keep_inputs=keep, nearest_first=False
        )
        self._fixed = frozenset((*parts.rows.inputs, *parts.rows.outputs))
        times = memories.access_times, memories.times_beyond_default
        self._access_times = AccessTimes(
            np.array([[each(m) for m in memories.tensors] for each in times]),
            np.array([part.counts_accesses for part in self._parts], np.int64),
        )
        capacities = [UNBOUNDED, *(int(m.size_bytes * LIVE_SHARE) for m in memories.tensors[1:])]
        self._capacities = np.array(capacities, np.int64)
        self._storage_bytes = self._tables.slots * self._tables.row_bytes
        self._call_changes: dict[tuple[int, tuple[int, ...]], Numbers | None] = {}
        # Times of reading constants, in 1/1024 cycle: of the first call, and of each later one.
        self._constant_times = np.zeros((2, len(order)), np.int64)
        for p, part in enumerate(self._parts):
            for value in part.constants:
                stored = memories.constants.name
                self._constant_times[:, p] += memories.constant_reads(stored, part, value)

    def proposal(self, memory: MemoryAssignment) -> Proposal | None:
        """The proposal in which every part runs alone, in one call of its fastest kernel.

        None if the live bytes of a region other than the default exceed its capacity.
        """
        region = self._region_array(memory.exceptions)
        states = (self._default, self._default)
        chosen: list[Candidate] = []
        for p in range(len(self._order)):
            cascade = self._cascade(p, p + 1, WHOLE)
            found = self._cost(cascade, region)
            if found is None:
                return None
            base = Candidate(p, p + 1, cascade.plan, memory, *found, *states)
            every = self._kernels.valued(base, FINE)
            chosen.append(min(every, key=lambda v: (v.time, v.peak_bytes)))
        return Proposal.of(self._order, chosen, memory, self._inputs_bytes)

    def candidates(
        self, upper: int, states: Sequence[Iterable[MemoryAssignment]]
    ) -> Iterator[Candidate]:
        """A `CandidateSource`; cascades have at most `Options.max_region_parts` parts."""
        for lower in range(upper - 1, max(-1, upper - 1 - self._options.max_region_parts), -1):
            for cascade in self._cascades(lower, upper):
                regions = tuple(self._written_regions(lower, upper))
                for before in states[lower]:
                    yield from self._assigned(cascade, before, regions)

    def _cascades(self, lower: int, upper: int) -> Iterator[_UnassignedCascade]:
        stripes = [1 << k for k in range(self._options.max_stripe.bit_length())]
        for stripe in [WHOLE, *stripes] if upper - lower == 1 else stripes:
            yield self._cascade(lower, upper, stripe)

    def _cascade(self, lower: int, upper: int, stripe: int) -> _UnassignedCascade:
        plan = Plan(self._order[lower:upper], None if stripe == WHOLE else stripe)
        t = self._tables
        calls = expand(t, lower, upper, stripe)
        live = np.flatnonzero((t.maker < lower) & (lower <= t.last))
        operands = {s for p in range(lower, upper) for s in self._operands[p].values()}
        operands |= {*t.storage[t.reads[lower] : t.reads[upper]].tolist()}
        operands |= {*t.written[lower:upper].tolist()}
        return _UnassignedCascade(lower, upper, plan, calls, live, np.array([*operands]), {})

    def _assigned(
        self,
        c: _UnassignedCascade,
        before: MemoryAssignment,
        regions: Sequence[_WrittenRegions],
    ) -> Iterator[Candidate]:
        last = self._tables.last
        live = before.restricted(lambda tensor: last[self._number[tensor]] >= c.upper)
        regions_before = self._region_array(before.exceptions)
        for choice in regions:
            region = self._region_array(choice.written.exceptions, regions_before)
            states = (before, live.extended(choice.handed_on))
            found = self._cost(c, region)
            if found is not None:
                base = Candidate(c.lower, c.upper, c.plan, choice.written, *found, *states)
                every = self._kernels.valued(base, FINE)
                if 0 in self._minimised:
                    yield from every
                else:  # scratch memory is in the default region
                    yield from (replace(one, peak_bytes=base.peak_bytes) for one in every)

    def _region_array(
        self, exceptions: Iterable[tuple[str, str]], others: Numbers | None = None
    ) -> Numbers:
        """The index of the memory region of each storage.

        others: of storages that are no exceptions; None: the default region, 0."""
        region = np.zeros(len(self._names), np.int64) if others is None else others.copy()
        for tensor, name in exceptions:
            region[self._number[tensor]] = self._region_number[name]
        return region

    def _written_regions(self, lower: int, upper: int) -> Iterator[_WrittenRegions]:
        made = [int(s) for s in self._tables.written[lower:upper] if int(s) not in self._fixed]
        if self._given is not None:
            names = {self._names[s]: self._tables.last[s] >= upper for s in made}
            pairs = [(name, m) for name, m in self._given.exceptions if name in names]
            later = tuple(pair for pair in pairs if names[pair[0]])
            yield _WrittenRegions(self._default.extended(pairs), later)
            return
        inner = [self._names[s] for s in made if self._tables.last[s] < upper]
        handed_on = [self._names[s] for s in made if self._tables.last[s] >= upper]
        for one, *rest in self._region_choices(len(inner), len(handed_on)):
            pairs = tuple((name, self._regions[m]) for name, m in zip(handed_on, rest, strict=True))
            inside = ((name, self._regions[one]) for name in inner)
            yield _WrittenRegions(self._default.extended((*inside, *pairs)), pairs)

    def _region_choices(self, inner: int, handed_on: int) -> Iterator[tuple[int, ...]]:
        """Indices of regions: of all inner tensors, then of each tensor that is handed on."""
        regions = range(len(self._regions))
        # after so much work, only the default region for tensors that are handed on
        if self._work >= self._options.max_region_work:
            yield from ((one, *(0,) * handed_on) for one in (regions if inner else (0,)))
            return
        for one in regions if inner else (0,):
            if handed_on <= MOST_INDEPENDENT:
                yield from ((one, *rest) for rest in product(regions, repeat=handed_on))
            else:
                yield from ((one, *(m,) * handed_on) for m in regions)

    def _cost(self, c: _UnassignedCascade, region: Numbers) -> tuple[int, int] | None:
        """`peak_bytes` and `time` of a `Candidate`; None if another region is too small."""
        self._work += 1
        key = region[c.operands].tobytes()
        if key not in c.known:
            c.known[key] = self._simulated(c, region)
        peaks, time = c.known[key]
        taken = self._storage_bytes[c.live]
        live = np.bincount(region[c.live], taken, len(peaks)).astype(np.int64)
        if (live + peaks > self._capacities).any():
            return None
        return int((live + peaks)[self._minimised].sum()), time

    def _simulated(self, c: _UnassignedCascade, region: Numbers) -> tuple[Numbers, int]:
        constants = self._constant_times[:, c.lower : c.upper]
        if region.any():
            constants = constants.copy()
            regions = region.tolist()
            for p in range(c.lower, c.upper):
                change = self._call_change(p, regions)
                if change is not None:
                    constants[:, p - c.lower] += change
        return run_with_traffic(
            self._tables, c.lower, c.upper, c.calls, region, constants, self._access_times
        )

    def _call_change(self, position: int, region: Sequence[int]) -> Numbers | None:
        """How much longer a part takes because operands are outside the default region.

        [first call, each later call] in units of 1/1024 cycle (1/`FINE`), without access times;
        None if nothing changes.
        """
        operands = self._operands[position]
        key = position, tuple([region[s] for s in operands.values()])
        if key not in self._call_changes:
            part, model = self._parts[position], self._model
            pairs = tuple(
                (name, self._regions[region[s]]) for name, s in operands.items() if region[s]
            )
            memory = replace(self._default, exceptions=pairs)
            call = model.call_cycles(part, memory) - model.call_cycles(part)
            work = model.work_cycles(part, memory) - model.work_cycles(part)
            # the first call stands for the change of the time to compute all rows, which counts
            # once
            change = FINE * np.array([work + call, call], np.int64)
            self._call_changes[key] = change if change.any() else None
        return self._call_changes[key]
