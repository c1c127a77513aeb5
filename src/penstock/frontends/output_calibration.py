"""OutputCalibration: the quantisation of an operator's output, from evaluations on samples.

The operator is evaluated with candidate scales; nothing is assumed about what it computes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.frontends.calibration import FEW_ELEMENTS, fitted_quantisation, quantisation
from penstock.ir.graph import Value
from penstock.ir.op import Op, Site
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, Quantisation, TensorType

STEP = 4.0
"""Factor between candidate scales."""
MOST_CANDIDATES = 12
COARSE = 2.0**16
"""Factor by which a scale is so coarse that computed elements become 0; moved elements do not."""


@dataclass(frozen=True, slots=True)
class OutputCalibration:
    """An operator, its inputs, and the elements of the inputs on each sample."""

    op: Op
    inputs: tuple[Value, ...]
    result: TensorType
    samples: tuple[tuple[Array, ...], ...]

    def outputs(self, chosen: Quantisation | None, most: int | None = None) -> tuple[Array, ...]:
        """The operator's whole output on each sample, or on the first `most`.

        `chosen`: the output's quantisation."""
        output = TensorType(self.result.shape, self.result.dtype, chosen)
        types = tuple(v.type for v in self.inputs)
        site = Site(types, output, tuple(v.data for v in self.inputs))
        whole = Region.whole(output.shape)
        return tuple(self.op.evaluate(site, elements, whole) for elements in self.samples[:most])

    def quantisation(self) -> Quantisation | None:
        """The output's quantisation.

        Operators that move or pool elements keep that of input 0; the outputs of others use the
        range of their element type."""
        if self.result.dtype not in (DType.INT8, DType.INT16):
            return None
        if self._moves_elements():
            return self.inputs[0].type.quantisation
        scale, ys = self._fitting()
        lower = scale * min(int(y.min()) for y in ys)
        upper = scale * max(int(y.max()) for y in ys)
        elements = sum(y.size for y in ys)
        return fitted_quantisation(lower, upper, self.result.dtype, few=elements < FEW_ELEMENTS)

    def _moves_elements(self) -> bool:
        if self.op.ALIAS:
            return True
        first = self.inputs[0].type.scale
        usual, coarse = (self.outputs(quantisation(first * f, 0), 1) for f in (1.0, COARSE))
        return all(np.array_equal(a, b) and np.any(a) for a, b in zip(usual, coarse, strict=True))

    def _fitting(self) -> tuple[float, tuple[Array, ...]]:
        """A scale at which nothing is clipped and the largest magnitude is at least an eighth of
        the range, with the outputs; the last candidate if all outputs are 0."""
        least, most = self.result.dtype.lower, self.result.dtype.upper - 1
        scale, ys = self.inputs[0].type.scale, ()
        for _ in range(MOST_CANDIDATES):
            ys = self.outputs(quantisation(scale, 0))
            clipped = any(np.any((y == least) | (y == most)) for y in ys)
            if not clipped and max(int(abs(y.astype(np.int64)).max()) for y in ys) >= most // 8:
                break
            scale = scale * STEP if clipped else scale / STEP
        return scale, ys
