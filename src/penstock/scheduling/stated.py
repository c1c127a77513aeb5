"""Cascades as users state them: by names, so that they apply to the parts of any target.

`pipeline/stated_schedules.py` makes schedules of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.brief import Brief
from penstock.errors import UnsupportedError
from penstock.scheduling.bands.band_schedule import assigned_plans
from penstock.scheduling.model.plan import BufferMode, Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stripe import StripeConfig


@dataclass(frozen=True, slots=True)
class StatedChain:
    """Consecutive parts of a cascade that recompute the tensors between them; see `plan.Chain`."""

    parts: tuple[str, ...]
    columns: int
    keeps_halos: bool = False


@dataclass(frozen=True, slots=True)
class StatedPrefetch:
    """A copy of constants by the accelerator that runs a part; see `plan.Prefetch`.

    table, size_bytes: the constant table, and how much of it is copied; None: as much as possible.
    early: whether the copy starts in the previous cascade, whose first call must be of the same
        accelerator; None: if that is so.
    """

    part: str
    table: str | None = None
    size_bytes: int | None = None
    early: bool | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Cascade(Brief):
    """Parts that run together, stripe by stripe.

    parts: names of the parts, in execution order.  Only the output of the last one is read by parts
        outside of the cascade.
    stripe: shape of a stripe of the last part's output, one number per axis, or a configuration
        with its order of loops; None: `rows` applies.
    loops: the axes that are divided, the outermost loop first; by default in ascending order.
    modes: buffer modes of tensors between the parts, by name; `ROLLING` if not stated.  `DOUBLE`
        applies to the constants of the part of that name.
    rows: instead of `stripe`: the most rows that each part computes per call, wherever it can
        compute some rows; None: all rows.
    memory: names of memory regions, by the name of a tensor that the parts compute; the first
        memory of the target for others.
    scratch_bytes: memory for the kernels, which determines those that run; None: as much as the
        preferred kernels need.
    nearest_first, chains, columns, whole_requests: with `rows`: see `plan.Plan`.
    prefetches: copies of constants by the accelerator that runs the parts.
    """

    parts: tuple[str, ...]
    stripe: tuple[int, ...] | StripeConfig | None = None
    loops: tuple[int, ...] | None = None
    modes: Mapping[str, BufferMode] = field(default_factory=dict[str, BufferMode])
    rows: int | None = None
    memory: Mapping[str, str] = field(default_factory=dict[str, str])
    scratch_bytes: int | None = None
    nearest_first: bool = False
    chains: tuple[StatedChain, ...] = ()
    columns: int | None = None
    prefetches: tuple[StatedPrefetch, ...] = ()
    whole_requests: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class StatedSchedule(Brief):
    """Cascades in execution order.  Parts that none of them names run alone, as whole layers.

    alternative: number of the equivalent graph whose parts they name (`Parts.alternative`); 0: the
        network's own.
    """

    cascades: tuple[Cascade, ...]
    alternative: int = 0

    @staticmethod
    def of(schedule: Schedule) -> StatedSchedule:
        """Return what a schedule does, by names.

        Raises UnsupportedError if an accelerator runs some of its parts tile by tile."""
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
