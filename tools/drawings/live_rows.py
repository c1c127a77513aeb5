"""Bytes in memory over time: layer by layer, and in a cascade."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.drawings.rows import Step, cascaded, layer_by_layer, steps
from tools.drawings.svg import Drawing, path, text

ROWS = 24
ROW_BYTES = (1, 4, 4, 1)
"""Bytes of a row of each tensor, relative to one of the input: the layers in between are wide."""
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 24, 480, 56, 236


def drawing() -> Drawing:
    """Return the drawing."""
    tensors = len(ROW_BYTES)
    whole = _bytes(steps([*layer_by_layer(tensors, ROWS)], tensors, ROWS))
    striped = _bytes(steps([*cascaded(tensors, ROWS)], tensors, ROWS))
    highest = max(whole)
    return Drawing(
        "Bytes in memory over time for a chain of three layers whose middle tensors are four times "
        "as wide as input and output: run layer by layer, and as a cascade",
        500,
        270,
        (
            text(LEFT_PX, 22, "Bytes in memory over time"),
            path([(LEFT_PX, TOP_PX), (LEFT_PX, BOTTOM_PX), (RIGHT_PX, BOTTOM_PX)], "soft", 1),
            text(RIGHT_PX, BOTTOM_PX + 20, "kernel calls", "end", soft=True),
            *_curve(whole, highest, "orange", "layer by layer", 200),
            *_curve(striped, highest, "blue", "cascade", 200),
        ),
    )


def _bytes(run: Sequence[Step]) -> list[int]:
    return [
        sum(size * len(rows) for size, rows in zip(ROW_BYTES, step.live, strict=True))
        for step in run
    ]


def _curve(
    live: Sequence[int], highest: int, colour: str, name: str, label_x: float
) -> Iterator[str]:
    x_scale, y_scale = (RIGHT_PX - LEFT_PX) / len(live), (BOTTOM_PX - TOP_PX) / highest
    points = [
        (LEFT_PX + (k + end) * x_scale, BOTTOM_PX - bytes_ * y_scale)
        for k, bytes_ in enumerate(live)
        for end in (0, 1)
    ]
    yield path(points, colour, 3)
    peak = max(live)
    label = f"{name}: peak {peak / highest:.0%}"
    yield text(label_x, BOTTOM_PX - peak * y_scale - 8, label)
