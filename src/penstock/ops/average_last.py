"""AverageLast: divides the last row of sums by the number of summed elements.

    x  (1, rows, Wo, C)  int32    only the last row is read
    y  (1, 1,    Wo, C)  int8     clamp(round(x[rows - 1] / count)), ties away from zero

Created from average pools that accumulate row by row (`passes/accumulate.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.ir.op import Kernel, Site, Table
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import pool, running
from penstock.opkit.activation import Activation
from penstock.opkit.checks import require
from penstock.opkit.samples import sample


@dataclass(frozen=True, slots=True)
class AverageLast(running.OfLastRow):
    """Division of the last row by `counts`, one per column, with clamp."""

    counts: tuple[int, ...]
    activation: Activation = Activation.NONE

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        x = running.total_type(inputs, DType.INT32)
        given = len(self.counts)
        require(given == x.shape[2], f"{given} counts for {x.shape[2]} columns")
        require(min(self.counts) > 0, f"counts are {list(self.counts)}, must be at least 1")
        return TensorType((1, 1, *x.shape[2:]), DType.INT8)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (read,) = self.needs(site, out)
        counts = np.array(self.counts, np.int32)[out.slices[2], None]
        return pool.average(inputs[0][read.slices], counts, self.activation.bounds(site.output))

    def kernel(self, site: Site) -> Kernel:
        _, rows, width, channels = site.inputs[0].shape
        least, most = self.activation.bounds(site.output)
        return Kernel(
            "average_last_s32",
            params=(
                ("in_h", rows),
                ("in_w", width),
                ("in_c", channels),
                ("least", least),
                ("most", most),
            ),
            tables=(("counts", Table.of(np.array(self.counts, np.int32))),),
            by_rows=True,
        )


SAMPLES = (
    sample(AverageLast((35,)), running.totals(1, 7, 1, 3)),
    sample(AverageLast((8, 12, 9), Activation.RELU), running.totals(1, 4, 3, 2)),
)
