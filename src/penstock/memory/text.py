"""Text of problems and placements: CSV, so that an instance can be pasted into a bug report.

    id,lower,upper,size                 required; `alignment` and `offset` may follow,
    conv1_y,0,2,8000                    and `anchor` and `distance` of tied buffers

An `offset` in a problem fixes the address of that buffer. Hence the text of a placement, which
states every offset, reads back as a problem with exactly one solution.

Law: `parse(show(p), p.capacity_bytes) == p`. Source: the format of google/minimalloc.
"""

from __future__ import annotations

import csv
from io import StringIO

from penstock.errors import InternalError, UsageError
from penstock.memory.problem import LiveBuffer, Placement, PlacementProblem

COLUMNS = ("id", "lower", "upper", "size")
FURTHER_COLUMNS = ("alignment", "offset", "anchor", "distance")

_SILENT = (("alignment", 1), ("offset", None), ("anchor", None), ("distance", 0))


def parse(text: str, capacity_bytes: int | None = None) -> PlacementProblem:
    """Parses a CSV text into a problem; columns may be in any order.

    Raises UsageError if a column is missing or unknown, or a line is malformed.
    """
    reader = csv.DictReader(StringIO(text))
    header = tuple(reader.fieldnames or ())
    missing = [name for name in COLUMNS if name not in header]
    unknown = [name for name in header if name not in COLUMNS + FURTHER_COLUMNS]
    if missing or unknown:
        found = ", ".join(header) or "empty"
        expected = ", ".join(COLUMNS + FURTHER_COLUMNS)
        raise UsageError(
            "memory-004", f"the header is {found}", where="line 1", why=f"columns are {expected}"
        )
    buffers = tuple(_buffer(row, reader.line_num) for row in reader)
    try:
        return PlacementProblem(buffers, capacity_bytes)
    except InternalError as error:
        raise UsageError("memory-005", error.what, where="the problem", why=error.why) from error


def show(problem: PlacementProblem) -> str:
    """The CSV text of a problem, without its capacity. Optional columns are omitted if every buffer
    has the default."""
    further = tuple(
        name
        for name, silent in _SILENT
        if any(_cells(buffer)[name] != silent for buffer in problem.buffers)
    )
    out = StringIO()
    writer = csv.DictWriter(out, COLUMNS + further, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_cells(buffer) for buffer in problem.buffers)
    return out.getvalue()


def show_placement(problem: PlacementProblem, placement: Placement) -> str:
    """The CSV text of a problem with the offset of every buffer."""
    offsets = dict(placement.offsets)
    fixed = (
        LiveBuffer(b.name, b.lower, b.upper, b.size_bytes, b.alignment, offsets[b.name])
        for b in problem.buffers
    )
    return show(PlacementProblem(tuple(fixed), problem.capacity_bytes))


def _cells(buffer: LiveBuffer) -> dict[str, str | int | None]:
    return {
        "id": buffer.name,
        "lower": buffer.lower,
        "upper": buffer.upper,
        "size": buffer.size_bytes,
        "alignment": buffer.alignment,
        "offset": buffer.fixed_offset,
        "anchor": buffer.anchor,
        "distance": buffer.distance_bytes,
    }


def _buffer(row: dict[str | None, str], line: int) -> LiveBuffer:
    try:
        if None in row:
            raise ValueError("more cells than columns")
        offset = row.get("offset") or ""
        return LiveBuffer(
            row["id"],
            int(row["lower"]),
            int(row["upper"]),
            int(row["size"]),
            int(row.get("alignment") or 1),
            int(offset) if offset else None,
            row.get("anchor") or None,
            int(row.get("distance") or 0),
        )
    except (InternalError, ValueError, TypeError) as error:
        why = error.why if isinstance(error, InternalError) else str(error)
        raise UsageError("memory-005", "malformed buffer", where=f"line {line}", why=why) from error
