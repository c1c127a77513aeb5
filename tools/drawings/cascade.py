"""Which rows are in memory at one moment: layer by layer, and in a cascade."""

from __future__ import annotations

from collections.abc import Iterator

from tools.drawings.rows import Step, cascaded, layer_by_layer, steps
from tools.drawings.svg import Drawing, arrow, box, text

ROWS = 12
NAMES = ("input", "tensor 1", "tensor 2", "output")
ROW_PX = 9
WIDTH_PX = 80
GAP_PX = 40
LEFT_PX = 20


def drawing() -> Drawing:
    """Return the drawing."""
    tensors = len(NAMES)
    whole = steps([*layer_by_layer(tensors, ROWS)], tensors, ROWS)
    striped = steps([*cascaded(tensors, ROWS)], tensors, ROWS)
    first = next(s for s in whole if (s.tensor, s.row) == (2, ROWS // 2))
    second = next(s for s in striped if (s.tensor, s.row) == (3, ROWS // 2))
    return Drawing(
        "Rows in memory while a chain of three layers runs: whole tensors if it runs layer by "
        "layer, a few rows of each intermediate tensor if it runs as a cascade",
        500,
        416,
        (
            text(LEFT_PX, 20, "Layer by layer: layer 2 is running"),
            *_tensors(first, 34),
            text(LEFT_PX, 208, "Cascade: the layers take turns, row by row"),
            *_tensors(second, 222),
            *_legend(400),
        ),
    )


def _tensors(step: Step, top: float) -> Iterator[str]:
    for tensor, name in enumerate(NAMES):
        x = LEFT_PX + tensor * (WIDTH_PX + GAP_PX)
        for row in range(ROWS):
            now = (tensor, row) == (step.tensor, step.row)
            fill = "orange" if now else "blue" if row in step.live[tensor] else "empty"
            yield box(x, top + row * ROW_PX, WIDTH_PX, ROW_PX, fill)
        bottom = top + ROWS * ROW_PX + 18
        yield text(x + WIDTH_PX / 2, bottom, name, "middle")
        count = len(step.live[tensor])
        yield text(x + WIDTH_PX / 2, bottom + 17, f"{count} of {ROWS} rows", "middle", soft=True)
        if tensor:
            middle = top + ROWS * ROW_PX / 2
            yield arrow(x - GAP_PX + 8, middle, x - 8, middle)


def _legend(y: float) -> Iterator[str]:
    x = LEFT_PX
    for fill, meaning, width in (
        ("orange", "being computed", 150),
        ("blue", "in memory", 115),
        ("empty", "not in memory", 0),
    ):
        yield box(x, y - 11, 14, 14, fill)
        yield text(x + 21, y, meaning)
        x += width
