"""ConcreteOperand: a region of a view for given loop variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from penstock.ir.op import row_axis, row_count
from penstock.ir.region import Region
from penstock.program.expr import evaluate
from penstock.program.program import Box, View


@dataclass(frozen=True, slots=True)
class ConcreteOperand:
    """A region of a view whose bounds and offset contain no loop variables."""

    view: View
    region: Region

    @staticmethod
    def of(view: View, region: Region, variables: Mapping[str, int]) -> ConcreteOperand:
        """The region of a view, for given loop variables."""
        lower, upper = evaluate(view.lower, variables), evaluate(view.upper, variables)
        offset = evaluate(view.offset, variables)
        first = None if view.first_column is None else evaluate(view.first_column, variables)
        concrete = replace(view, lower=lower, upper=upper, offset=offset, first_column=first)
        return ConcreteOperand(concrete, region)

    @staticmethod
    def whole(view: View) -> ConcreteOperand:
        """The whole tensor of a view without loop variables."""
        return ConcreteOperand.of(view, Region.whole(view.type.shape), {})

    @property
    def region_of_tensor(self) -> Region:
        """The region of the whole tensor, if the view is only some columns of it."""
        first = evaluate(self.view.first_column or 0, {})
        columns = len(self.region.lower) - 2
        shift = (first if axis == columns else 0 for axis in range(len(self.region.lower)))
        return self.region.shift(tuple(shift))

    @property
    def size_bytes(self) -> int:
        return self.region.elements * self.view.type.dtype.size_bytes

    @property
    def rows(self) -> tuple[int, int]:
        """Half-open interval of flattened indices of the whole rows that contain the region."""
        shape = self.view.type.shape
        if len(shape) < 2:
            return 0, 1
        around, _ = self.whole_rows
        axis = row_axis(len(shape))
        first = int(np.ravel_multi_index(around.lower[: axis + 1], shape[: axis + 1]))
        return first, first + row_count(around.shape)

    @property
    def whole_rows(self) -> tuple[Region, Region]:
        """The smallest region of consecutive whole rows that contains the region, and the region
        relative to its start."""
        shape = self.view.type.shape
        around = Region.whole(shape)
        if len(shape) >= 2:
            for axis in range(row_axis(len(shape)) + 1):
                around = around.replace(axis, self.region.intervals[axis])
                if around.shape[axis] > 1:
                    break
        return around, self.region.shift(tuple(-x for x in around.lower))


def whole_operands(*views: View | None) -> list[ConcreteOperand]:
    """The whole tensors of views without loop variables; nothing for None."""
    return [ConcreteOperand.whole(view) for view in views if view is not None]


def evaluate_box(box: Box, variables: Mapping[str, int]) -> Region:
    """The region of a box for given loop variables."""
    return Region(
        tuple(evaluate(x, variables) for x in box.lower),
        tuple(evaluate(x, variables) for x in box.upper),
    )


def rows_region(shape: tuple[int, ...], lower: int, upper: int) -> Region:
    """Whole rows [lower, upper) of a tensor whose axes before the row axis have extent 1."""
    return Region.whole(shape).replace(row_axis(len(shape)), (lower, upper))
