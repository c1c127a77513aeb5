"""NASNet-A (4 @ 1056): normal and reduction cells found by search."""

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
    average,
    identity,
    maximum,
    separable,
)
from penstock.zoo.searched_network import STAGES, SearchedNetwork

NORMAL = Cell(
    (
        (separable(5, FIRST), separable(3, PREVIOUS)),
        (separable(5, PREVIOUS), separable(3, PREVIOUS)),
        (average(FIRST), identity(PREVIOUS)),
        (average(PREVIOUS), average(PREVIOUS)),
        (separable(3, FIRST), identity(FIRST)),
    ),
    outputs=(1, 2, 3, 4, 5, 6),
)
REDUCTION = Cell(
    (
        (separable(5, FIRST), separable(7, PREVIOUS)),
        (maximum(FIRST), separable(7, PREVIOUS)),
        (average(FIRST), separable(5, PREVIOUS)),
        (identity(3), average(2)),
        (separable(3, 2), maximum(FIRST)),
    ),
    outputs=(3, 4, 5, 6),
)
"""Source: figure 4 of the paper, with the order of inputs of the authors' implementation
(tensorflow/models, slim)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NasnetMobile(SearchedNetwork):
    """Three stages of normal cells with reduction cells before each, ReLU.

    `filters` scales all widths but that of the first convolution; `cells` is the number of normal
    cells in a stage.  The auxiliary classifier is left out.

    Source: Zoph et al., Learning Transferable Architectures, 2017, arXiv:1707.07012
    """

    NAME: ClassVar[str] = "nasnet_mobile"

    filters: int = option(44, 4, 168)
    cells: int = option(4, 1, 6)

    def output(self, builder: CellBuilder, x: Value) -> Value:
        reduced = builder.add(REDUCTION, x, None, self.filters // 4, 2, "stem1")
        previous, x = x, reduced
        previous, x = x, builder.add(REDUCTION, x, previous, self.filters // 2, 2, "stem2")
        for stage in range(1, STAGES + 1):
            filters = self.filters * 2 ** (stage - 1)
            if stage > 1:
                name = f"reduction{stage - 1}"
                previous, x = x, builder.add(REDUCTION, x, previous, filters, 2, name)
            for number in range(1, self.cells + 1):
                name = f"stage{stage}/cell{number}"
                previous, x = x, builder.add(NORMAL, x, previous, filters, 1, name)
        return x
