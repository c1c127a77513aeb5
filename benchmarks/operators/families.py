"""Every family: one for each TFLite operator that penstock supports, and one more, marked
"(plain)", where it also computes on numbers without quantisation."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from benchmarks.operators import elementwise, movement, plain, recurrent, weighted, windows
from benchmarks.operators.drawing import Drawing, Drawn

FAMILIES: Mapping[str, elementwise.Family] = dict(
    sorted(
        {
            **elementwise.FAMILIES,
            **movement.FAMILIES,
            **plain.FAMILIES,
            **recurrent.FAMILIES,
            **weighted.FAMILIES,
            **windows.FAMILIES,
        }.items()
    )
)


def draw(family: str, seed: int, number: int) -> Drawn:
    """Model `number` of a family; the same arguments draw the same model everywhere."""
    rng = np.random.default_rng([zlib.crc32(family.encode()), seed, number])
    drawing = Drawing(rng)
    FAMILIES[family](drawing)
    return drawing.drawn()
