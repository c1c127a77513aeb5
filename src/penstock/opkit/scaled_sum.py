"""ScaledSum: base of Add and Sub: y = Ma * a + SIGN * Mb * b, with inputs scaled by 2**20.

Source: TFLite `reference/integer_ops/add.h` and `reference/sub.h`; parameters in
`micro/kernels/add_common.cc` and `sub_common.cc`: inputs are rescaled to twice the larger of
their scales; multipliers are computed in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.ir.op import Kernel, Site
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import broadcast
from penstock.opkit.activation import Activation
from penstock.opkit.broadcast import Elementwise
from penstock.opkit.requantise import fitting_multiplier

EXTRA_BITS = 20


@dataclass(frozen=True, slots=True)
class ScaledSum(Elementwise):
    """Sum or difference of two tensors, with requantisation and clamp."""

    activation: Activation = Activation.NONE

    SIGN: ClassVar[int]

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return broadcast.int8_result(inputs, 2, "sum")

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (left, right), (result_m, result_s) = self._multipliers(site)
        terms = [
            multiply((broadcast.take(x, type, out) - type.zero_point) << EXTRA_BITS, *multiplier)
            for x, type, multiplier in zip(inputs, site.inputs, (left, right), strict=True)
        ]
        scaled = multiply(terms[0] + self.SIGN * terms[1], result_m, result_s)
        bounds = self.activation.bounds(site.output)
        return np.clip(scaled + site.output.zero_point, *bounds).astype(np.int8)

    def kernel(self, site: Site) -> Kernel:
        inputs, (result_m, result_s) = self._multipliers(site)
        least, most = self.activation.bounds(site.output)
        return Kernel(
            "add_s8",
            params=(
                *broadcast.params(site),
                ("zero0", site.inputs[0].zero_point),
                ("zero1", site.inputs[1].zero_point),
                ("multiplier0", inputs[0][0]),
                ("multiplier1", inputs[1][0]),
                ("shift0", inputs[0][1]),
                ("shift1", inputs[1][1]),
                ("sign1", self.SIGN),
                ("out_multiplier", result_m),
                ("out_shift", result_s),
                ("out_zero", site.output.zero_point),
                ("least", least),
                ("most", most),
            ),
            by_rows=True,
        )

    def _multipliers(
        self, site: Site
    ) -> tuple[tuple[tuple[int, int], tuple[int, int]], tuple[int, int]]:
        """(multiplier, shift) of each input and of the result."""
        scales = [x.scale for x in site.inputs]
        twice_largest = 2 * max(scales)
        unit = site.output.scale * (1 << EXTRA_BITS)
        left, right = (quantise_multiplier(scale / twice_largest) for scale in scales)
        return (left, right), fitting_multiplier(twice_largest / unit, 255 << EXTRA_BITS)
