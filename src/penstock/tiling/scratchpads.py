"""Scratchpads: local memories in which tiles lie while an engine computes, and what copies cost."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.tiling.layer import INPUT, OUTPUT, ROLES, WEIGHTS


@dataclass(frozen=True, slots=True)
class Scratchpad:
    """A local memory of `size_bytes` for the tensors of some roles.  In it, a tile's innermost
    dimension takes a multiple of `alignment` elements."""

    name: str
    size_bytes: int
    roles: tuple[str, ...]
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class Copies:
    """What it costs to move a box between memory and a scratchpad, in cycles:

        per_copy + per_run * runs + bytes / bytes_per_cycle

    A run is as many bytes as stand side by side in memory.  On a bus with bursts, `per_run` is the
    latency of a burst and, on average, half of one."""

    bytes_per_cycle: int = 8
    per_run: int = 2
    per_copy: int = 100


@dataclass(frozen=True, slots=True)
class Scratchpads:
    """All of them.  `double_buffered`: a tile that is not the tensor's only one lies there twice,
    and copies go on while the engine computes.  `spills`: sums that are not complete may be written
    to memory and read again.  Raises UsageError unless each role has exactly one scratchpad."""

    scratchpads: tuple[Scratchpad, ...]
    double_buffered: bool = False
    spills: bool = True
    copies: Copies = Copies()

    def __post_init__(self) -> None:
        roles = sorted(role for memory in self.scratchpads for role in memory.roles)
        if roles != sorted(ROLES) or any(
            memory.size_bytes < 1 or memory.alignment < 1 for memory in self.scratchpads
        ):
            raise UsageError(
                "tiling-002",
                f"the scratchpads hold {', '.join(roles) or 'nothing'}",
                where=f"scratchpads {', '.join(m.name for m in self.scratchpads)}",
                why="each of input, weights and output lies in one scratchpad of at least a byte, "
                "aligned to at least one element",
                help="use Scratchpads.shared or Scratchpads.separate",
            )

    @staticmethod
    def shared(
        size_bytes: int,
        *,
        alignment: int = 1,
        double_buffered: bool = False,
        spills: bool = True,
        copies: Copies = Copies(),
    ) -> Scratchpads:
        """One memory for all tensors."""
        memory = Scratchpad("local", size_bytes, ROLES, alignment)
        return Scratchpads((memory,), double_buffered, spills, copies)

    @staticmethod
    def separate(
        input_bytes: int,
        weights_bytes: int,
        output_bytes: int,
        *,
        alignment: int = 1,
        double_buffered: bool = False,
        spills: bool = True,
        copies: Copies = Copies(),
    ) -> Scratchpads:
        """A memory for each role."""
        sizes = {INPUT: input_bytes, WEIGHTS: weights_bytes, OUTPUT: output_bytes}
        memories = tuple(Scratchpad(r, size, (r,), alignment) for r, size in sizes.items())
        return Scratchpads(memories, double_buffered, spills, copies)

    def of(self, role: str) -> Scratchpad:
        """The scratchpad in which tensors of a role lie."""
        return next(memory for memory in self.scratchpads if role in memory.roles)
