"""RunningMax: running maximum over rows, under windows along columns, with clamp.

    x  (1, H,    W,  C)  int8
    y  (1, rows, Wo, C)  int8     y[r] = max(y[r - 1], clamp(largest under the window of x[r]))

Created from max pools with one output row (`passes/accumulate.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.ir.op import Kernel, Site
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import running, sliding
from penstock.opkit.activation import Activation
from penstock.opkit.samples import int8, sample
from penstock.opkit.sliding import Window


@dataclass(frozen=True, slots=True)
class RunningMax(running.UnderColumns):
    """Running maximum over `rows` rows, with clamp."""

    rows: int
    columns: Window
    activation: Activation = Activation.NONE

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return running.pooled_type(self.rows, self.columns, inputs, DType.INT8)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        x = inputs[0][..., out.slices[3]]
        read = sliding.block(x, running.ROW, self.columns, out)
        found = np.full(out.shape, -128, np.int8)
        for _, _, tap in sliding.taps(read, x.shape, running.ROW, self.columns, out, -128):
            np.maximum(found, tap, out=found)
        least, most = self.activation.bounds(site.output)
        found = np.clip(found, np.int8(least), np.int8(most))
        return running.gone_on(found, inputs, out, np.maximum)

    def kernel(self, site: Site) -> Kernel:
        least, most = self.activation.bounds(site.output)
        params = (*running.column_params(self.columns, site), ("least", least), ("most", most))
        return Kernel("running_max_s8", params, by_rows=True, recurrent=True, accumulates=True)


SAMPLES = (
    sample(RunningMax(7, Window(6)), int8(1, 7, 6, 3)),
    sample(RunningMax(4, Window(3, 2, 1, 1, 1), Activation.RELU), int8(1, 5, 6, 2)),
    sample(RunningMax(4, Window(3, 1, 2, 2, 3)), int8(1, 5, 6, 2)),
)
