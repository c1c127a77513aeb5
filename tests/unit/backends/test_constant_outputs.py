"""A channel counts as constant only if that is proved for every accumulator."""

from __future__ import annotations

import numpy as np

from penstock.backends.cores.common.layer import constant_outputs
from penstock.ir.op import Site
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.ops.fully_connected import FullyConnected


def test_equal_ends_prove_nothing_where_the_shift_of_the_reference_overflows() -> None:
    """Accumulators reach from -67,830 to 10,710, and are shifted left by 15 bits."""
    weights = np.array([[34, 42, 34, 63, 93, -42], [-14, -23, -60, -15, -30, -85]], np.int8)
    x, w, b, y = (
        TensorType(shape, dtype, Quantisation((scale,), (zero,)))
        for shape, dtype, scale, zero in (
            ((1, 6), DType.INT8, 1.8819311857, 127),
            ((2, 6), DType.INT8, 0.0092209149, 0),
            ((2,), DType.INT32, 1.8819311857 * 0.0092209149, 0),
            ((1, 2), DType.INT8, 9.5367431640625e-07, 127),
        )
    )
    bias = Data.of(np.zeros(2, np.int32))
    site = Site((x, w, b), y, (None, Data.of(weights), bias))
    is_constant, outputs = constant_outputs(FullyConnected(), site)
    assert is_constant.tolist() == [False, True]
    assert outputs[1] == 127
