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
from penstock.scanner import Scanner, name_or_string, quoted

Label = Callable[[str], str]
"""Returns the token of a name."""

_ROWS = re.compile(r"(.+)\[(\d+):(\d+)\]", re.DOTALL)
_BLOCKS_PER_LINE = 8


def print_placement(placement: Placement, memory: str, label: Label = name_or_string) -> str:
    """The text of a placement in one memory.  `label` returns the token of a name."""
    return "".join(f"{line}\n" for line in _lines(placement, memory, label))


def read_placement(
    scanner: Scanner, read_label: Callable[[], str] | None = None
) -> tuple[str, Placement]:
    """Parses the name of a memory and its placement; stops at a line that does not begin with a
    block.

    `read_label` takes a label from the scanner and returns its name. Raises ModelError if the text
    is malformed."""
    read_label = read_label or scanner.name
    scanner.skip_newlines()
    scanner.expect_word("placement")
    scanner.expect_word("in")
    memory = scanner.name()
    scanner.expect(":")
    height = scanner.integer()
    scanner.expect_word("bytes")
    scanner.expect(",")
    scanner.expect_word("bound")
    bound = scanner.integer()
    scanner.expect(",")
    scanner.expect_word("by")
    method = scanner.string()
    scanner.expect(",")
    scanner.expect_word("nodes")
    nodes = scanner.integer()
    scanner.end_statement()
    offsets: list[tuple[str, int]] = []
    while not (scanner.at_end or _begins_placement(scanner)):
        offsets += _blocks(scanner, read_label())
        scanner.end_statement()
    return memory, Placement(tuple(offsets), height, bound, method, nodes)


def _begins_placement(scanner: Scanner) -> bool:
    return scanner.is_word("placement") and scanner.is_followed_by_word("in")


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


def _blocks(scanner: Scanner, stem: str) -> Iterator[tuple[str, int]]:
    if not scanner.is_symbol("["):
        yield stem, scanner.integer()
        return
    while scanner.accept("["):
        lower = scanner.integer()
        scanner.expect(":")
        upper = scanner.integer()
        scanner.expect("]")
        yield f"{stem}[{lower}:{upper}]", scanner.integer()
