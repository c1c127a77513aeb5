"""placed_cost: the cost of calls whose tensors have addresses.

Before placement, the cost of a call assumes contiguous rows.  If a kernel can compute the cost of a
call at given addresses (`Kernel.placed`), the costs of a placed schedule are recomputed, so they
are the costs of the commands that it is lowered to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from penstock.ir.breakdown import Breakdown
from penstock.ir.graph import Value
from penstock.ir.op import row_count
from penstock.ir.placed_call import Fill, PlacedCall, PlacedRows
from penstock.program.laid import Addresses, Laid, laid_storages
from penstock.scheduling.model.cost import NOTHING
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.prefetch import Prefetch
from penstock.scheduling.model.rows import rows_coincide
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade, ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import prefetch_name, scratch_name


def with_placed_costs(expanded: ExpandedSchedule, addresses: Addresses) -> Schedule:
    """The schedule with the costs of its calls at these addresses; unchanged if no kernel's cost
    depends on addresses."""
    schedule = expanded.schedule
    steps = schedule.steps
    if not any(part.kernel.placed for part in steps):
        return schedule
    costs = _Costs(expanded, addresses, steps, _Places.of(expanded, addresses, steps))
    pairs = zip_longest(expanded.cascades, expanded.cascades[1:])
    return replace(schedule, plans=tuple(costs.plan(*pair) for pair in pairs))


@dataclass(frozen=True, slots=True)
class _Places:
    """The rows of the part's inputs and output, for each position in the order; None for constants
    and for rows in the ring of a queue, which kernels with placed costs do not access."""

    inputs: tuple[tuple[PlacedRows | None, ...], ...]
    outputs: tuple[PlacedRows | None, ...]

    @staticmethod
    def of(expanded: ExpandedSchedule, addresses: Addresses, steps: tuple[Part, ...]) -> _Places:
        schedule = expanded.schedule
        memories = [memory for memory, _ in addresses.heights]
        laid = laid_storages(expanded, addresses)
        known: dict[str, PlacedRows] = {}

        def placed_rows(value: Value) -> PlacedRows | None:
            owner = expanded.storage_owner(value)
            if owner is None or owner.name not in laid:
                return None
            if value.name not in known:
                memory = memories.index(schedule.memory.region(owner.name))
                known[value.name] = _rows(value, laid[owner.name], memory)
            return known[value.name]

        return _Places(
            tuple(tuple(map(placed_rows, part.inputs)) for part in steps),
            tuple(placed_rows(part.output) for part in steps),
        )


def _rows(value: Value, laid: Laid, memory: int) -> PlacedRows:
    """The addresses of a tensor's rows: those of its storage, or consecutive rows for an alias."""
    count = row_count(value.type.shape)
    numbers = np.arange(count)
    if not rows_coincide(value, laid.storage):
        return PlacedRows(memory, laid.address + numbers * (value.type.size_bytes // count))
    rows = laid.rows
    offsets = numbers % rows.ring * rows.pitch if rows.table is None else np.array(rows.table)
    return PlacedRows(memory, laid.address + offsets)


@dataclass(frozen=True, slots=True)
class _Costs:
    expanded: ExpandedSchedule
    addresses: Addresses
    steps: tuple[Part, ...]
    places: _Places

    def plan(self, cascade: ExpandedCascade, after: ExpandedCascade | None) -> Plan:
        """The plan of a cascade with the placed costs of its calls and their prefetches."""
        plan = cascade.plan
        taken: dict[int, Breakdown] = {}
        fills = tuple(self._fills(cascade, after))
        for position, first, end in cascade.calls[:, :3].tolist():
            part = self.steps[position]
            if part.kernel.placed is not None:
                call = self._call(plan, position, (first, end), fills)
                found = part.kernel.placed(call)
                taken[position] = taken[position] + found if position in taken else found
            fills = ()
        positions = range(cascade.lower, cascade.upper)
        costs = tuple(
            replace(cost, cycles=round(taken[position].cycles)) if position in taken else cost
            for position, cost in zip(positions, plan.costs, strict=True)
        )
        begins = int(cascade.calls[0, 0])
        waiting = NOTHING if begins in taken else plan.waiting
        breakdowns = tuple(taken.get(position) for position in positions)
        return replace(plan, costs=costs, waiting=waiting, breakdowns=breakdowns)

    def _call(
        self, plan: Plan, position: int, rows: tuple[int, int], fills: tuple[Fill, ...]
    ) -> PlacedCall:
        schedule, offsets = self.expanded.schedule, self.addresses.offsets
        kernel, output = self.steps[position].kernel, self.places.outputs[position]
        assert output is not None
        k = schedule.order[position]
        prefetches = plan.accelerator_prefetches
        mine = next((prefetch for prefetch, copy in prefetches if copy.part == k), None)
        return PlacedCall(
            *rows,
            self.places.inputs[position],
            output,
            0,
            offsets[scratch_name(schedule, plan)] if kernel.scratch_bytes else None,
            None if mine is None else offsets[prefetch_name(schedule, mine)],
            fills,
        )

    def _fills(self, cascade: ExpandedCascade, after: ExpandedCascade | None) -> Iterator[Fill]:
        """The prefetches of a cascade's first call, in order."""
        mine = [p for p, _ in cascade.plan.accelerator_prefetches if not p.early]
        following = after.plan.accelerator_prefetches if after is not None else ()
        later = [p for p, _ in following if p.early]
        yield from map(self._fill, [*mine, *later])

    def _fill(self, prefetch: Prefetch) -> Fill:
        name = prefetch_name(self.expanded.schedule, prefetch)
        return Fill(self.addresses.offsets[name], prefetch.size_bytes)
