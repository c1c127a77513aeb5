"""CostAccounting: the costs of plans, from the work and the memory traffic of their calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.frozen import frozen
from penstock.ir.breakdown import Filling
from penstock.ir.op import ConstantPrefetch, Kernel
from penstock.scheduling.model.cost import NOTHING, Bytes, Cost, CostModel
from penstock.scheduling.model.memories import FINE, MemoryAssignment, MemorySystem
from penstock.scheduling.model.part import CallTraffic, Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stripe import Stripes, stripe_heights, whole_tensor
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade


@frozen
class PartCalls:
    """All calls of one part; the key of a memoised cost.

    part: name of the part.
    kernel: the kernel that the calls run: 0 for the preferred kernel, 1 for the fallback kernel,
        2 + i for prefetching kernel i.
    stripes: the stripes of the output, one per call.
    inputs, output: names of the memory regions of the inputs and of the output.
    """

    part: str
    kernel: int
    stripes: Stripes
    inputs: tuple[str, ...]
    output: str


class FirstCall(NamedTuple):
    """The first call of a cascade, with everything that determines its stall cycles.

    part, kernel: as in `PartCalls`.
    rows: number of output rows that the call computes.
    fillings: the copies that run during the call.
    own_cycles, early_cycles: the cycles of those that serve its own cascade, and the next one.
    """

    part: str
    kernel: int
    rows: int
    fillings: tuple[Filling, ...]
    own_cycles: float
    early_cycles: float


@frozen
class CostAccounting:
    """Computes the costs of plans, for the schedules of one graph.

    Results are memoised, since the schedules of a frontier have most of their cascades in common.
    parts: the graph, split into parts (nodes with their kernels).
    model: estimates the cycles of calls.
    memories: determines access times and copy times.
    _costs: cost of all calls of a part.
    _stalls: stall cycles of the first call of a cascade.
    _plans: plans with costs, by (plan without costs, memory assignment).
    """

    parts: Parts
    model: CostModel
    memories: MemorySystem
    _costs: dict[PartCalls, Cost] = field(default_factory=dict[PartCalls, Cost])
    _stalls: dict[FirstCall, int] = field(default_factory=dict[FirstCall, int])
    _plans: dict[tuple[Plan, MemoryAssignment], Plan] = field(
        default_factory=dict[tuple[Plan, MemoryAssignment], Plan]
    )

    def for_parts(self, parts: Parts) -> CostAccounting:
        """Return a cost accounting for other parts that are derived from the same graph.

        For example, a single part may replace the parts of a cascade that runs in bands.  The two
        cost accountings share the memoised results about parts, but not those about plans.
        """
        return CostAccounting(parts, self.model, self.memories, self._costs, self._stalls)

    def costed(self, schedule: Schedule, cascade: ExpandedCascade) -> Plan:
        """Return the cascade's plan with the costs of its parts.

        The costs of prefetches are left out.
        """
        bare = cascade.plan.bare
        key = (bare, schedule.memory)
        found = self._plans.get(key)
        if found is None:
            found = replace(bare, costs=tuple(self._part_costs(schedule, cascade)))
            self._plans[key] = found
        return found

    def _part_costs(self, schedule: Schedule, cascade: ExpandedCascade) -> Iterator[Cost]:
        """Yield the cost of each part of a cascade, in the order of `Plan.parts`.

        For a part that stands for bands of columns, it is the cost of all bands.
        """
        memory = schedule.memory
        for k, stripes in zip(cascade.plan.parts, cascade.stripes, strict=True):
            part = self.parts.parts[k]
            bands = schedule.find_bands(part)
            if bands is not None:
                yield bands.cost
                continue
            yield self._calls_cost(part, cascade.plan.kernel(k, part), stripes, memory)

    def whole_call_cost(self, part: Part, memory: MemoryAssignment) -> Cost:
        """Return the cost of a part if one call of its preferred kernel computes its output.

        memory: the memory assignment of a schedule.
        """
        stripes = (whole_tensor(part.output.shape),)
        return self._calls_cost(part, part.kernel, stripes, memory)

    def update_costs(self, memory: MemoryAssignment) -> tuple[Cost, ...]:
        """Return the cost of each of `Parts.updates`, the copies of new elements to states.

        Each update is a single call.
        """
        return tuple(self.whole_call_cost(part, memory) for part in self.parts.updates)

    def _calls_cost(
        self, part: Part, kernel: Kernel, stripes: Stripes, memory: MemoryAssignment
    ) -> Cost:
        """Return the cost of calls of a part."""
        operands = self._operand_regions(part, memory)
        calls = PartCalls(part.name, _kernel_number(part, kernel), stripes, *operands)
        if calls not in self._costs:
            regions = (region for config in stripes for region in config.regions())
            traffic = part.traffic(regions)
            assigned = memory.for_part(part, self.parts.owners)
            self._costs[calls] = self._cost(part.with_kernel(kernel), calls, traffic, assigned)
        return self._costs[calls]

    def first_call_cycles(self, cascade: ExpandedCascade) -> int:
        """Return the cycles of a cascade's first call, without stalls caused by prefetches."""
        k = cascade.first_part
        part = cascade.plan.with_selected_kernel(k, self.parts.parts[k])
        return self.model.cycles(part, [cascade.first_rows])

    def with_prefetch_costs(
        self, cascades: Sequence[ExpandedCascade], plans: Sequence[Plan]
    ) -> tuple[Plan, ...]:
        """Return the plans with the stalls due to their prefetches (`Plan.waiting`).

        cascades, plans: consecutive cascades, and the plan of each.

        An early prefetch starts in the cascade before the one that reads the copy, and overlaps
        with the first call of that cascade.
        """
        found: list[Plan] = []
        before = 0  # stall cycles in the previous cascade, for early prefetches of this one
        for cascade, plan, after in zip_longest(cascades, plans, plans[1:]):
            own = self.stall_cycles(cascade, plan)
            waiting = Cost(before + own) if before + own else NOTHING
            found.append(plan if plan.waiting == waiting else replace(plan, waiting=waiting))
            before = self.stall_cycles(cascade, plan, after) - own
        return tuple(found)

    def stall_cycles(
        self, cascade: ExpandedCascade, plan: Plan, following: Plan | None = None
    ) -> int:
        """Return the stall cycles that accelerator prefetches add to a cascade's first call.

        Prefetches of two plans run during this call: those of `plan` that are not early, and the
        early ones of `following`.  A prefetch is early if its copy starts one cascade before the
        cascade that reads the copy.

        plan: the plan of the cascade.
        following: the plan of the next cascade; None: disregard early prefetches.
        """
        later = following.prefetches if following is not None else ()
        if not plan.prefetches and not later:  # true of most cascades
            return 0
        k = cascade.first_part
        own = [p.copy for p in plan.prefetches if not p.early]
        early = [p.copy for p in later if p.early]
        return self.stall_cycles_of(cascade, plan.kernel(k, self.parts.parts[k]), own, early)

    def stall_cycles_of(
        self,
        cascade: ExpandedCascade,
        kernel: Kernel,
        own: Sequence[ConstantPrefetch],
        early: Sequence[ConstantPrefetch],
    ) -> int:
        """Return the stall cycles that copies add to a cascade's first call.

        kernel: what the call runs.
        own, early: the copies that run during the call, for its own cascade and for the next one.
        """
        if not own and not early:
            return 0
        part = self.parts.parts[cascade.first_part]
        call = FirstCall(
            part.name,
            _kernel_number(part, kernel),
            cascade.first_rows,
            tuple(Filling(one.size_bytes, one is kernel.prefetch) for one in (*own, *early)),
            sum(one.cycles for one in own),
            sum(one.cycles for one in early),
        )
        found = self._stalls.get(call)
        if found is None:
            found = self._stalls[call] = self._stall_of_call(part.with_kernel(kernel), call)
        return found

    def _stall_of_call(self, part: Part, call: FirstCall) -> int:
        """Return the cycles that prefetches add to a call.

        If the kernel has a cost function for calls with copies (`Kernel.filled`), this function
        determines the result.  Otherwise, the call waits for the prefetches of its own cascade.
        Prefetches of the next cascade overlap with the call and add only the cycles by which they
        outlast it.
        """
        cycles = self.model.cycles(part, [call.rows])
        if part.kernel.filled is None:
            return round(call.own_cycles + max(0.0, call.early_cycles - cycles))
        return round(part.kernel.filled(call.rows, call.fillings).cycles) - cycles

    def _cost(
        self,
        part: Part,
        calls: PartCalls,
        traffic: Sequence[CallTraffic],
        operands: MemoryAssignment,
    ) -> Cost:
        """Return the cost of all calls of a part, including access times.

        part: a part whose only kernel is the one that the calls run.
        """
        output = calls.output
        sizes = [*zip(*(call.read_bytes for call in traffic), strict=True)]
        sizes += [tuple(call.previous_row_bytes for call in traffic)]
        read: dict[str, int] = {}
        written = [call.written_bytes for call in traffic]
        fine = self._access_time(part, output, written)
        for memory, each in zip((*calls.inputs, output), sizes, strict=True):
            read[memory] = read.get(memory, 0) + sum(each)
            fine += self._access_time(part, memory, each)
        nominal = sum(call.macs for call in traffic)
        executed = part.executed_macs(nominal)
        return Cost(
            self.model.cycles(part, stripe_heights(calls.stripes), operands) + round(fine / FINE),
            len(traffic),
            executed,
            _bytes(read),
            _bytes({output: sum(written)}),
            nominal - executed,
        )

    def _access_time(self, part: Part, memory: str, sizes: Sequence[int]) -> int:
        """Return the time that accesses to tensors add to the engine's cycle estimate.

        The result is in units of 1/1024 cycle.
        """
        count = sum(size > 0 for size in sizes)
        counted = part.counts_accesses
        return self.memories.accesses(memory, count, sum(sizes), is_counted=counted)

    def _operand_regions(self, part: Part, memory: MemoryAssignment) -> tuple[tuple[str, ...], str]:
        """Return the memory regions of a part's operands: (names for inputs, name for the output).

        memory: the memory assignment of the schedule.
        """
        owners = self.parts.owners
        inputs = (
            memory.region(owners[value.name]) if value.data is None else memory.constants
            for value in part.inputs
        )
        return tuple(inputs), memory.region(owners[part.output.name])


def _kernel_number(part: Part, kernel: Kernel) -> int:
    """Return `PartCalls.kernel` of a kernel of `part`."""
    kernels = (part.kernel, part.fallback, *part.prefetching)
    return next(i for i, one in enumerate(kernels) if one is kernel)


def _bytes(sizes: dict[str, int]) -> Bytes:
    return tuple(sorted((memory, size) for memory, size in sizes.items() if size))


Flags = npt.NDArray[np.bool_]


def cold_calls(cascades: Sequence[ExpandedCascade]) -> Iterator[Flags]:
    """Yield, for each cascade, an array that states which of its calls start cold.

    A call starts cold if the call before it runs on another engine, or if it is the first call of
    the schedule.  Example: the first cascade has two calls on an accelerator, then one on the
    processor; its array is [True, False, True].
    cascades: all cascades of a schedule.
    """
    last = ""
    for cascade in cascades:
        plan = cascade.plan
        engines = [cascade.parts.parts[k].engine for k in plan.parts]
        places = cascade.calls[:, 0] - cascade.lower
        flags = np.zeros(len(places), np.bool_)
        flags[0] = engines[places[0]] != last
        if len(set(engines)) > 1:
            numbers = np.array([engines.index(engine) for engine in engines])[places]
            flags[1:] = np.diff(numbers) != 0
        yield flags
        last = engines[places[-1]]


def with_cold_starts(
    model: CostModel,
    schedule: Schedule,
    cascades: Sequence[ExpandedCascade],
    plans: Sequence[Plan],
) -> tuple[Plan, ...]:
    """Return the plans with the additional cycles of cold starts added to their costs.

    cascades, plans: all cascades of the schedule, and their plans with costs of warm calls.
    """
    flags = cold_calls(cascades)
    each = zip(cascades, plans, flags, strict=True)
    return tuple(_with_cold_starts(model, schedule, *one) for one in each)


def _with_cold_starts(
    model: CostModel, schedule: Schedule, cascade: ExpandedCascade, plan: Plan, cold: Flags
) -> Plan:
    """Return one plan with the additional cycles of cold starts added to its costs."""
    parts, costs = schedule.parts, list(plan.costs)
    calls = Counter((p, end - first) for p, first, end in cascade.calls[cold, :3].tolist())
    for (position, rows), count in calls.items():
        place = position - cascade.lower
        k = plan.parts[place]
        part = parts.parts[k]
        if part.kernel.cycles is not None:
            memory = schedule.memory.for_part(part, parts.owners)
            selected = plan.with_selected_kernel(k, part)
            if longer := count * model.cold_start_cycles(selected, rows, memory):
                costs[place] = replace(costs[place], cycles=costs[place].cycles + longer)
    return plan if tuple(costs) == plan.costs else replace(plan, costs=tuple(costs))
