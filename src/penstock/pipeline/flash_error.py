"""The error for constants and code that exceed the flash, with changes that make them fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.errors import CapacityError
from penstock.hardware.load import board_names
from penstock.optional import attempt_each
from penstock.pipeline.compilation import Compilation, compile_graph
from penstock.pipeline.flash_capacity import (
    boards_with,
    flash_limit_bytes,
    slower_kernels,
    smaller_kernels,
    with_last_resort,
)
from penstock.program.stored_constants import weight_bytes
from penstock.reports.report import Report


def flash_error(report: Report, done: Compilation) -> CapacityError:
    """Return the error for a compilation whose constants and code exceed the flash."""
    flash, request = report.flash_bytes, done.request
    memory = request.target.memory_for("constant")
    remedies = tuple(attempt_each("a remedy", lambda: _fitting(report, done)))
    subject = "constants" if flash.code is None else "constants and code"
    return CapacityError(
        "capacity-002",
        f"{subject} need {flash.total} bytes of {memory.name}, "
        f"there are {flash_limit_bytes(request)}",
        where=report.model,
        why=f"the constants of the model are {flash.model} bytes; the kernels of "
        f"{request.target.name} store them in {flash.weights}, with tables that save cycles and "
        "without what no result depends on",
        help="; ".join(with_last_resort(remedies)),
    )


def _fitting(report: Report, done: Compilation) -> Iterator[str]:
    """Yield clauses about changes with which constants and code fit."""
    needed, request = report.flash_bytes.total, done.request
    capacity = request.target.memory_for("constant").size_bytes
    if needed <= capacity:
        yield f"use at least --flash {needed}"
    smaller = _fitting_kernels(report, done)
    if smaller is not None:
        yield slower_kernels(*smaller)
    if needed > capacity and request.flash_bytes is None and request.sram_bytes is None:
        boards = boards_with(report.ram_bytes.total, needed, request.target)
        if boards and request.target.name in board_names():
            yield f"use a board with more flash: {', '.join(boards)}"


def _fitting_kernels(report: Report, done: Compilation) -> tuple[str, int] | None:
    """Return the core family whose kernels fit into the RAM and the flash of the request, and the
    bytes of their constants; None if there is none.  Their code is assumed to be no larger."""
    flash, request, limit = report.flash_bytes, done.request, flash_limit_bytes(done.request)
    smaller = smaller_kernels(done.parts, request)
    if smaller is None or flash.total - smaller[1] > limit:
        return None
    other = replace(request, target=request.target.with_kernels(smaller[0]))
    try:
        size = weight_bytes(compile_graph(done.model, other).program)
    except CapacityError:
        return None
    return (smaller[0], size) if size + (flash.code or 0) <= limit else None
