"""PlacedPoint: a schedule of the frontier with the addresses of all blocks; errors about it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.brief import Brief
from penstock.choices import Optimize
from penstock.errors import BackendError, InternalError
from penstock.hardware.target import Target
from penstock.memory.problem import Placement, round_up
from penstock.pipeline.request import Request
from penstock.program.writer import Addresses
from penstock.scheduling.model.schedule import Schedule


@dataclass(frozen=True, slots=True, repr=False)
class PlacedPoint(Brief):
    """A schedule with the placement of its blocks in every memory region.

    placement: placement in the default memory region, which holds inputs and outputs.
    others: (name of a memory region, placement) for the other memory regions.
    unbudgeted: names of the memory regions that do not count towards the RAM budget.
    line_bytes: the bytes used in each memory region are rounded up to a multiple of it, because
        drivers write back or invalidate whole cache lines.
    is_finished: whether the accelerators' passes of PROGRAM_PHASE_1 have run on the schedule.
    """

    schedule: Schedule
    placement: Placement
    others: tuple[tuple[str, Placement], ...] = ()
    unbudgeted: frozenset[str] = frozenset()
    line_bytes: int = 1
    is_finished: bool = False

    @property
    def is_optional(self) -> bool:
        """Whether the schedule is one of an alternative graph, or has bands of columns."""
        return bool(self.schedule.assigned_parts.alternative or self.schedule.bands)

    @property
    def heights(self) -> tuple[int, ...]:
        """Bytes used in each memory region that counts towards the budget.

        Those of the default region come first; 0 if it does not count."""
        others = (size for memory, size in self.used_bytes[1:] if memory not in self.unbudgeted)
        return (self.default_bytes if self.default_counts else 0, *others)

    @property
    def default_counts(self) -> bool:
        """Whether the default memory region counts towards the budget."""
        return self.schedule.memory.default not in self.unbudgeted

    @property
    def default_bytes(self) -> int:
        """Bytes used in the default memory region."""
        return self.used_bytes[0][1]

    @property
    def used_bytes(self) -> tuple[tuple[str, int], ...]:
        """(name of a memory region, bytes used in it) pairs, the default region first."""
        return tuple((m, round_up(p.height_bytes, self.line_bytes)) for m, p in self.placements)

    @property
    def height_bytes(self) -> int:
        """Bytes used in all memory regions that count towards the budget."""
        return sum(self.heights)

    @property
    def unbudgeted_bytes(self) -> Mapping[str, int]:
        """Bytes used in each memory region that does not count towards the budget, by name."""
        return {memory: size for memory, size in self.used_bytes if memory in self.unbudgeted}

    @property
    def moved_bytes(self) -> int:
        """Bytes read from and written to memory regions that count towards the budget."""
        cost = self.schedule.cost
        transfers = (*cost.read_bytes, *cost.written_bytes)
        return sum(size for memory, size in transfers if memory not in self.unbudgeted)

    def ram_bytes(self, request: Request) -> int:
        """Return the RAM in bytes: memory regions that count towards the budget, plus the stack."""
        return self.height_bytes + request.stack_bytes

    @property
    def addresses(self) -> Addresses:
        """The offset of every block in its memory region, and the bytes used in each."""
        offsets = {name: at for _, p in self.placements for name, at in p.offsets}
        return Addresses(offsets, self.used_bytes)

    @property
    def placements(self) -> tuple[tuple[str, Placement], ...]:
        """(name of a memory region, placement in it) pairs, the default region first."""
        return ((self.schedule.memory.default, self.placement), *self.others)

    def fits(self, target: Target) -> bool:
        """Return whether each memory region of the target is large enough for its blocks."""
        sizes = {memory.name: memory.size_bytes for memory in target.memories}
        return all(size <= sizes[memory] for memory, size in self.used_bytes)

    def available_bytes(self, request: Request) -> int:
        """Return the bytes of the default memory region that the target and the RAM budget leave
        for its blocks; negative if the other blocks exceed the budget."""
        sizes = {memory.name: memory.size_bytes for memory in request.target.memories}
        most = sizes[self.schedule.memory.default]
        if self.default_counts:
            others = self.ram_bytes(request) - self.default_bytes
            most = min(most, request.ram_limit_bytes - others)
        return most // self.line_bytes * self.line_bytes

    def is_feasible(self, request: Request) -> bool:
        """Return whether the point fits into the target's memories and into the RAM budget."""
        return self.fits(request.target) and self.ram_bytes(request) <= request.ram_limit_bytes


@contextmanager
def located_at(point: PlacedPoint, request: Request) -> Generator[None]:
    """Name a point, and the settings that verify it alone, in errors of the reference machine."""
    try:
        yield
    except (BackendError, InternalError) as error:
        budget, goal, last = point.ram_bytes(request), Optimize.SPEED, "machine"
        alone = f"--sram {budget} --optimize {goal} --last-rung {last}"
        if request.graph is not None:
            alone = f'sram={budget}, optimize="{goal}", last_rung="{last}"'
        again = f"to run this point only, repeat the verification with {alone}"
        where = f"{point.schedule.parts.graph.name}, the point of {point.height_bytes} bytes"
        help = f"{error.help}; {again}" if error.help else again
        raise error.at(where).but(help=help) from error
