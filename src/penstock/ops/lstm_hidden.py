"""LstmHidden: the hidden state in the rows that an LSTM layer computes.

x  (1, T, B, 2 * U)  int16    row t: cell state, then hidden state after step t (`Lstm`)
y  (1, T, B, U)      int8     the hidden state
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.op import Kernel, OperatorDefaults, Site
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.checks import require, require_dtype, require_rank
from penstock.opkit.samples import sample


@dataclass(frozen=True, slots=True)
class LstmHidden(OperatorDefaults):
    """The hidden state, as int8, in each row that an LSTM layer computes."""

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"there are {len(inputs)} inputs, must be 1")
        require_rank(inputs[0], (4,), "input")
        require_dtype(inputs[0], (DType.INT16,), "input")
        *others, channels = inputs[0].shape
        require(channels % 2 == 0, f"input has {channels} channels, must be an even number")
        return TensorType((*others, channels // 2), DType.INT8)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (read,) = self.needs(site, out)
        return inputs[0][read.slices].astype(np.int8)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        units = site.output.shape[3]
        lower, upper = out.intervals[3]
        return (out.replace(3, (lower + units, upper + units)),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (Affine.diagonal((1, 1, 1, 1), offset=(0, 0, 0, site.output.shape[3])),)

    def kernel(self, site: Site) -> Kernel:
        _, _, batch, units = site.output.shape
        return Kernel("lstm_hidden_s16", (("batch", batch), ("units", units)), by_rows=True)


SAMPLES = (
    sample(LstmHidden(), TensorType((1, 4, 2, 6), DType.INT16)),
    sample(LstmHidden(), TensorType((1, 3, 1, 10), DType.INT16)),
)
