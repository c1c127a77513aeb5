"""Costs of row copies: the setup and stall cycles that they add to a cascade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from penstock.ir.op import row_axis, row_count
from penstock.ir.region import Region
from penstock.scheduling.model.memories import FINE, MemoryAssignment
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.row_copy import RowsCopiedOut
from penstock.scheduling.simulate.copy_timeline import TimedCopy, copy_times
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade


def with_row_copy_cycles(
    accounting: CostAccounting,
    memory: MemoryAssignment,
    cascades: Sequence[ExpandedCascade],
    plans: Sequence[Plan],
) -> tuple[Plan, ...]:
    """Return the plans with the setup and stall cycles of their row copies added to the costs.

    memory: memory assignment of the schedule.
    cascades, plans: all cascades of the schedule, and their plans.  The plans have the costs from
        `CostAccounting.costed`, in which row copies take no cycles.
    """
    pairs = zip_longest(zip(cascades, plans, strict=True), plans[1:])
    return tuple(
        _CascadeTimes(accounting, memory, cascade, plan).costed(after) if plan.row_copies else plan
        for (cascade, plan), after in pairs
    )


@dataclass(frozen=True, slots=True)
class _CascadeTimes:
    """The times of the calls and row copies of a cascade, in units of 1/1024 cycle (1/`FINE`).

    memory: memory assignment of the schedule.
    plan: the plan of the cascade, with the costs from `CostAccounting.costed`.
    """

    accounting: CostAccounting
    memory: MemoryAssignment
    cascade: ExpandedCascade
    plan: Plan

    def costed(self, following: Plan | None) -> Plan:
        """Return the plan with the setup and stall cycles of its row copies added to the costs.

        following: the plan of the next cascade; None if there is none.  Early prefetches of that
            plan start when this cascade begins, and the row copies wait until they end.
        """
        memories, lower = self.accounting.memories, self.cascade.lower
        assert memories.copier is not None
        early = (c for c in (following.copies if following is not None else ()) if c.early)
        busy = sum(memories.copy_cycles(c.source, c.target, c.size_bytes) for c in early)
        copies = {lower + i: self._timed_copy(i) for i in self.plan.row_copy_places}
        setup = FINE * memories.copier.setup_cycles
        times = copy_times(self.cascade.calls, copies, self._call_time, setup, FINE * busy)
        costs = list(self.plan.costs)
        for i in self.plan.row_copy_places:
            costs[i] = replace(costs[i], cycles=round(times[lower + i] / FINE))
        return replace(self.plan, costs=tuple(costs))

    def _timed_copy(self, i: int) -> TimedCopy:
        """Return the timing of the row copy that is the part with index `i` in `plan.parts`."""
        parts = self.accounting.parts
        k = self.plan.parts[i]
        (source,), target = self.accounting.operand_regions(parts.parts[k], self.memory, {})
        type = parts.parts[k].output.type
        row_bytes = type.size_bytes // row_count(type.shape)
        time = FINE * self.accounting.memories.copy_cycles(source, target, row_bytes)
        copied = parts.row_copies[k - len(parts.parts)]
        if isinstance(copied, RowsCopiedOut):
            return TimedCopy(time, rows_copied_out=row_count(type.shape))
        reader = self.plan.parts.index(copied.readers[0])
        return TimedCopy(time, self.cascade.lower + reader if copied.ahead_rows else None)

    def _call_time(self, position: int, first: int, end: int) -> int:
        """Return the time of the call that computes rows [first, end) of the part at `position`.

        The time, in units of 1/1024 cycle, is the sum of the computation (in proportion to the
        rows), the overhead of a call and the access times.
        """
        accounting, memories = self.accounting, self.accounting.memories
        k = self.plan.parts[position - self.cascade.lower]
        part = self.plan.with_selected_kernel(k, accounting.parts.parts[k])
        constants = {copy.constant: copy.target for copy in self.plan.copies}
        inputs, output = accounting.operand_regions(part, self.memory, constants)
        operands = self.memory.for_part(part, accounting.parts.owners)
        out = Region.whole(part.output.type.shape)
        if not accounting.parts.rows.row_parts[k].whole:
            out = out.replace(row_axis(part.output.type.rank), (first, end))
        traffic = accounting.call_traffic(part, out)
        sizes = (*traffic.read_bytes, traffic.previous_row_bytes, traffic.written_bytes)
        pairs = zip((*inputs, output, output), sizes, strict=True)
        work = FINE * accounting.model.work_cycles(part, operands) * (end - first)
        overhead = FINE * accounting.model.call_cycles(part, operands)
        access = sum(memories.access(name, size) for name, size in pairs)
        return work // row_count(part.output.type.shape) + overhead + access
