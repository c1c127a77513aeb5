"""Random layers for the kernels of cores with MVE.

They are the layers of other cores, depthwise layers with nine taps, which are rare among those, and
pools.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample, int8, sample
from dsp_layers import activations, layers, zero_points
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import DepthwiseConv2D
from penstock.ops.pool import AveragePool2D
from strategies import seeds


@st.composite
def nine_taps(draw: st.DrawFn) -> Sample:
    """A depthwise layer of 3 x 3 taps that the vector kernel supports: eight channels, or sixteen
    and more."""
    channels = draw(st.one_of(st.just(8), st.integers(16, 50)))
    rows, columns = draw(_windows(most_stride=3)), draw(_windows(1 if channels == 8 else 3))
    shape = (draw(st.integers(1, 2)), draw(st.integers(3, 8)), draw(st.integers(3, 9)), channels)
    rng = np.random.default_rng(draw(seeds))
    largest = draw(st.sampled_from((127, 127, 40)))
    weights = rng.integers(-largest, largest + 1, (1, 3, 3, channels)).astype(np.int8)
    scales = 2.0 ** rng.uniform(-9, -7, channels)
    type = TensorType(weights.shape, DType.INT8, Quantisation(tuple(scales), (0,) * channels, 3))
    bias = rng.normal(0, 2.0 ** draw(st.integers(0, 12)), channels).astype(np.int32)
    return sample(
        DepthwiseConv2D(rows, columns, 1, draw(activations)),
        int8(*shape, scale=2.0**-5, zero=draw(zero_points)),
        (type, Data.of(weights)),
        (TensorType((channels,), DType.INT32), Data.of(bias)),
        scale=largest * 2.0 ** draw(st.floats(-12, -9)),
        zero=draw(zero_points),
    )


@st.composite
def _windows(draw: st.DrawFn, most_stride: int) -> Window:
    """Windows of three taps that fit over three elements."""
    dilation = draw(st.integers(1, 2))
    beside = st.integers(dilation - 1, 3)
    return Window(3, draw(st.integers(1, most_stride)), dilation, draw(beside), draw(beside))


@st.composite
def pools(draw: st.DrawFn) -> Sample:
    """Average pools with windows of 16 elements and more."""
    rows, columns = (
        Window(
            draw(st.integers(4, 7)),
            draw(st.integers(1, 3)),
            draw(st.integers(1, 2)),
            *draw(_padding),
        )
        for _ in "yx"
    )
    extents = st.integers(13, 15)
    shape = (draw(st.integers(1, 2)), draw(extents), draw(extents))
    zero = draw(zero_points)
    x = int8(*shape, 8 * draw(st.integers(1, 3)), zero=zero)
    return sample(AveragePool2D(rows, columns, draw(activations)), x, zero=zero)


_padding = st.tuples(st.integers(0, 3), st.integers(0, 3))
mve_layers = st.one_of(layers(), nine_taps(), pools())
