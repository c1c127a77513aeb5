"""RunningSum: under windows along columns, the sum of all rows so far.

    x  (1, H,    W,  C)  int8
    y  (1, rows, Wo, C)  int32    y[r] = y[r - 1] + sum over the window of (x[r] - zero)

Made of means, sums and average pools of one output row (`passes/accumulate.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.op import Kernel, Site, Work
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.ops import running, sliding
from penstock.ops.samples import int8, sample
from penstock.ops.window import Window

ROW = Window(1)
"""Each row of the output finds its part in one row of the input."""


@dataclass(frozen=True, slots=True)
class RunningSum:
    """Sums down `rows` rows of elements less `zero`."""

    rows: int
    columns: Window
    zero: int = 0

    FOREIGN: ClassVar[tuple[str, ...]] = ()
    ALIAS: ClassVar[bool] = False

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return running.pooled_type(self.rows, self.columns, inputs, DType.INT32)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        x = inputs[0][..., out.slices[3]].astype(np.int32) - self.zero
        padded = sliding.block(x, ROW, self.columns, out, 0)
        found = np.zeros(out.shape, np.int32)
        for _, _, tap in sliding.taps(padded, ROW, self.columns, out):
            found += tap
        return running.gone_on(found, inputs, out, np.add)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return (sliding.needs(ROW, self.columns, site.inputs[0].shape, out),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (sliding.affine(ROW, self.columns),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements * self.columns.size)

    def in_place(self, site: Site) -> tuple[int, ...]:
        return ()

    def kernel(self, site: Site) -> Kernel:
        params = (*running.column_params(self.columns, site), ("zero", self.zero))
        return Kernel("running_sum_s8", params, by_rows=True, accumulates=True)


SAMPLES = (
    sample(RunningSum(7, Window(6), -3), int8(1, 7, 6, 3)),
    sample(RunningSum(4, Window(3, 2, 1, 1, 1)), int8(1, 5, 6, 2)),
)
