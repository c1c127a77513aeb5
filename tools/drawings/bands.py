"""Columns that two neighbouring bands of a cascade compute, and the halo that both compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tools.drawings.rows import needed
from tools.drawings.svg import Drawing, box, text

COLUMNS = 20
CELL_PX = 17
LEFT_PX = 136
NAMES = ("input", "tensor 1", "tensor 2", "output")
BANDS: Mapping[str, range] = {"left": range(10), "right": range(10, COLUMNS)}
"""The columns of the output that each band computes."""
FILLS = {("left",): "blue", ("right",): "orange", ("left", "right"): "green"}


def drawing() -> Drawing:
    """Return the drawing."""
    owners = [_owners(tensor) for tensor in range(len(NAMES))]
    computed = sum(len(names) for row in owners[1:] for names in row)
    factor = computed / (COLUMNS * (len(NAMES) - 1))
    return Drawing(
        "Columns of four tensors that two bands of a cascade use: towards the input the bands "
        "overlap, and the columns in the overlap are computed twice",
        500,
        236,
        (
            text(16, 22, "A cascade in two bands of columns"),
            *(shape for k, row in enumerate(owners) for shape in _row(k, row)),
            *_legend(196),
            text(16, 222, f"recomputation factor F = {factor:.2f} (of the columns)", soft=True),
        ),
    )


def _owners(tensor: int) -> list[tuple[str, ...]]:
    """The bands that use each column of a tensor."""
    used: dict[str, set[int]] = {}
    for name, columns in BANDS.items():
        wanted = set(columns)
        for _ in range(tensor, len(NAMES) - 1):
            wanted = {below for column in wanted for below in needed(column, COLUMNS)}
        used[name] = wanted
    return [tuple(n for n, columns in used.items() if c in columns) for c in range(COLUMNS)]


def _row(tensor: int, owners: list[tuple[str, ...]]) -> Iterator[str]:
    y = 40 + tensor * 34
    yield text(16, y + 18, NAMES[tensor])
    for column, names in enumerate(owners):
        yield box(LEFT_PX + column * CELL_PX, y, CELL_PX, 26, FILLS[names])


def _legend(y: float) -> Iterator[str]:
    x = 16
    for names, meaning, width in (
        (("left",), "first band", 112),
        (("right",), "second band", 126),
        (("left", "right"), "halo: both bands", 0),
    ):
        yield box(x, y - 11, 14, 14, FILLS[names])
        yield text(x + 21, y, meaning)
        x += width
