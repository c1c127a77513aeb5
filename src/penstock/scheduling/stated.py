"""What schedules do, as a user states it: by names."""

from __future__ import annotations

from penstock.errors import UnsupportedError
from penstock.scheduling.bands.band_schedule import assigned_plans
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stated import Cascade, StatedChain, StatedPrefetch, StatedSchedule


def as_stated(schedule: Schedule) -> StatedSchedule:
    """Return what a schedule does, by names.

    Raises UnsupportedError if an accelerator runs some of its parts tile by tile."""
    if schedule.stated is not None:
        return schedule.stated
    parts = schedule.assigned_parts
    regions = dict(schedule.memory.exceptions)

    def cascade(plan: Plan) -> Cascade:
        names = tuple(parts.parts[k].name for k in plan.parts)
        if plan.in_tiles:
            raise UnsupportedError(
                "cascader-012",
                f'an accelerator runs "{names[-1]}" and {len(names) - 1} parts before it tile '
                "by tile",
                where="the schedule",
                why="the tiles are those that the accelerator chooses, and no cascade",
                help="use a schedule of the search for cascades (--partition cascades)",
            )
        owned = {name: regions[parts.owners[name]] for name in names
                 if parts.owners[name] in regions}  # fmt: skip
        return Cascade(
            names,
            rows=plan.stripe,
            memory=owned,
            scratch_bytes=plan.scratch_bytes,
            nearest_first=plan.nearest_first,
            whole_requests=plan.whole_requests,
            columns=plan.columns,
            chains=tuple(
                StatedChain(
                    tuple(parts.parts[k].name for k in chain.parts),
                    chain.columns,
                    chain.keeps_halos,
                )
                for chain in plan.chains
            ),
            prefetches=tuple(
                StatedPrefetch(
                    parts.parts[one.part].name, one.copy.table, one.size_bytes, one.early
                )
                for one in plan.prefetches
            ),
        )

    return StatedSchedule(tuple(map(cascade, assigned_plans(schedule))), parts.alternative)
