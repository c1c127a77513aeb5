"""Search for copies of rows: which tensors a cascade reads or writes in rings in faster memory.

The search adds copies to a schedule that is complete otherwise.  For each cascade and each tensor
that the cascade reads or writes in slow memory, it estimates the cycles that a copy saves, with and
without double buffering (`estimates.py`).  It selects copies greedily, in descending order of these
cycles, while their rings fit into the faster memory region.  Then it costs the schedule with these
copies exactly.  If a cascade is not faster with its copies, or if a region is too full while the
cascade runs, the search removes the copy that saves least from the cascade, and tries again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.scheduling.cascades.selection import noticeably_faster
from penstock.scheduling.model.memories import FILL, MemorySystem
from penstock.scheduling.model.row_copy import RowCopy
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.row_copies.estimates import RowCopyEstimates, StripedCascade
from penstock.scheduling.row_copies.variant import with_row_copies
from penstock.scheduling.simulate.cost_accounting import CostAccounting, with_cold_starts
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade, ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import live_bytes
from penstock.scheduling.simulate.row_copy_costs import with_row_copy_cycles


def costed(expanded: ExpandedSchedule, accounting: CostAccounting) -> Schedule:
    """Return a schedule with the costs of its parts, cold starts, prefetches and copies of rows."""
    schedule, cascades = expanded.schedule, expanded.cascades
    plans = tuple(accounting.costed(schedule, cascade) for cascade in cascades)
    plans = with_row_copy_cycles(accounting, schedule.memory, cascades, plans)
    plans = with_cold_starts(accounting.model, schedule, cascades, plans)
    return replace(schedule, plans=accounting.with_prefetch_costs(cascades, plans))


@dataclass(frozen=True, slots=True)
class RowCopySearch:
    """Adds copies of rows to schedules.

    accounting: computes the costs of the schedules.
    estimates: estimates what copies save.
    """

    accounting: CostAccounting
    estimates: RowCopyEstimates

    def variants(self, schedule: Schedule) -> Iterator[Schedule]:
        """Yield at most two schedules that are faster than `schedule` because they copy rows.

        The first schedule has only copies in.  The second one may also have copies out.  It may
        need more of the slow memory, because a part whose rows are copied out cannot overwrite an
        input there.  So it is yielded only if it is noticeably faster than the first one or, if no
        first one was found, than `schedule`.
        schedule: a schedule with costs and without copies of rows.
        """
        expanded = ExpandedSchedule(schedule)
        free = _free_bytes(expanded, self.accounting.memories)
        best = schedule
        for out in (False, True):
            selected = [
                self._selected(schedule, cascade, room, out=out)
                for cascade, room in zip(expanded.cascades, free, strict=True)
            ]
            if out and not any(copy.out for copies in selected for copy in copies):
                return
            found = self._with_best(schedule, selected)
            if found is None:
                continue
            if not out or noticeably_faster(found.cost.cycles, than=best.cost.cycles):
                yield found
            best = found

    def _with_best(
        self, schedule: Schedule, selected: list[tuple[RowCopy, ...]]
    ) -> Schedule | None:
        """Return a faster schedule with some of the selected copies; None if there is none.

        selected[c]: copies for the cascade with index c, by descending savings; updated.  If the
            cascade is no faster with its copies, or if they do not fit, the last one is removed,
            until this is no longer the case for any cascade.
        """
        memories = self.accounting.memories
        while any(selected):
            found = self._built(schedule, selected)
            free = _free_bytes(found, memories)
            wrong = [
                c
                for c, copies in enumerate(selected)
                if copies
                and (
                    found.schedule.plans[c].cost.cycles >= schedule.plans[c].cost.cycles
                    or min(free[c].values()) < 0
                )
            ]
            if not wrong:
                faster = found.schedule.cost.cycles < schedule.cost.cycles
                return found.schedule if faster else None
            for c in wrong:
                selected[c] = selected[c][:-1]
        return None

    def _built(
        self, schedule: Schedule, selected: Sequence[tuple[RowCopy, ...]]
    ) -> ExpandedSchedule:
        """Return the schedule with the given row copies, costed and expanded into calls.

        selected[c]: the row copies of the cascade with index c.
        """
        assert schedule.copier is not None
        plans = [
            replace(plan.bare, row_copies=tuple(sorted(copies, key=lambda copy: copy.out)))
            for plan, copies in zip(schedule.plans, selected, strict=True)
        ]
        variant = with_row_copies(schedule.parts, plans, schedule.copier)
        memory = schedule.memory.extended(variant.regions)
        bare = replace(schedule, parts=variant.parts, plans=variant.plans, memory=memory)
        expanded = ExpandedSchedule(bare)
        peak = int(live_bytes(expanded).max())
        found = costed(expanded, self.accounting.for_parts(variant.parts))
        return ExpandedSchedule(replace(found, peak_bytes=peak))

    def _selected(
        self, schedule: Schedule, cascade: ExpandedCascade, free: Mapping[str, int], *, out: bool
    ) -> tuple[RowCopy, ...]:
        """Return the copies for a cascade, at most one for each tensor, by descending savings.

        out: whether copies out may be among them.
        free: bytes of each memory region that are free during the whole cascade.  The rings of the
            copies into a region together need no more than these bytes.
        """
        room = dict(free)
        found: dict[str, RowCopy] = {}
        plan, memory = cascade.plan, schedule.memory
        if plan.stripe is None:
            return ()
        striped = StripedCascade(plan.parts, cascade.lower, plan.stripe, cascade.calls)
        estimates = [
            estimate
            for tensor in self.estimates.tensors(plan.parts)
            for estimate in self.estimates.of_tensor(
                striped, tensor, memory.region(schedule.parts.owners[tensor])
            )
        ]
        for estimate in sorted(estimates, key=lambda e: -e.saved):
            copy = estimate.copy
            if copy.out and not out:
                continue
            if copy.tensor not in found and estimate.ring_bytes <= room[copy.region]:
                room[copy.region] -= estimate.ring_bytes
                found[copy.tensor] = copy
        return tuple(found.values())


def _free_bytes(expanded: ExpandedSchedule, memories: MemorySystem) -> list[dict[str, int]]:
    """Return, for each cascade, how many bytes of each memory region are free while it runs.

    Keys: names of the regions for tensors, except the default region.  Live bytes may occupy the
    share `FILL` of a region.  A number is negative if they exceed this limit.
    """
    live = {m.name: live_bytes(expanded, m.name) for m in memories.tensors[1:]}
    limits = {m.name: int(m.size_bytes * FILL) for m in memories.tensors[1:]}
    return [
        {
            name: limits[name] - int(found[cascade.tick : cascade.end].max(initial=0))
            for name, found in live.items()
        }
        for cascade in expanded.cascades
    ]
