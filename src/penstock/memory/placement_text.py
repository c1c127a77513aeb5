"""Text of a placement: the offset of every block; the rows of a tensor share a line.

    placement in sram: 3072 bytes, bound 3072, by "exact", nodes 1204
    input [0:2] 1236 [2:4] 1292 [4:6] 1348
    dense1 0

`input [0:2] 1236` is the block "input[0:2]" at offset 1236.  `bound` is the proven lower bound on
the height in bytes, and `nodes` the work that the search spent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby

from penstock.memory.problem import Placement
from penstock.scanner import name_or_string, quoted

Label = Callable[[str], str]
"""Returns the token of a name."""

_ROWS = re.compile(r"(.+)\[(\d+):(\d+)\]", re.DOTALL)
_BLOCKS_PER_LINE = 8


def print_placement(placement: Placement, memory: str, label: Label = name_or_string) -> str:
    """The text of a placement in one memory.  `label` returns the token of a name."""
    return "".join(f"{line}\n" for line in _lines(placement, memory, label))


def _lines(placement: Placement, memory: str, label: Label) -> Iterator[str]:
    yield (
        f"placement in {name_or_string(memory)}: {placement.height_bytes} bytes, "
        f"bound {placement.bound_bytes}, by {quoted(placement.method)}, nodes {placement.nodes}"
    )
    for (stem, rows), found in groupby(map(_split, placement.offsets), key=lambda b: b[:2]):
        blocks = [text for _, _, text in found]
        step = _BLOCKS_PER_LINE if rows else 1
        for k in range(0, len(blocks), step):
            yield f"{label(stem)} {' '.join(blocks[k : k + step])}"


def _split(block: tuple[str, int]) -> tuple[str, bool, str]:
    """Returns the name of a block without its rows, whether it has rows, and the text of rows and
    offset.

    Rows are those of a suffix "[lower:upper]" whose numbers have no superfluous digits."""
    name, offset = block
    found = _ROWS.fullmatch(name)
    if found and all(str(int(row)) == row for row in found.groups()[1:]):
        return found[1], True, f"[{found[2]}:{found[3]}] {offset}"
    return name, False, str(offset)
