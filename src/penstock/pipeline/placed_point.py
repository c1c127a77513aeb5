"""PlacedPoint: a schedule of the frontier with the address of every block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.brief import Brief
from penstock.hardware.target import Target
from penstock.memory.problem import Placement
from penstock.pipeline.request import Request
from penstock.program.lower import Addresses
from penstock.scheduling.model.schedule import Schedule


@dataclass(frozen=True, slots=True, repr=False)
class PlacedPoint(Brief):
    """A schedule, its placement in the memory of inputs and outputs, and its placements in `others`
    (memory name, placement).

    Memories named in `unbudgeted` do not count towards the RAM budget."""

    schedule: Schedule
    placement: Placement
    others: tuple[tuple[str, Placement], ...] = ()
    unbudgeted: frozenset[str] = frozenset()

    @property
    def heights(self) -> tuple[int, ...]:
        """Bytes used in each memory that counts towards the budget."""
        others = (p.height_bytes for memory, p in self.others if memory not in self.unbudgeted)
        return (self.placement.height_bytes, *others)

    @property
    def height_bytes(self) -> int:
        """Bytes used in all memories that count towards the budget."""
        return sum(self.heights)

    @property
    def unbudgeted_bytes(self) -> Mapping[str, int]:
        """Bytes used in each of the remaining memories, by name."""
        return {memory: p.height_bytes for memory, p in self.others if memory in self.unbudgeted}

    @property
    def moved_bytes(self) -> int:
        """Bytes read from and written to memories that count towards the budget."""
        cost = self.schedule.cost
        transfers = (*cost.read_bytes, *cost.written_bytes)
        return sum(size for memory, size in transfers if memory not in self.unbudgeted)

    def ram_bytes(self, request: Request) -> int:
        """RAM in bytes: the memories that count towards the budget plus the stack reserve."""
        return self.height_bytes + request.stack_bytes

    @property
    def addresses(self) -> Addresses:
        """The offset of every block in its memory."""
        placements = ((self.schedule.memory.default, self.placement), *self.others)
        offsets = {name: at for _, p in placements for name, at in p.offsets}
        return Addresses(offsets, tuple((memory, p.height_bytes) for memory, p in placements))

    def fits(self, target: Target) -> bool:
        """Whether each memory holds the blocks placed in it."""
        sizes = {memory.name: memory.size_bytes for memory in target.memories}
        return all(height <= sizes[memory] for memory, height in self.addresses.heights)

    def is_feasible(self, request: Request) -> bool:
        """Whether the point fits into the target's memories and into the RAM budget."""
        return self.fits(request.target) and self.ram_bytes(request) <= request.ram_limit_bytes
