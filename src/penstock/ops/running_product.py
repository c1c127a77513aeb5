"""RunningProduct: running sum over rows of weighted inputs, starting with a bias.

    x  (1, H, W, C)  int8
    w  (O, H*W*C)    int8     zero point 0; those of row r are [r*W*C, (r + 1)*W*C)
    b  (O)           int32
    y  (1, H, 1, O)  int32    y[r] = (y[r - 1], or b) + w[r] * (x[r] - zero_x)

Created from fully connected layers on an image (`passes/accumulate.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.op import Kernel, OperatorDefaults, Site, Work
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import running
from penstock.opkit.checks import require, require_dtype, require_rank
from penstock.opkit.samples import bias, int8, sample, weights


@dataclass(frozen=True, slots=True)
class RunningProduct(OperatorDefaults):
    """Matrix-vector product, accumulated over the rows of an image."""

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 3, f"running product has {len(inputs)} inputs, must have 3")
        x, w, b = inputs
        running.require_image(x)
        require_rank(w, (2,), "weights")
        require_dtype(w, (DType.INT8,), "weights")
        require_dtype(b, (DType.INT32,), "bias")
        outputs, depth = w.shape
        require(x.elements == depth, f"input has {x.elements} elements, the weights {depth}")
        require(b.shape == (outputs,), f"bias has shape {list(b.shape)}, must be [{outputs}]")
        return TensorType((1, x.shape[1], 1, outputs), DType.INT32)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        x, w, b = inputs[:3]
        _, rows, _, channels = out.slices
        centred = x[0, rows].reshape(out.shape[1], -1).astype(np.int64) - site.inputs[0].zero_point
        by_row = w.reshape(w.shape[0], x.shape[1], -1)[channels, rows].astype(np.int64)
        found = np.einsum("rk,ork->ro", centred, by_row).astype(np.int32).reshape(out.shape)
        if out.lower[1] == 0:
            found[:, :1] += b[channels]
        return running.gone_on(found, inputs, out, np.add)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        x = site.inputs[0].shape
        batch, rows, _, channels = out.intervals
        row = x[2] * x[3]
        first = channels if rows[0] == 0 else (channels[0], channels[0])
        return (
            Region.of(batch, rows, (0, x[2]), (0, x[3])),
            Region.of(channels, (rows[0] * row, rows[1] * row)),
            Region.of(first),
        )

    def affine(self, site: Site) -> tuple[Affine, ...]:
        x = site.inputs[0].shape
        image = Affine.diagonal((1, 1, 0, 0), extra=(0, 0, x[2], x[3]))
        channel = (0, 0, 0, 1, 0)
        by_row = (0, x[2] * x[3], 0, 0, 0)
        # the bias is read with the first row only: no form is exact for that
        whole = Affine.constant(site.inputs[2].shape, 4)
        return image, Affine((channel, by_row), (0, 0)), whole

    def work(self, site: Site, out: Region) -> Work:
        x = site.inputs[0].shape
        return Work(out.elements * x[2] * x[3], out.elements)

    def kernel(self, site: Site) -> Kernel:
        x = site.inputs[0]
        return Kernel(
            "running_product_s8",
            params=(
                ("row", x.shape[2] * x.shape[3]),
                ("depth", site.inputs[1].shape[1]),
                ("out_c", site.output.shape[3]),
                ("in_zero", x.zero_point),
            ),
            constants=((1, "weights"), (2, "bias")),
            by_rows=True,
            recurrent=True,
            accumulates=True,
        )


SAMPLES = (
    sample(RunningProduct(), int8(1, 7, 3, 2), weights(5, 42), bias(5)),
    sample(RunningProduct(), int8(1, 4, 1, 3, zero=9), weights(2, 12, axis=0), bias(2)),
)
