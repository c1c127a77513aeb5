"""The output of a layer as a function of its accumulator, and the thresholds of a proof."""

from __future__ import annotations

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from tools.drawings.svg import Drawing, dot, path, text

SCALE = 0.09
ACCUMULATORS = range(60)
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 44, 484, 48, 240


def drawing() -> Drawing:
    """Return the drawing."""
    multiplier, exponent = quantise_multiplier(SCALE)
    levels = multiply(np.array(ACCUMULATORS), multiplier, exponent).tolist()
    highest = levels[-1] + 1
    x_scale = (RIGHT_PX - LEFT_PX) / len(ACCUMULATORS)
    y_scale = (BOTTOM_PX - TOP_PX) / highest

    def at(accumulator: float, level: float) -> tuple[float, float]:
        return LEFT_PX + accumulator * x_scale, BOTTOM_PX - level * y_scale

    stairs = [at(a + end, y) for a, y in zip(ACCUMULATORS, levels, strict=True) for end in (0, 1)]
    thresholds = [a for a in ACCUMULATORS[1:] if levels[a] > levels[a - 1]]
    return Drawing(
        "The output of a layer is a staircase over its accumulator. Two functions that do not "
        "decrease and are equal on both sides of every step are equal everywhere.",
        500,
        292,
        (
            text(16, 22, "output element"),
            path([(LEFT_PX, TOP_PX - 8), (LEFT_PX, BOTTOM_PX), (RIGHT_PX, BOTTOM_PX)], "soft", 1),
            path([at(0, 0), at(len(ACCUMULATORS), len(ACCUMULATORS) * SCALE)], "line", 1.5),
            path(stairs, "blue", 3),
            *(
                dot(*at(a + 0.5, levels[a]), colour)
                for threshold in thresholds
                for a, colour in ((threshold - 1, "soft"), (threshold, "ink"))
            ),
            text(RIGHT_PX, BOTTOM_PX + 19, "accumulator", "end", soft=True),
            dot(26, BOTTOM_PX + 38, "ink"),
            text(36, BOTTOM_PX + 43, "threshold"),
            dot(128, BOTTOM_PX + 38, "soft"),
            text(138, BOTTOM_PX + 43, "the accumulator before it"),
            path([(330, BOTTOM_PX + 38), (352, BOTTOM_PX + 38)], "line", 2),
            text(360, BOTTOM_PX + 43, "real arithmetic"),
        ),
    )
