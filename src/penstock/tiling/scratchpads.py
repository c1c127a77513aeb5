"""Scratchpads: local memories that hold tiles while an engine computes, and the cost of copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.tiling.layer import INPUT, OUTPUT, ROLES, WEIGHTS, LayerOperand


@dataclass(frozen=True, slots=True)
class Scratchpad:
    """A local memory of `size_bytes` for the tensors of some roles. The innermost dimension of a
    tile is padded to a multiple of `alignment` elements."""

    name: str
    size_bytes: int
    roles: tuple[str, ...]
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class Copies:
    """The cost in cycles of copying a box between memory and a scratchpad:

        per_copy + per_run * runs + bytes / bytes_per_cycle

    A run is a contiguous piece of memory. On a bus with bursts, `per_run` is the latency of a burst
    plus, on average, half a burst.
    """

    bytes_per_cycle: int = 8
    per_run: int = 2
    per_copy: int = 100


@dataclass(frozen=True, slots=True)
class Scratchpads:
    """The scratchpads of an engine. Raises UsageError unless each role has exactly one.

    With `double_buffered`, an operand with several tiles occupies two buffers, and copies overlap
    with computation. With `spills`, incomplete sums may be stored to memory and loaded again.
    """

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
                f"the scratchpads have the roles {', '.join(roles) or '(none)'}",
                where=f"scratchpads {', '.join(m.name for m in self.scratchpads)}",
                why="input, weights and output each need exactly one scratchpad, of at least one "
                "byte and aligned to at least one element",
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
        """Return a single memory for all tensors."""
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
        """Return one memory for each role."""
        sizes = {INPUT: input_bytes, WEIGHTS: weights_bytes, OUTPUT: output_bytes}
        memories = tuple(Scratchpad(r, size, (r,), alignment) for r, size in sizes.items())
        return Scratchpads(memories, double_buffered, spills, copies)

    def of(self, role: str) -> Scratchpad:
        """Return the scratchpad of the tensors of a role."""
        return next(memory for memory in self.scratchpads if role in memory.roles)

    def room(self, operand: LayerOperand, lengths: Sequence[int]) -> tuple[int, ...]:
        """Return the elements along each dimension of the memory for a tile: the innermost one
        aligned."""
        alignment = self.of(operand.role).alignment
        return (*lengths[:-1], *(-(-n // alignment) * alignment for n in lengths[-1:]))
