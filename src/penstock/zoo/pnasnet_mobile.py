"""PNASNet-5 (N = 3, F = 54): one kind of cell found by progressive search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.graph import Value
from penstock.zoo.network import option
from penstock.zoo.searched_cells import (
    FIRST,
    PREVIOUS,
    Cell,
    CellBuilder,
    identity,
    maximum,
    separable,
)
from penstock.zoo.searched_network import STAGES, SearchedNetwork

CELL = Cell(
    (
        (separable(5, PREVIOUS), maximum(PREVIOUS)),
        (separable(7, FIRST), maximum(FIRST)),
        (separable(5, FIRST), separable(3, FIRST)),
        (separable(3, 4), maximum(FIRST)),
        (separable(3, PREVIOUS), identity(FIRST)),
    ),
    outputs=(2, 3, 4, 5, 6),
)
"""Source: figure 1 of the paper, with the order of inputs of the authors' implementation
(tensorflow/models, slim)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PnasnetMobile(SearchedNetwork):
    """Three stages of one kind of cell, after two cells that reduce the image, ReLU.

    The first cell of the second and of the third stage has stride 2.  `filters` scales all widths
    but that of the first convolution; `cells` is the number of cells in a stage.  The auxiliary
    classifier is left out.

    Source: Liu et al., Progressive Neural Architecture Search, 2017, arXiv:1712.00559
    """

    NAME: ClassVar[str] = "pnasnet_mobile"

    filters: int = option(54, 4, 216)
    cells: int = option(3, 1, 6)

    def output(self, builder: CellBuilder, x: Value) -> Value:
        previous: Value | None = None
        for number, filters in enumerate((self.filters // 4, self.filters // 2), start=1):
            previous, x = x, builder.add(CELL, x, previous, filters, 2, f"stem{number}")
        for stage in range(1, STAGES + 1):
            filters = self.filters * 2 ** (stage - 1)
            for number in range(1, self.cells + 1):
                stride = 2 if stage > 1 and number == 1 else 1
                name = f"stage{stage}/cell{number}"
                previous, x = x, builder.add(CELL, x, previous, filters, stride, name)
        return x
