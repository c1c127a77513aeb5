"""PlainLayerKinds: layers on plain numbers, conversions, and layers on int16, of random shapes.

Inputs of graphs are drawn from [-1, 1), or from all integers of their type.  Layers whose cycles
depend on the elements read a product of the input, so that they compute what they do in networks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.plain_drawing import EIGHTH, PlainDrawing
from penstock.ir.graph import Value
from penstock.ir.op import Op
from penstock.ir.tensor import FILE_TYPES, DType, Quantisation
from penstock.opkit.activation import FINITE, POSITIVE, Limits
from penstock.opkit.sliding import Window
from penstock.ops.axis_extremes import ArgMax
from penstock.ops.batch_matmul import BatchMatmul, PlainBatchMatmul
from penstock.ops.binary import Div
from penstock.ops.comparisons import Connective, Logical, PlainCompare, Relation, Select
from penstock.ops.conversions import WIDE, Cast, Dequantize, QuantizeReal, QuantizeWide
from penstock.ops.convolutions import PlainConv2D, PlainDepthwiseConv2D
from penstock.ops.cumsum import Cumsum, PlainCumsum
from penstock.ops.dynamic_range import DynamicZero
from penstock.ops.fully_connected import PlainFullyConnected
from penstock.ops.gather import GatherNd
from penstock.ops.integer_pairs import IntegerFunction, IntegerPairs
from penstock.ops.plain import (
    Ceil,
    Floor,
    FloorDiv,
    FloorMod,
    Neg,
    PlainAbs,
    PlainAdd,
    PlainDiv,
    PlainElu,
    PlainErf,
    PlainErfc,
    PlainExp,
    PlainHardSwish,
    PlainLog,
    PlainLogistic,
    PlainMaximum,
    PlainMinimum,
    PlainMod,
    PlainMul,
    PlainPRelu,
    PlainRelu,
    PlainRsqrt,
    PlainSqrt,
    PlainSquaredDifference,
    PlainSub,
    PlainTanh,
    Power,
    Round,
    Square,
)
from penstock.ops.plain_recurrent import PlainGru, PlainLstm, PlainRnn
from penstock.ops.plain_reduction import PlainReduction, ReductionFunction
from penstock.ops.plain_resample import PlainResample, RealTaps
from penstock.ops.pool import PlainAveragePool2D, PlainMaxPool2D
from penstock.ops.resize import WEIGHT_BITS, Resample, Taps
from penstock.ops.row_vectors import (
    PlainL2Normalization,
    PlainLogSoftmax,
    PlainSoftmax,
    Softmax,
)
from penstock.ops.scatter import Reduction, ScatterNd
from penstock.ops.sums import PlainSum
from penstock.ops.svdf import SvdfFeature, SvdfTime
from penstock.ops.top_indices import TopIndices
from penstock.ops.transpose_conv import PlainTransposeConv, Spread
from penstock.ops.trigonometry import AngleFunction, Sign, Trigonometric

MOST_REAL = 4.0
"""Real inputs of functions are in [-MOST_REAL, MOST_REAL)."""
LIMITS = (FINITE, Limits(0.0), Limits(0.0, 6.0))
REAL_FUNCTIONS: tuple[Op, ...] = (
    PlainElu(),
    PlainExp(),
    PlainLogistic(),
    PlainTanh(),
    PlainSoftmax(),
    PlainLogSoftmax(),
    Ceil(),
    Floor(),
    Round(),
    Neg(),
    Square(),
)
POSITIVE_FUNCTIONS: tuple[Op, ...] = (PlainLog(), PlainSqrt(), PlainRsqrt())
EITHER_PAIRS: tuple[Op, ...] = (PlainMaximum(), PlainMinimum(), PlainSquaredDifference())
"""Functions of two int32 or two float32 elements."""
NARROW = Quantisation((2.0**-7,), (0,))
WEIGHTS = Quantisation((2.0**-9,), (0,))
WIDE_STATE = Quantisation((2.0**-12,), (0,))
PROBABILITIES = Quantisation((2.0**-16,), (-32768,))
QUANTISATIONS = {
    DType.INT8: EIGHTH,
    DType.INT16: WIDE_STATE,
    DType.INT32: Quantisation((2.0**-18,), (0,)),
}
MOST_WEIGHTS = 8192


def functions(d: PlainDrawing) -> None:
    """Functions of one real number, and softmax."""
    for op in REAL_FUNCTIONS:
        d.apply(op, _reals(d))
    for op in POSITIVE_FUNCTIONS:
        d.apply(op, d.apply(PlainAbs(), _reals(d)))
    d.apply(Neg(), d.input(DType.INT32))
    d.apply(PlainRelu(d.random.choice((POSITIVE, Limits(0.0, 6.0)))), _reals(d))


def pairs(d: PlainDrawing) -> None:
    """Functions of two elements."""
    clamp = d.random.choice(LIMITS)
    for dtype in (DType.INT32, DType.FLOAT32):
        for op in (PlainAdd(clamp), PlainSub(clamp), PlainMul(clamp), *EITHER_PAIRS):
            x = d.input(dtype)
            d.apply(op, x, _other(d, x))


def quotients(d: PlainDrawing) -> None:
    """Quotients of real numbers, and of integers of which the divisor is smaller."""
    for op in (PlainDiv(d.random.choice(LIMITS)), FloorDiv()):
        x = _reals(d)
        d.apply(op, x, _other(d, x))
    for op in (FloorDiv(), FloorMod()):
        x = d.apply(Cast(DType.INT32), d.input(DType.INT16))
        d.apply(op, x, d.apply(Cast(DType.INT32), d.input(DType.INT8, x.type.shape)))


def casts(d: PlainDrawing) -> None:
    """Conversions between element types."""
    source = d.random.choice((DType.INT8, DType.UINT8, DType.INT16, DType.INT32))
    for target in FILE_TYPES.values():
        d.apply(Cast(target), d.input(source))
        d.apply(Cast(target), _reals(d))
    for source in (DType.INT64, DType.BOOL):
        x = d.apply(Cast(source), d.input(DType.INT32))
        d.apply(Cast(d.random.choice((DType.INT8, DType.INT32, DType.FLOAT32))), x)
    d.apply(Cast(DType.FLOAT32), d.apply(Cast(DType.FLOAT16), _reals(d)))


def quantisations(d: PlainDrawing) -> None:
    """Conversions to another quantisation, and from and to real numbers."""
    d.apply(Dequantize(), d.input(DType.INT8, quantisation=EIGHTH))
    d.apply(QuantizeReal(), d.input(DType.FLOAT32), quantisation=NARROW)
    for source, target in WIDE:
        scale = 1.5 * QUANTISATIONS[target].scales[0]
        chosen = Quantisation((scale,), QUANTISATIONS[target].zero_points)
        x = d.input(source, quantisation=QUANTISATIONS[source])
        d.apply(QuantizeWide(target), x, quantisation=chosen)


def probabilities(d: PlainDrawing) -> None:
    """A softmax with int16 results."""
    x = d.input(DType.INT8, quantisation=EIGHTH)
    d.apply(Softmax(1.0, DType.INT16), x, quantisation=PROBABILITIES)


def places(d: PlainDrawing) -> None:
    """The place of the greatest element along an axis."""
    x = d.input(DType.FLOAT32)
    d.apply(ArgMax(d.random.randrange(x.type.rank)), x)


def cumulative_sums(d: PlainDrawing) -> None:
    """Sums along an axis."""
    for dtype in (DType.INT32, DType.FLOAT32, DType.INT8):
        x = d.input(dtype, quantisation=EIGHTH if dtype is DType.INT8 else None)
        options = (
            d.random.randrange(x.type.rank),
            d.random.random() < 0.5,
            d.random.random() < 0.5,
        )
        if dtype is DType.INT8:
            d.apply(Cumsum(*options), x, quantisation=Quantisation((1.0,), (5,)))
        else:
            d.apply(PlainCumsum(*options), x)


def gathering(d: PlainDrawing) -> None:
    """Slices at computed positions."""
    dtype, quantisation = d.random.choice(((DType.INT8, EIGHTH), (DType.FLOAT32, None)))
    x = d.input(dtype, quantisation=quantisation)
    depth = d.random.randint(1, x.type.rank)
    size = int(np.prod(x.type.shape[depth:]))
    count = d.random.randint(1, max(1, min(256, MOST_WEIGHTS // size)))
    indices = d.input(DType.INT32, (count, depth))
    d.apply(GatherNd(), x, indices, quantisation=quantisation)


def svdf(d: PlainDrawing) -> None:
    """The two parts of an SVDF layer; the state is an input."""
    rng = np.random.default_rng(d.random.getrandbits(32))
    for dtype in (DType.INT8, DType.INT16):
        state = NARROW if dtype is DType.INT8 else WIDE_STATE
        rank, units = d.random.randint(1, 4), d.random.randint(2, 48)
        filters = rank * units
        depth = min(d.random.randint(4, 96), MOST_WEIGHTS // filters)
        steps = min(d.random.randint(1, 24), MOST_WEIGHTS // filters)
        features = rng.integers(-127, 128, (filters, depth)).astype(np.int8)
        x = d.input(DType.INT8, (1, depth), EIGHTH)
        d.apply(SvdfFeature(dtype), x, d.constant(features, WEIGHTS), quantisation=state)
        weights = rng.integers(-127, 128, (filters, steps)).astype(dtype.value)
        bias = rng.integers(-999, 999, units).astype(np.int32)
        window = d.input(dtype, (1, steps, 1, filters), state)
        inputs = (window, d.constant(weights, WEIGHTS), d.constant(bias))
        d.apply(SvdfTime(rank), *inputs, quantisation=EIGHTH)


def truths(d: PlainDrawing) -> None:
    """Comparisons of integers and of real numbers, connectives, and choices by them."""
    for dtype in (DType.INT32, DType.FLOAT32):
        x = d.input(dtype)
        y = _other(d, x)
        less, equal = (d.apply(PlainCompare(r), x, y) for r in (Relation.LESS, Relation.EQUAL))
        for connective in Connective:
            d.apply(Logical(connective), less, equal)
        d.apply(Select(), less, x, y)


def quantised_pairs(d: PlainDrawing) -> None:
    """Quotients of int8 tensors, and products of computed matrices with a bias."""
    x = d.input(DType.INT8, quantisation=EIGHTH)
    divisor = d.input(DType.INT8, x.type.shape, EIGHTH)
    d.apply(Div(), x, divisor, quantisation=NARROW)
    rows, depth, columns = d.random.randint(1, 16), d.random.randint(4, 64), d.random.randint(2, 32)
    a, b = (d.input(DType.INT8, (1, count, depth), EIGHTH) for count in (rows, columns))
    bias = np.arange(columns, dtype=np.int32)
    d.apply(BatchMatmul(b_transposed=True), a, b, d.constant(bias), quantisation=EIGHTH)


def powers(d: PlainDrawing) -> None:
    """Powers of positive numbers, and the error functions."""
    base = d.apply(PlainAbs(), _reals(d))
    d.apply(Power(), base, _other(d, base))
    x = _reals(d)
    d.apply(PlainErf(), x)
    d.apply(PlainErfc(), x)


def sums(d: PlainDrawing) -> None:
    """Sums of real numbers along one axis, and along rows and columns."""
    x = _reals(d)
    d.apply(PlainSum((d.random.randrange(x.type.rank),)), x)
    d.apply(PlainSum((1, 2)), d.input(DType.FLOAT32, _image(d)))


def convolutions(d: PlainDrawing) -> None:
    """Layers of real numbers with windows, and pools."""
    shape = _image(d)
    rows, columns = (_window(d, extent) for extent in shape[1:3])
    limits, channels = d.random.choice(LIMITS), shape[3]
    x = d.input(DType.FLOAT32, shape)
    outputs = d.random.choice((1, 4, 6, 16))
    groups = d.random.choice((1, 1, channels))
    taps = (rows.size, columns.size)
    d.apply(
        PlainConv2D(rows, columns, limits),
        x,
        *_weights(d, (outputs * groups, *taps, channels // groups), 0),
    )
    multiplier = d.random.choice((1, 1, 3))
    d.apply(
        PlainDepthwiseConv2D(rows, columns, multiplier, limits),
        x,
        *_weights(d, (1, *taps, channels * multiplier), 3),
    )
    up, across = (
        Spread((extent - 1) * 2 + size, size, 2)
        for extent, size in zip(shape[1:3], taps, strict=True)
    )
    d.apply(PlainTransposeConv(up, across, limits), x, *_weights(d, (outputs, *taps, channels), 0))
    d.apply(PlainAveragePool2D(rows, columns, limits), x)
    d.apply(PlainMaxPool2D(rows, columns, limits), x)


def products(d: PlainDrawing) -> None:
    """Products of real matrices, of which one is constant or none."""
    rows, depth, outputs = d.random.randint(1, 8), d.random.randint(2, 96), d.random.randint(1, 40)
    x = d.input(DType.FLOAT32, (rows, depth))
    d.apply(PlainFullyConnected(d.random.choice(LIMITS)), x, *_weights(d, (outputs, depth), 0))
    transposed = d.random.random() < 0.5
    b = (2, outputs, depth) if transposed else (2, depth, outputs)
    a = d.input(DType.FLOAT32, (2, rows, depth))
    d.apply(PlainBatchMatmul(False, transposed), a, d.input(DType.FLOAT32, b))


def further(d: PlainDrawing) -> None:
    """Functions, reductions and moves that ONNX defines."""
    x = _reals(d)
    for op in (Sign(), *map(Trigonometric, AngleFunction)):
        d.apply(op, x)
    d.apply(PlainMod(d.random.random() < 0.5), x, _other(d, x))
    whole = d.apply(Cast(DType.INT32), d.input(DType.INT16))
    for function in d.random.sample(list(IntegerFunction), 3):
        d.apply(IntegerPairs(function), whole, _other(d, whole))
    d.apply(PlainReduction(d.random.choice(list(ReductionFunction)), (1, 2)), _image_input(d))
    vectors = d.input(DType.FLOAT32, (d.random.randint(1, 8), d.random.randint(4, 40)))
    d.apply(TopIndices(d.random.randint(1, 4), d.random.random() < 0.5), vectors)
    rows, depth = d.random.randint(2, 12), d.random.randint(1, 24)
    count = d.random.randint(1, rows)
    places = d.constant(np.arange(count, dtype=np.int32)[:, None])
    parts = d.input(DType.FLOAT32, (count, depth))
    reduction = d.random.choice(list(Reduction))
    d.apply(ScatterNd(reduction), d.input(DType.FLOAT32, (rows, depth)), places, parts)


def recurrences(d: PlainDrawing) -> None:
    """Steps of recurrent layers on real numbers."""
    steps, batch, units = d.random.randint(1, 6), d.random.randint(1, 2), d.random.randint(2, 24)
    for op in (PlainRnn(), PlainGru(), PlainGru(reset_after=True), PlainLstm()):
        x = d.input(DType.FLOAT32, (1, steps, batch, op.GATES * units))
        states = [d.input(DType.FLOAT32, (batch, units)) for _ in range(op.STATES)]
        weights, bias = _weights(d, (op.GATES * units, units), 1, narrow=False)
        d.apply(op, x, *states, weights, *([bias] if op.extra else []))


def _image_input(d: PlainDrawing) -> Value:
    return d.input(DType.FLOAT32, _image(d))


def _window(d: PlainDrawing, extent: int) -> Window:
    """A window that meets every element, often with padding."""
    size, stride = d.random.randint(1, min(extent, 4)), d.random.choice((1, 1, 2))
    return Window.same(extent, size, stride) if d.random.random() < 0.7 else Window(size, stride)


def _weights(
    d: PlainDrawing, shape: tuple[int, ...], axis: int, *, narrow: bool = True
) -> tuple[Value, Value]:
    """Real weights and a bias for each index of an axis.

    narrow: whether the weights may be those of a dynamic-range layer."""
    rng = np.random.default_rng(d.random.getrandbits(32))
    weights, bias = (rng.normal(0, 0.5, each) for each in (shape, shape[axis]))
    if narrow and rng.integers(4) == 0:
        weights = rng.integers(-127, 128, shape)
    return d.constant(weights.astype(np.float32)), d.constant(bias.astype(np.float32))


def resampled(d: PlainDrawing) -> None:
    """Weighted sums of adjacent rows and columns."""
    shape = _image(d)
    rows, columns = (_taps(d, extent) for extent in shape[1:3])
    x = d.input(DType.INT8, shape, EIGHTH)
    d.apply(Resample(rows, columns), x, quantisation=EIGHTH)


def activations(d: PlainDrawing) -> None:
    """Activations of real numbers, and the zero points of dynamic quantisation."""
    x = _reals(d)
    d.apply(PlainHardSwish(), x)
    d.apply(PlainPRelu(), x, _other(d, x))
    size = d.apply(PlainAbs(), x)
    d.apply(DynamicZero(), d.apply(Neg(), size), size)


def resampled_reals(d: PlainDrawing) -> None:
    """Weighted sums of rows and columns of real numbers."""
    shape = _image(d)
    rows, columns = (_real_taps(d, extent) for extent in shape[1:3])
    d.apply(PlainResample(rows, columns), d.input(DType.FLOAT32, shape))


def _image(d: PlainDrawing) -> tuple[int, ...]:
    """A shape of rank 4."""
    return 1, d.random.randint(2, 12), d.random.randint(2, 12), d.random.choice((1, 3, 8, 14))


def _taps(d: PlainDrawing, extent: int) -> Taps:
    """Sums of two or four inputs, as of linear and of cubic interpolation."""
    size = min(extent, d.random.choice((2, 2, 4)))
    first = sorted(d.random.randint(0, extent - size) for _ in range(d.random.randint(2, 16)))
    return Taps(tuple(first), ((1 << WEIGHT_BITS) // size,) * (size * len(first)))


def _real_taps(d: PlainDrawing, extent: int) -> RealTaps:
    """Sums of one, two or four inputs."""
    size = min(extent, d.random.choice((1, 2, 2, 4)))
    first = sorted(d.random.randint(0, extent - size) for _ in range(d.random.randint(2, 16)))
    indices = np.array(first)[:, None] + np.arange(size)
    return RealTaps.of(indices, np.full(indices.shape, 1 / size))


def _reals(d: PlainDrawing) -> Value:
    """Real numbers in [-MOST_REAL, MOST_REAL)."""
    most = d.constant(np.array([MOST_REAL], np.float32))
    return d.apply(PlainMul(), d.input(DType.FLOAT32), most)


def _other(d: PlainDrawing, x: Value) -> Value:
    """A second operand: of the same shape, or a constant of one value or of one a channel."""
    form = d.random.randrange(4)
    if form < 2:
        return d.input(x.type.dtype, x.type.shape)
    count = 1 if form == 2 else x.type.shape[-1]
    drawn = [d.random.uniform(0.1, 1) for _ in range(count)]
    if x.type.dtype is DType.INT32:
        return d.constant(np.array([round(1000 * one) for one in drawn], np.int32))
    return d.constant(np.array(drawn, np.float32))


def normalisations(d: PlainDrawing) -> None:
    """Vectors of float32 over their norm."""
    d.apply(PlainL2Normalization(), d.input(DType.FLOAT32))


PLAIN_LAYERS: tuple[Callable[[PlainDrawing], None], ...] = (
    functions,
    pairs,
    quotients,
    casts,
    quantisations,
    probabilities,
    places,
    cumulative_sums,
    gathering,
    svdf,
    truths,
    quantised_pairs,
    powers,
    sums,
    convolutions,
    products,
    further,
    recurrences,
    resampled,
    resampled_reals,
    activations,
    normalisations,
)
