"""Flash that constants need, and kernels and boards with which they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.cores.registry import plain_c_family
from penstock.hardware.load import board_names, load_target
from penstock.hardware.target import Target
from penstock.pipeline.assignment import assign_kernels
from penstock.pipeline.request import Request
from penstock.scheduling.model.parts import Parts

NAMED_BOARDS = 3
"""Maximum number of boards that a message proposes, those with the least memory first."""


def flash_limit_bytes(request: Request) -> int:
    """Return the bytes of flash that a request allows."""
    memory = request.target.memory_for("constant")
    budget = memory.size_bytes if request.flash_bytes is None else request.flash_bytes
    return min(memory.size_bytes, budget)


def with_last_resort(remedies: Sequence[str]) -> tuple[str, ...]:
    """Return clauses about changes with which the constants fit, followed by the last resort."""
    if remedies:
        return (*remedies, "a network with fewer weights needs less flash")
    return ("no kernels of this core fit into that flash: choose a network with fewer weights",)


def slower_kernels(family: str, size_bytes: int) -> str:
    """Return a clause about kernels with which the constants need that much flash."""
    return f"--kernels {family} is slower and stores the constants in {size_bytes} bytes"


def part_constant_bytes(parts: Parts) -> int:
    """Return the bytes of constants and of kernel tables, without tables of rows and loop bounds,
    which depend on the schedule."""
    constants = {
        value.name: value.type.size_bytes
        for part in parts.parts
        for k, value in enumerate(part.inputs)
        if value.data is not None and k not in part.kernel.folded
    }
    tables = {
        (part.name, name, table) for part in parts.parts for name, table in part.kernel.tables
    }
    return sum(constants.values()) + sum(table.type.size_bytes for _, _, table in tables)


def boards_with(
    ram_bytes: int, flash_bytes: int, target: Target, *, other_kernels: bool = False
) -> tuple[str, ...]:
    """Return the boards with that much memory whose kernels are those of `target`, those with the
    least RAM first.

    other_kernels: return boards with other kernels instead, which need other amounts of memory."""
    found: list[tuple[int, str]] = []
    for name in board_names():
        board = load_target(name)
        ram, flash = board.memory_for("arena"), board.memory_for("constant")
        is_large = ram.size_bytes >= ram_bytes and flash.size_bytes >= flash_bytes
        if (
            is_large
            and (_kernels(board) != _kernels(target)) == other_kernels
            and name != target.name
        ):
            found.append((ram.size_bytes, name))
    return tuple(name for _, name in sorted(found)[:NAMED_BOARDS])


def smaller_kernels(parts: Parts, request: Request) -> tuple[str, int] | None:
    """Return the core family whose kernels store constants as the model does, and about how many
    bytes of flash it saves; None if it saves none."""
    family = plain_c_family()
    other = replace(request, target=request.target.with_kernels(family))
    saved = part_constant_bytes(parts) - part_constant_bytes(assign_kernels(parts.graph, other))
    return (family, saved) if saved > 0 else None


def _kernels(target: Target) -> str:
    return target.engines[0].kernels
