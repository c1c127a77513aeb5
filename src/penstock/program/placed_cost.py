"""placed_cost: the cost of calls whose tensors have addresses.

Before placement, the cost of a call assumes contiguous rows.  If a kernel can compute the cost of a
call at given addresses (`Kernel.placed`), the costs of a placed schedule are recomputed, also those
of calls inside bands, so they are the costs of the commands that it is lowered to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import zip_longest

import numpy as np

from penstock.frozen import frozen
from penstock.ir.breakdown import Breakdown, Fill, PlacedCall, PlacedRows
from penstock.ir.graph import Value
from penstock.program.expr import evaluate
from penstock.program.lower import BAND, band_addresses, band_buffers, band_writer, first_fills
from penstock.program.program import Buffer
from penstock.program.writer import Addresses, Writer, laid_storages
from penstock.scheduling.bands.band_schedule import band_cascade
from penstock.scheduling.model.bands import Band, Bands
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.plan import Plan, Prefetch
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.cost_accounting import Flags, cold_calls
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedCascade,
    ExpandedSchedule,
    prefetch_name,
    scratch_name,
)


def depends_on_addresses(schedule: Schedule) -> bool:
    """Whether the cost of a kernel of a schedule depends on addresses."""
    inside = (part for bands in schedule.bands for band in bands.bands for part in band.parts.parts)
    return any(part.kernel.placed for part in (*schedule.steps, *inside))


def with_placed_costs(
    expanded: ExpandedSchedule, addresses: Addresses, known: CallCosts | None = None
) -> Schedule:
    """The schedule with the costs of its calls at these addresses.

    known: what computes them, if the caller has it already."""
    schedule = expanded.schedule
    if not depends_on_addresses(schedule):
        return schedule
    costs = known or CallCosts.of(expanded, addresses)
    bands = {each.name: costs.bands(each) for each in schedule.bands}
    cascades = expanded.cascades
    each = zip_longest(cascades, cascades[1:], cold_calls(cascades))
    plans = tuple(costs.plan(*one, bands) for one in each)
    return replace(schedule, plans=plans, bands=tuple(bands.values()))


_Operands = tuple[tuple[PlacedRows | None, ...], PlacedRows, int, int | None, int | None]
"""The fields of `PlacedCall` from `inputs` to `prefetched`."""


@frozen
class _Tensors:
    """The addresses of the rows of tensors, as calls access them.

    writer: creates the views of the tensors.
    buffers: all buffers that hold tensors, by name.
    memories: names of the memories; an index into them denotes a memory.
    _known: the results of `rows`, by name of the tensor.
    _operands: those of the inputs and of the output of a part, by its name.
    """

    writer: Writer
    buffers: Mapping[str, Buffer]
    memories: Sequence[str]
    _known: dict[str, PlacedRows] = field(default_factory=dict[str, PlacedRows])
    _operands: dict[str, tuple[tuple[PlacedRows | None, ...], PlacedRows]] = field(
        default_factory=dict[str, tuple[tuple[PlacedRows | None, ...], PlacedRows]]
    )

    def rows(self, value: Value) -> PlacedRows | None:
        """The rows of a tensor, in a band those of the first of several equal bands.

        None for constants and for rows in the ring of a queue, which kernels with placed costs do
        not access."""
        if value.name not in self._known:
            if self.writer.expanded.storage_owner(value) is None:
                return None
            view = self.writer.view(value)
            rows = view.rows
            if rows.rotation is not None:
                return None
            buffer = self.buffers[view.buffer]
            address = buffer.address + evaluate(view.offset, {BAND.name: 0})
            numbers = np.arange(evaluate(view.upper, {}))
            offsets = numbers % rows.ring * rows.pitch if rows.table is None else rows.table
            memory = self.memories.index(buffer.memory)
            self._known[value.name] = PlacedRows(memory, address + np.asarray(offsets, np.int64))
        return self._known[value.name]

    def operands(
        self, plan: Plan, part: Part, scratch: int | None, prefetched: int | None = None
    ) -> _Operands:
        """What all calls of a part of a plan have in common; the others as in `PlacedCall`."""
        if part.name not in self._operands:
            output = self.rows(part.output)
            assert output is not None
            self._operands[part.name] = tuple(map(self.rows, part.inputs)), output
        scratch = scratch if plan.has_scratch(part.kernel) else None
        return *self._operands[part.name], 0, scratch, prefetched


@frozen
class CallCosts:
    """Computes the costs of calls at the addresses of a schedule.

    steps: the parts in execution order.
    tensors: the tensors of the network.
    """

    expanded: ExpandedSchedule
    addresses: Addresses
    steps: tuple[Part, ...]
    tensors: _Tensors

    @staticmethod
    def of(expanded: ExpandedSchedule, addresses: Addresses) -> CallCosts:
        writer = Writer(expanded, laid_storages(expanded, addresses))
        every = (*writer.buffers(), *band_buffers(expanded, addresses))
        memories = [memory for memory, _ in addresses.heights]
        tensors = _Tensors(writer, {buffer.name: buffer for buffer in every}, memories)
        return CallCosts(expanded, addresses, expanded.schedule.steps, tensors)

    def placed_scratch(self) -> tuple[int, ...]:
        """For each plan, the scratch memory that its calls need because of the addresses of
        tensors, in bytes.

        Calls inside bands are left out: bands reserve what suffices for any addresses."""
        return tuple(map(self._scratch_bytes, self.expanded.cascades))

    def plan(
        self,
        cascade: ExpandedCascade,
        after: ExpandedCascade | None,
        cold: Flags,
        bands: Mapping[str, Bands],
    ) -> Plan:
        """The plan of a cascade with the placed costs of its calls and their prefetches.

        cold: for each call, whether it runs after a command of another engine.
        bands: bands with placed costs, by name of the part that stands for them."""
        plan = cascade.plan
        taken: dict[int, Breakdown] = {}
        operands: dict[int, _Operands] = {}
        fills = tuple(map(self._fill, first_fills(cascade, after)))
        calls = zip(cascade.calls[:, :3].tolist(), cold.tolist(), strict=True)
        for (position, first, end), starts_cold in calls:
            placed = self.steps[position].kernel.placed
            if placed is not None:
                if position not in operands:
                    operands[position] = self._operands(plan, position)
                found = placed(PlacedCall(first, end, *operands[position], fills))
                _add(taken, position, found.cold if starts_cold else found)
            fills = ()
        positions = range(cascade.lower, cascade.upper)
        costs = tuple(
            bands[name].cost if name in bands else _placed(cost, taken.get(position))
            for position, cost in zip(positions, plan.costs, strict=True)
            for name in [self.steps[position].name]
        )
        begins = int(cascade.calls[0, 0])
        waiting = NOTHING if begins in taken else plan.waiting
        breakdowns = tuple(taken.get(position) for position in positions)
        return replace(plan, costs=costs, waiting=waiting, breakdowns=breakdowns)

    def _scratch_bytes(self, cascade: ExpandedCascade) -> int:
        """The scratch memory that the calls of a cascade need because of addresses."""
        most, operands = 0, dict[int, _Operands]()
        for position, first, end in cascade.calls[:, :3].tolist():
            placed_scratch = self.steps[position].kernel.placed_scratch
            if placed_scratch is not None:
                if position not in operands:
                    operands[position] = self._operands(cascade.plan, position)
                call = PlacedCall(first, end, *operands[position])
                most = max(most, placed_scratch(call))
        return most

    def bands(self, bands: Bands) -> Bands:
        """Bands with the placed costs of the calls inside them."""
        schedule = self.expanded.schedule
        cascade = next(
            cascade
            for cascade in self.expanded.cascades
            if any(schedule.parts.parts[k].name == bands.name for k in cascade.plan.parts)
        )
        return replace(bands, bands=tuple(self._band(cascade, bands, band) for band in bands.bands))

    def _band(self, cascade: ExpandedCascade, bands: Bands, band: Band) -> Band:
        """A band with the placed costs of its calls.

        Equal bands differ only in columns.  No row of a tensor has other memory between its
        columns, so all have the cost of the first one.

        cascade: the cascade of the network that contains the part that stands for the bands."""
        schedule, plan = self.expanded.schedule, cascade.plan
        writer = band_writer(self.addresses, self.tensors.writer, plan, bands.kept, band)
        inner = writer.expanded
        calls = band_cascade(inner, bands, cascade)
        tensors = _Tensors(writer, self.tensors.buffers, self.tensors.memories)
        offsets = band_addresses(schedule, self.addresses, plan, band).offsets
        scratch = offsets.get(scratch_name(inner.schedule, band.plan))
        steps = inner.schedule.steps
        taken: dict[int, Breakdown] = {}
        for position, first, end in calls.calls[:, :3].tolist():
            part = steps[position]
            if part.kernel.placed is not None:
                call = PlacedCall(first, end, *tensors.operands(band.plan, part, scratch))
                _add(taken, position, part.kernel.placed(call))
        costs = tuple(_placed(cost, taken.get(k)) for k, cost in enumerate(band.plan.costs))
        return replace(band, plan=replace(band.plan, costs=costs))

    def _operands(self, plan: Plan, position: int) -> _Operands:
        """The operands of the calls of the part at a position, in a plan."""
        schedule, offsets = self.expanded.schedule, self.addresses.offsets
        scratch = offsets.get(scratch_name(schedule, plan))
        k = schedule.order[position]
        mine = next((prefetch for prefetch in plan.prefetches if prefetch.part == k), None)
        copied = None if mine is None else offsets[prefetch_name(schedule, mine)]
        return self.tensors.operands(plan, self.steps[position], scratch, copied)

    def _fill(self, prefetch: Prefetch) -> Fill:
        name = prefetch_name(self.expanded.schedule, prefetch)
        return Fill(self.addresses.offsets[name], prefetch.size_bytes)


def _add(taken: dict[int, Breakdown], position: int, cost: Breakdown) -> None:
    """Add the cost of a call to that of earlier calls of the part at a position."""
    taken[position] = taken[position] + cost if position in taken else cost


def _placed(cost: Cost, taken: Breakdown | None) -> Cost:
    """A cost with its cycles at the addresses; unchanged without these."""
    return cost if taken is None else replace(cost, cycles=round(taken.cycles))
