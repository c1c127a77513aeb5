"""FusedGroups: groups of parts that an accelerator runs as one part, tile by tile.

The tensors between the parts of such a group are on chip one tile at a time, so a group whose
tensors do not fit there as a whole may still avoid their transfers to and from main memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.ir.breakdown import Breakdown
from penstock.ir.op import row_count
from penstock.ir.region import Region
from penstock.scheduling.model.fused_parts import FusedPart, FusionSource, Replacement, with_fused
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import BYTES, CYCLES
from penstock.scheduling.order.step_table import bits

MOST_MEMBERS = 24
"""Maximum number of nodes of a group that runs tile by tile."""
MOST_FUSED = 2_000
"""Maximum number of groups for which tiles are searched."""


@dataclass(frozen=True, slots=True)
class FusedGroups:
    """The groups of parts that can run tile by tile, by node mask.

    parts: the parts; node k of a mask is part k.
    _known: the result of `_costs` for each group, by node mask.  The parts that run the groups are
        not stored: there are many, and few are chosen.
    """

    parts: Parts
    source: FusionSource
    _known: dict[int, Mapping[str, int] | None] = field(
        default_factory=dict[int, Mapping[str, int] | None]
    )

    def cost(self, objective: str, group: int) -> int | None:
        """Return the cost of a group that runs tile by tile; None if it is not known.

        It is not known if the group cannot run tile by tile, if it has more than `MOST_MEMBERS`
        nodes, or if `MOST_FUSED` other groups have been tried before.
        objective: `CYCLES`, or `BYTES` for the bytes that pass through main memory.
        group: mask of nodes.
        """
        if group.bit_count() > MOST_MEMBERS:
            return None
        if group not in self._known:
            if len(self._known) >= MOST_FUSED:
                return None
            self._known[group] = self._costs(group)
        known = self._known[group]
        return None if known is None else known.get(objective)

    def _costs(self, group: int) -> Mapping[str, int] | None:
        """Return the cycles of a group (key `CYCLES`) and, if known, the bytes that pass through
        main memory (key `BYTES`); None if the group cannot run tile by tile."""
        fused = self.fused(group)
        if fused is None or fused.part.kernel.cycles is None:
            return None
        found = fused.part.kernel.cycles(row_count(fused.part.output.type.shape), ())
        if not isinstance(found, Breakdown):
            return {CYCLES: round(found)}
        return {CYCLES: round(found.cycles), BYTES: round(found.memory_bytes)}

    def least(self, objective: str, k: int) -> int | None:
        """Return a lower bound of the cost of part `k` in any group that runs tile by tile.

        None if no accelerator runs the part.
        objective: `CYCLES` for the cycles of all multiply-accumulates at the accelerator's highest
            rate (0 if it states none); `BYTES` for the size of the constant tables that the part
            reads.
        """
        part = self.parts.parts[k]
        if part.kernel.cycles is None:
            return None
        if objective == BYTES:
            return sum(table.type.size_bytes for _, table in part.kernel.tables)
        shape = part.output.type.shape
        found = part.kernel.cycles(row_count(shape), ())
        peak = found.macs_per_cycle if isinstance(found, Breakdown) else None
        return 0 if peak is None else int(part.macs(Region.whole(shape)) / peak)

    def fused(self, group: int) -> FusedPart | None:
        """Return the part that runs a group tile by tile; None if it cannot.

        group: mask of nodes.
        """
        return self.source.fused(self.parts, tuple(bits(group)))

    def replaced(self, groups: Sequence[int]) -> Replacement:
        """Return the parts in which a single part stands for each group.

        groups: masks of nodes.
        """
        found: list[tuple[Sequence[int], FusedPart]] = []
        for group in groups:
            fused = self.fused(group)
            assert fused is not None
            found.append((tuple(bits(group)), fused))
        return with_fused(self.parts, found)


def memory_bytes(parts: Parts, k: int, memory: MemoryAssignment) -> int:
    """Return the bytes that pass through main memory when part `k` computes all rows in one call.

    The result is 0 if the kernel's cost function does not state them.
    memory: the memory assignment of a schedule.
    """
    part = parts.parts[k]
    if part.kernel.cycles is None:
        return 0
    regions = memory.for_part(part, parts.owners).operand_regions(part)
    found = part.kernel.cycles(row_count(part.output.type.shape), regions)
    return round(found.memory_bytes) if isinstance(found, Breakdown) else 0
