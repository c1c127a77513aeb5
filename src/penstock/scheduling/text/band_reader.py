"""Builds the bands (intervals of columns) of cascades and chains that have been read from text.

The text of a frontier or schedule states only the width of the bands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock.scanner import Scanner, Token, quoted
from penstock.scheduling.bands.variant import (
    AssignedPlan,
    BandSource,
    can_run_in_bands,
    with_bands,
)
from penstock.scheduling.cascades.proposals import Candidate
from penstock.scheduling.model.bands import Bands
from penstock.scheduling.model.fused_parts import FusedPart, with_fused
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A plan that has been parsed from the text of a frontier or schedule.

    at: token of the name of the plan's first part, for error messages.
    """

    assigned: AssignedPlan
    at: Token


@dataclass(frozen=True, slots=True)
class BandReader:
    """Builds the bands of the plans that a frontier or schedule states in text form.

    scanner: creates the errors.
    parts: the parts to which the plans refer by name.
    source: creates the bands of a cascade; None: plans in bands are rejected.
    _known: bands created so far, by (part indices, candidate).
    """

    scanner: Scanner
    parts: Parts
    source: BandSource | None
    _known: dict[tuple[tuple[int, ...], Candidate], tuple[Bands, ...]] = field(
        default_factory=dict[tuple[tuple[int, ...], Candidate], tuple[Bands, ...]]
    )

    def with_bands(
        self, plans: Sequence[ReadPlan], memory: MemoryAssignment, at: Token
    ) -> tuple[Parts, tuple[Plan, ...], tuple[Bands, ...]]:
        """Replace each cascade or chain in bands, and each group in tiles, by a single part.

        plans: the plans of a schedule, in execution order.
        memory: memory assignment of the schedule.
        at: token of the schedule in the text, for error messages.

        Returns (parts, plans, bands): the parts after the replacement, the plans with indices of
        these parts, and the bands of each part that runs in bands.

        Raises ModelError if a cascade or chain cannot run in its bands or a group in tiles, if
        there are bands or tiles but `self.source` is None, or if a schedule with bands contains a
        part twice.
        """
        bare = tuple(read.assigned.plan for read in plans)
        if any(read.assigned.in_tiles for read in plans):
            return (*self._with_fused(plans), ())
        if not any(read.assigned.in_bands for read in plans):
            return self.parts, bare, ()
        counts = Counter(k for plan in bare for k in plan.parts)
        for k, count in counts.items():
            if count > 1:
                name = quoted(self.parts.parts[k].name)
                raise self.scanner.contradiction(f"the schedule runs {name} {count} times", at=at)
        cascades = [self._banded(read, memory) for read in plans]
        return with_bands(self.parts, tuple(zip(bare, cascades, strict=True)))

    def _with_fused(self, plans: Sequence[ReadPlan]) -> tuple[Parts, tuple[Plan, ...]]:
        """Replace each group in tiles by a single part; return (parts, plans).

        Raises ModelError if no accelerator can run such a group, or if `self.source` is None.
        """
        groups: list[tuple[tuple[int, ...], FusedPart]] = []
        for read in plans:
            members = read.assigned.plan.parts
            if read.assigned.in_tiles:
                fused = self.source.fused(self.parts, members) if self.source else None
                if fused is None:
                    text = f"the plan that begins with {read.at} cannot run in tiles on this target"
                    raise self.scanner.contradiction(text, at=read.at)
                groups.append((members, fused))
        found = with_fused(self.parts, groups)
        renumbered = (
            replace(plan, parts=tuple(dict.fromkeys(found.index[k] for k in plan.parts)))
            for plan in (read.assigned.plan for read in plans)
        )
        return found.parts, tuple(renumbered)

    def _banded(self, read: ReadPlan, memory: MemoryAssignment) -> tuple[Bands, ...]:
        """Return the bands of a plan or of each of its chains; empty if the plan has no bands.

        memory: memory assignment of the schedule.

        Raises ModelError if the cascade or a chain cannot run in bands of the stated width, or if
        the plan has bands but `self.source` is None.
        """
        if not read.assigned.in_bands:
            return ()
        cascade, candidate = read.assigned.plan.parts, read.assigned.candidate(memory)
        if (cascade, candidate) in self._known:
            return self._known[cascade, candidate]
        plan = f"the plan that begins with {read.at}"
        if self.source is None:
            text = f"{plan} runs in bands of columns, which depend on the target"
            raise self.scanner.contradiction(text, at=read.at)
        found = None
        if _is_possible(self.parts, read.assigned, candidate):
            found = self.source.bands(self.parts, cascade, candidate)
        if found is None:
            stripe = read.assigned.plan.stripe
            rows = "" if stripe is None else f" and stripes of {stripe} rows"
            widths = (candidate.band_columns, *(chain.columns for chain in candidate.chains))
            columns = ", ".join(str(width) for width in widths if width is not None)
            text = f"{plan} cannot run in bands of {columns} columns{rows}"
            raise self.scanner.contradiction(text, at=read.at)
        self._known[cascade, candidate] = found
        return found

    def costed(self, schedule: Schedule) -> Schedule:
        """Return a schedule with costs in the plans of its chains' bands; the text leaves them out.

        The schedule is unchanged if `self.source` is None.
        """
        return schedule if self.source is None else self.source.costed(schedule)


def _is_possible(parts: Parts, assigned: AssignedPlan, candidate: Candidate) -> bool:
    """Return whether a plan meets the necessary conditions for its bands, or for its chains.

    A chain must have at least two parts, all of them in the cascade, and no part may be in two
    chains.  `can_run_in_bands` checks the other conditions.
    candidate: the plan as a candidate cascade, with the widths of bands.
    """
    cascade = assigned.plan.parts
    if candidate.band_columns is not None:
        return can_run_in_bands(parts, cascade, candidate)
    inside = [k for chain in candidate.chains for k in chain.parts]
    return (
        len(inside) == len(set(inside))
        and set(inside) <= set(cascade)
        and all(
            len(chain.parts) > 1
            and can_run_in_bands(parts, chain.parts, replace(candidate, band_columns=chain.columns))
            for chain in candidate.chains
        )
    )
