"""Text of a tiling: its loops, and what is loaded and stored in which of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.tiling.tiling import Moved, Tiling


def shown(tiling: Tiling) -> str:
    """A line that sums up, one for each tensor, then the loops."""
    cycles = f"{float(tiling.cycles):,.0f}"
    title = f"{tiling.layer.name}: {tiling.count:,} tiles, {tiling.bytes:,} bytes, {cycles} cycles"
    return "\n".join((title, *_tensors(tiling), *_loops(tiling)))


def _tensors(tiling: Tiling) -> Iterator[str]:
    width = max(len(moved.operand.name) for moved in tiling.moved)
    for moved in tiling.moved:
        shape = " x ".join(map(str, moved.operand.shape)) or "1"
        yield (
            f"  {moved.operand.name:{width}}  {shape}: {moved.elements:,} elements in "
            f"{moved.copies:,} copies of {moved.runs:,} runs, {moved.held_bytes:,} bytes held"
        )


def _loops(tiling: Tiling) -> Iterator[str]:
    names = [name for name in tiling.order if len(tiling.tiles[name]) > 1]
    levels = {moved.operand.name: _level(tiling, k, names) for k, moved in enumerate(tiling.moved)}
    for level in range(len(names) + 1):
        indent = "  " * (level + 1)
        for moved in tiling.moved:
            if levels[moved.operand.name] == level and _is_read(moved, tiling):
                yield f"{indent}load {moved.operand.name}"
        if level < len(names):
            cut = sorted({upper - lower for lower, upper in tiling.tiles[names[level]]})
            sizes = "-".join(map(str, dict.fromkeys((cut[0], cut[-1]))))
            yield f"{indent}for {names[level]} in {len(tiling.tiles[names[level]])} x {sizes}"
    yield "  " * (len(names) + 1) + "compute"
    yield "  " * (levels[tiling.layer.output.name] + 1) + f"store {tiling.layer.output.name}"


def _level(tiling: Tiling, k: int, names: list[str]) -> int:
    """How many of the loops that are left stand around what a tensor's tile changes with."""
    followed = [
        level + 1
        for level, name in enumerate(names)
        if tiling.layer.operands[k].follows(name) and name in tiling.order[: tiling.depths[k]]
    ]
    return max(followed, default=0)


def _is_read(moved: Moved, tiling: Tiling) -> bool:
    return moved.operand is not tiling.layer.output or moved.elements_read > 0
