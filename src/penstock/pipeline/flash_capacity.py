"""The error for constants and code that exceed the flash, with the kernels that would need less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.errors import CapacityError
from penstock.hardware.load import board_names, generic_target_names, load_target
from penstock.hardware.target import Target
from penstock.ir.graph import Graph
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.graphs import simplify
from penstock.pipeline.request import Request
from penstock.reports.report import Report
from penstock.scheduling.model.parts import Parts

NAMED_BOARDS = 3
"""Maximum number of boards that a message proposes, those with the least memory first."""


def flash_limit_bytes(request: Request) -> int:
    """Return the bytes of flash that a request allows."""
    memory = request.target.memory_for("constant")
    budget = memory.size_bytes if request.flash_bytes is None else request.flash_bytes
    return min(memory.size_bytes, budget)


def flash_error(report: Report, model: Graph, parts: Parts, request: Request) -> CapacityError:
    """Return the error for a compilation whose constants and code exceed the flash.

    model: the graph as it is read."""
    flash = report.flash_bytes
    memory = request.target.memory_for("constant")
    subject = "constants" if flash.code is None else "constants and code"
    others = [
        f"kernels of --target {name} are slower and need about {saved} bytes less"
        for name, saved in smaller_kernels(model, parts, request)
    ]
    if request.flash_bytes is not None and flash.total <= memory.size_bytes:
        others.insert(0, f"use at least --flash {flash.total}")
    boards = boards_with(report.ram_bytes.total, flash.total)
    if boards and request.target.name in board_names():
        others.append(f"or a board with more flash: {', '.join(boards)}")
    return CapacityError(
        "capacity-002",
        f"{subject} need {flash.total} bytes of {memory.name}, "
        f"there are {flash_limit_bytes(request)}",
        where=report.model,
        why=f"the constants of the model are {flash.model} bytes; the kernels of "
        f"{request.target.name} store them in {flash.weights}, with tables that save cycles and "
        "without what no result depends on",
        help="; ".join((*others, "a network with fewer weights needs less")),
    )


def stored_bytes(parts: Parts) -> int:
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


def boards_with(ram_bytes: int, flash_bytes: int) -> tuple[str, ...]:
    """Return the boards with that much memory, those with the least RAM first."""
    found: list[tuple[int, str]] = []
    for name in board_names():
        board = load_target(name)
        ram, flash = board.memory_for("arena"), board.memory_for("constant")
        if ram.size_bytes >= ram_bytes and flash.size_bytes >= flash_bytes:
            found.append((ram.size_bytes, name))
    return tuple(name for _, name in sorted(found)[:NAMED_BOARDS])


def smaller_kernels(model: Graph, parts: Parts, request: Request) -> Iterator[tuple[str, int]]:
    """Yield targets with the same core whose kernels need less flash, and about how many bytes
    they save.

    model: the graph as it is read."""
    own, graph = stored_bytes(parts), simplify(model, request.rounding, request.io)
    for name in generic_target_names():
        other = load_target(name)
        same_core = other.core is not None and other.core == request.target.core
        if (
            not same_core
            or not name.startswith(str(other.core))
            or _kernels(other) == _kernels(request.target)
        ):
            continue
        size = stored_bytes(assign_engines(graph, replace(request, target=other)))
        if size < own:
            yield name, own - size


def _kernels(target: Target) -> str:
    return target.engines[0].kernels
