"""RunningSum: running sum over rows, under windows along columns.

    x  (1, H,    W,  C)  int8
    y  (1, rows, Wo, C)  int32    y[r] = y[r - 1] + sum over the window of (x[r] - zero)

Created from means, sums and average pools with one output row (`passes/accumulate.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.ir.op import Kernel, Site
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import running, sliding
from penstock.opkit.samples import int8, sample
from penstock.opkit.sliding import Window


@dataclass(frozen=True, slots=True)
class RunningSum(running.UnderColumns):
    """Running sum, over `rows` rows, of elements less `zero`."""

    rows: int
    columns: Window
    zero: int = 0

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return running.pooled_type(self.rows, self.columns, inputs, DType.INT32)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        x = inputs[0][..., out.slices[3]]
        read = sliding.block(x, running.ROW, self.columns, out).astype(np.int32) - self.zero
        found = np.zeros(out.shape, np.int32)
        for _, _, tap in sliding.taps(read, x.shape, running.ROW, self.columns, out):
            found += tap
        return running.gone_on(found, inputs, out, np.add)

    def kernel(self, site: Site) -> Kernel:
        params = (*running.column_params(self.columns, site), ("zero", self.zero))
        return Kernel("running_sum_s8", params, by_rows=True, recurrent=True, accumulates=True)


SAMPLES = (
    sample(RunningSum(7, Window(6), -3), int8(1, 7, 6, 3)),
    sample(RunningSum(4, Window(3, 2, 1, 1, 1)), int8(1, 5, 6, 2)),
    sample(RunningSum(4, Window(3, 1, 2, 2, 3)), int8(1, 5, 6, 2)),
)
