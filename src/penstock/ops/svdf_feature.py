"""SvdfFeature: one time step of the queue of an SVDF, a weighted sum of the inputs per filter.

    x  (1, I)        int8
    w  (F, I)        int8            zero point 0, one scale
    y  (1, 1, 1, F)  int8 or int16   zero_y + clamp(M * sum w * (x - zero_x))

Created from SVDF (`ops/svdf_time.py`).  As in TFLite Micro, the zero point is added after the
clamp, and the sum keeps its lowest bits.

Source: TFLite Micro, `EvalIntegerSvdfReference` (`micro/kernels/svdf_common.cc`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import multiply
from penstock.ir.affine import Affine
from penstock.ir.op import Kernel, OperatorDefaults, Site, Work
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.checks import require, require_dtype, require_int8, require_rank
from penstock.opkit.requantise import product_multiplier
from penstock.opkit.samples import int8, sample, weights


@dataclass(frozen=True, slots=True)
class SvdfFeature(OperatorDefaults):
    """Matrix-vector product, requantised to elements of type `dtype`."""

    dtype: DType = DType.INT16

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 2, f"SvdfFeature has {len(inputs)} inputs, must have 2")
        x, w = inputs
        require_rank(x, (2,), "input")
        require_rank(w, (2,), "weights")
        require_int8(x, "input")
        require_int8(w, "feature weights")
        expected = (1, w.shape[1])
        require(x.shape == expected, f"input has shape {list(x.shape)}, must be {list(expected)}")
        y = TensorType((1, 1, 1, w.shape[0]), self.dtype)
        require_dtype(y, (DType.INT8, DType.INT16), "output")
        return y

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        x, w = inputs
        y = site.output
        centred = x.astype(np.int64) - site.inputs[0].zero_point
        sums = w[out.slices[-1]].astype(np.int64) @ centred[0]
        scaled = multiply(sums, *product_multiplier(site.inputs[0], site.inputs[1], y))
        found = np.clip(scaled, y.dtype.lower, y.dtype.upper - 1) + y.zero_point
        return found.astype(y.dtype.value).reshape(out.shape)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        depth = (0, site.inputs[1].shape[1])
        return Region.of(out.intervals[0], depth), Region.of(out.intervals[-1], depth)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        depth = (0, 0, 0, 0, site.inputs[1].shape[1])
        return (
            Affine(((1, 0, 0, 0, 0), depth), (0, 0)),
            Affine(((0, 0, 0, 1, 0), depth), (0, 0)),
        )

    def work(self, site: Site, out: Region) -> Work:
        return Work(out.elements * site.inputs[1].shape[1], out.elements)

    def kernel(self, site: Site) -> Kernel:
        y = site.output
        filters, depth = site.inputs[1].shape
        multiplier, shift = product_multiplier(site.inputs[0], site.inputs[1], y)
        return Kernel(
            "svdf_feature_s8",
            params=(
                ("in_c", depth),
                ("out_c", filters),
                ("in_zero", site.inputs[0].zero_point),
                ("out_zero", y.zero_point),
                ("multiplier", multiplier),
                ("shift", shift),
                ("element_bytes", y.dtype.size_bytes),
            ),
            constants=((1, "weights"),),
            by_rows=True,
        )


SAMPLES = (
    sample(SvdfFeature(), int8(1, 9), weights(6, 9), scale=0.0003, zero=0),
    sample(SvdfFeature(DType.INT8), int8(1, 4), weights(5, 4), scale=0.02, zero=-9),
)
