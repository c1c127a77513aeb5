"""placed_cost: what calls cost where their tensors lie.

Before memory is planned, costs of calls are those of rows one behind the other.  Where a kernel
knows what a call takes with its rows where they are (`Kernel.placed`), the costs of a schedule that
has addresses are made anew: they are those of the commands that it becomes.
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
from penstock.program.lower import Addresses, Laid, laid_storages
from penstock.scheduling.cost import NOTHING
from penstock.scheduling.lifetimes import Cascade, Unfolded, fetched_name, scratch_of
from penstock.scheduling.part import Part
from penstock.scheduling.plan import Fetched, Plan
from penstock.scheduling.rows import alike
from penstock.scheduling.schedule import Schedule


def with_placed_costs(unfolded: Unfolded, addresses: Addresses) -> Schedule:
    """The schedule with the costs that its calls have at these addresses; as it is where no kernel
    knows them."""
    schedule = unfolded.schedule
    steps = schedule.steps
    if not any(part.kernel.placed for part in steps):
        return schedule
    costs = _Costs(unfolded, addresses, steps, _Places.of(unfolded, addresses, steps))
    pairs = zip_longest(unfolded.cascades, unfolded.cascades[1:])
    return replace(schedule, plans=tuple(costs.plan(*pair) for pair in pairs))


@dataclass(frozen=True, slots=True)
class _Places:
    """By position in the order, where the rows of each part's inputs and of its output lie."""

    inputs: tuple[tuple[PlacedRows | None, ...], ...]
    outputs: tuple[PlacedRows, ...]

    @staticmethod
    def of(unfolded: Unfolded, addresses: Addresses, steps: tuple[Part, ...]) -> _Places:
        schedule = unfolded.schedule
        memories = [memory for memory, _ in addresses.heights]
        laid = laid_storages(unfolded, addresses)
        known: dict[str, PlacedRows] = {}

        def rows_of(value: Value) -> PlacedRows | None:
            owner = unfolded.storage_of(value)
            if owner is None:
                return None
            if value.name not in known:
                memory = memories.index(schedule.homes.of(owner.name))
                known[value.name] = _rows(value, owner, laid[owner.name], memory)
            return known[value.name]

        outputs = [rows_of(part.output) for part in steps]
        assert all(outputs)
        return _Places(
            tuple(tuple(map(rows_of, part.inputs)) for part in steps),
            tuple(rows for rows in outputs if rows is not None),
        )


def _rows(value: Value, owner: Value, laid: Laid, memory: int) -> PlacedRows:
    """Rows as a kernel sees them: of a storage with its rows, of an alias one behind the other."""
    count = row_count(value.type.shape)
    numbers = np.arange(count)
    if not alike(value, owner):
        return PlacedRows(memory, laid.address + numbers * (value.type.size_bytes // count))
    rows = laid.rows
    offsets = numbers % rows.ring * rows.pitch if rows.table is None else np.array(rows.table)
    return PlacedRows(memory, laid.address + offsets)


@dataclass(frozen=True, slots=True)
class _Costs:
    unfolded: Unfolded
    addresses: Addresses
    steps: tuple[Part, ...]
    places: _Places

    def plan(self, cascade: Cascade, after: Cascade | None) -> Plan:
        """The plan of a cascade with the costs of its calls; what they fetch is among them."""
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
        needs = tuple(taken.get(position) for position in positions)
        return replace(plan, costs=costs, waiting=waiting, needs=needs)

    def _call(
        self, plan: Plan, position: int, rows: tuple[int, int], fills: tuple[Fill, ...]
    ) -> PlacedCall:
        schedule, offsets = self.unfolded.schedule, self.addresses.offsets
        kernel = self.steps[position].kernel
        k = schedule.order[position]
        mine = next((f for f in plan.fetched if f.part == k), None)
        return PlacedCall(
            *rows,
            self.places.inputs[position],
            self.places.outputs[position],
            0,
            offsets[scratch_of(schedule, plan)] if kernel.scratch_bytes else None,
            None if mine is None else offsets[fetched_name(schedule, mine)],
            fills,
        )

    def _fills(self, cascade: Cascade, after: Cascade | None) -> Iterator[Fill]:
        """What the first call of a cascade fetches, in its order."""
        mine = [f for f in cascade.plan.fetched if not f.early]
        later = [f for f in (after.plan.fetched if after is not None else ()) if f.early]
        yield from map(self._fill, [*mine, *later])

    def _fill(self, fetched: Fetched) -> Fill:
        name = fetched_name(self.unfolded.schedule, fetched)
        return Fill(self.addresses.offsets[name], fetched.fetch.size_bytes)
