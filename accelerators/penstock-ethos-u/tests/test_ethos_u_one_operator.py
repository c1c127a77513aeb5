"""ethos_u: a network of each kind of operator, of drawn shapes and scales, is computed by the NPU
alone, with the graph's results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op
from penstock.ir.tensor import DType, Quantisation, TensorType
from penstock.opkit.activation import Activation
from penstock.opkit.resize import Sampling
from penstock.opkit.sliding import Window
from penstock.ops.axis_extremes import ArgMax, ReduceMax, ReduceMin
from penstock.ops.batch_matmul import BatchMatmul
from penstock.ops.binary import Maximum, Minimum, Mul, Prelu, SquaredDifference
from penstock.ops.concatenation import Concatenation
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.gather import Gather
from penstock.ops.pad import MirrorPad, Pad
from penstock.ops.resize import ResizeBilinear, ResizeNearest
from penstock.ops.slice import Slice
from penstock.ops.sums import Mean, Sum
from penstock.ops.tile import Tile
from penstock.ops.transpose import Transpose
from penstock.ops.unary import Abs, Elu, Exp, Gelu, Log, Rsqrt, Sqrt
from strategies import seeds
from test_ethos_u_operators import EVERY, assert_runs, drawn_range, features, layouts, zeros
from test_ethos_u_timing import CONFIGURATIONS, assert_as_estimated, shares

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

accelerators = st.sampled_from(EVERY)
channels = st.sampled_from((1, 3, 16, 19, 32, 40))


def finished(draw: st.DrawFn, net: GraphBuilder, y: Value) -> Graph:
    """The network that computes y, or a convolution of y."""
    if y.type.rank == 4 and y.type.shape[0] == 1 and draw(st.booleans()):
        y = net.conv2d(y, draw(channels), 1, name="reader")
    return net.build(y)


def drawn_constant(
    draw: st.DrawFn, net: GraphBuilder, shape: tuple[int, ...], scale: float, name: str
) -> Value:
    """int8 weights."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    elements = rng.integers(-127, 128, shape).astype(np.int8)
    return net.constant(elements, Quantisation((scale,), (0,)), name)


def drawn_layer(
    draw: st.DrawFn, net: GraphBuilder, op: Op, x: Value, shape: tuple[int, ...], outputs: int
) -> Value:
    """A layer with weights of a shape."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    bias = rng.integers(-5000, 5000, outputs).astype(np.int32)
    return net.apply(
        op,
        x,
        drawn_constant(draw, net, shape, 0.01, "w"),
        net.constant(bias, Quantisation((x.type.scale * 0.01,), (0,)), "b"),
        quantisation=drawn_range(draw),
        name="layer",
    )


@st.composite
def functions(draw: st.DrawFn) -> Graph:
    net = GraphBuilder("function", seed=draw(st.integers(0, 99)))
    x = features(draw, net, draw(channels))
    op = draw(st.sampled_from((Abs(), Exp(), Log(), Sqrt(), Rsqrt(), Elu(), Gelu())))
    return finished(draw, net, net.apply(op, x, quantisation=drawn_range(draw), name="y"))


@st.composite
def extremes(draw: st.DrawFn) -> Graph:
    """The larger or smaller of two tensors of one scale, of which one may be constant."""
    net = GraphBuilder("extreme", seed=draw(st.integers(0, 99)))
    x = features(draw, net, draw(channels))
    op = draw(st.sampled_from((Maximum(), Minimum())))
    shape = draw(st.sampled_from(((1,), x.type.shape[3:], (1, *x.type.shape[1:]), None)))
    if shape is None:
        y = net.conv2d(x, x.type.shape[3], 1, quantisation=x.type.quantisation, name="other")
    else:
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        y = net.constant(rng.integers(-128, 128, shape).astype(np.int8), x.type.quantisation, "c")
    pair = (x, y) if draw(st.booleans()) else (y, x)
    return finished(draw, net, net.apply(op, *pair, quantisation=x.type.quantisation, name="z"))


@st.composite
def channel_totals(draw: st.DrawFn) -> Graph:
    """A mean or a sum over channels, and maybe other axes."""
    net = GraphBuilder("total", seed=draw(st.integers(0, 99)))
    shape = draw(st.sampled_from(((1, 5, 6, 19), (1, 9, 3, 32), (4, 5, 6), (7, 30), (1, 8))))
    x = net.input(shape, zero_point=draw(zeros))
    axes = (len(shape) - 1,)
    if len(shape) > 2:
        axes = draw(st.sampled_from((axes, (axes[0] - 1, *axes), (axes[0] - 2, *axes))))
    op = draw(st.sampled_from((Mean, Sum)))(axes)
    y = net.apply(op, x, quantisation=drawn_range(draw), name="total")
    return finished(draw, net, y)


@st.composite
def dense_rows(draw: st.DrawFn) -> Graph:
    """A dense layer of each row of a tensor."""
    net = GraphBuilder("dense", seed=draw(st.integers(0, 99)))
    shape = draw(st.sampled_from(((4, 30), (1, 5, 4, 19), (6, 3, 16), (7, 1), (1, 9, 1, 32))))
    x, outputs = net.input(shape, zero_point=draw(zeros)), draw(channels)
    op = FullyConnected(keep_dimensions=len(shape) > 2)
    return finished(draw, net, drawn_layer(draw, net, op, x, (outputs, shape[-1]), outputs))


@st.composite
def grouped(draw: st.DrawFn) -> Graph:
    """A convolution of groups of channels, or a depthwise convolution with several filters for
    each channel, with any dilation."""
    net = GraphBuilder("grouped", seed=draw(st.integers(0, 99)))
    depth, groups, factor = (draw(st.integers(1, most)) for most in (6, 4, 6))
    x = features(draw, net, depth * groups)
    sides = [(draw(st.integers(1, min(3, n))), draw(st.integers(1, 2))) for n in x.type.shape[1:3]]
    rows, columns = (
        Window.same(n, size, stride, draw(st.integers(1, n // size)))
        for n, (size, stride) in zip(x.type.shape[1:3], sides, strict=True)
    )
    sizes = rows.size, columns.size
    if draw(st.booleans()):
        outputs, op = groups * factor, Conv2D(rows, columns)
        y = drawn_layer(draw, net, op, x, (outputs, *sizes, depth), outputs)
    else:
        outputs, op = depth * groups * factor, DepthwiseConv2D(rows, columns, factor)
        y = drawn_layer(draw, net, op, x, (1, *sizes, outputs), outputs)
    return finished(draw, net, y)


@st.composite
def movements(draw: st.DrawFn) -> Graph:
    """An operator that only moves elements of an image."""
    net = GraphBuilder("moved", seed=draw(st.integers(0, 99)))
    x = features(draw, net, draw(channels), most=7)
    op = draw(st.sampled_from(MOVED))(draw, x.type.shape)
    return finished(draw, net, net.apply(op, x, quantisation=x.type.quantisation, name="y"))


def a_slice(draw: st.DrawFn, shape: tuple[int, ...]) -> Op:
    steps = tuple(draw(st.sampled_from((1, 1, 2, 3))) for _ in shape)
    start = tuple(draw(st.integers(0, n - 1)) for n in shape)
    sizes = tuple(
        draw(st.integers(1, -(-(n - first) // step)))
        for n, first, step in zip(shape, start, steps, strict=True)
    )
    return Slice(start, sizes, (*steps[:3], 1) if shape[3] > 16 else steps)


def padding(draw: st.DrawFn, shape: tuple[int, ...]) -> Op:
    before, after = ((0, *(draw(st.integers(0, 3)) for _ in range(2)), 0) for _ in range(2))
    if draw(st.booleans()):
        most = (0, *(n - 1 for n in shape[1:]))
        before, after = (tuple(map(min, pads, most)) for pads in (before, after))
        return MirrorPad(before, after, draw(st.integers(0, 1)))
    depth = draw(st.sampled_from((0, 0, 3, 16)))
    return Pad((*before[:3], depth), after, draw(zeros))


def resizing(draw: st.DrawFn, shape: tuple[int, ...]) -> Op:
    factors = [draw(st.integers(1, 3)) for _ in range(2)]
    sampling = draw(st.sampled_from(Sampling))
    return ResizeNearest(shape[1] * factors[0], shape[2] * factors[1], sampling)


def tiling(draw: st.DrawFn, shape: tuple[int, ...]) -> Op:
    return Tile((1, *(draw(st.sampled_from((1, 1, 2))) for _ in shape[1:])))


def transposition(draw: st.DrawFn, shape: tuple[int, ...]) -> Op:
    return Transpose((0, *draw(st.permutations(range(1, len(shape))))))


def gathering(draw: st.DrawFn, shape: tuple[int, ...]) -> Op:
    rows = st.lists(st.integers(0, shape[1] - 1), min_size=1, max_size=4)
    return Gather(1, tuple(draw(rows)))


MOVED = (a_slice, padding, resizing, tiling, transposition, gathering)


@st.composite
def broadcasts_alone(draw: st.DrawFn) -> Graph:
    """A tensor with axes of one element, repeated along these."""
    net = GraphBuilder("repeated", seed=draw(st.integers(0, 99)))
    sizes = [draw(st.sampled_from((1, n))) for n in (4, 5, 19)]
    x = net.input((1, *sizes), zero_point=draw(zeros))
    op = Tile((1, *(n if size == 1 else 1 for size, n in zip(sizes, (4, 5, 19), strict=True))))
    return finished(draw, net, net.apply(op, x, quantisation=x.type.quantisation, name="y"))


@st.composite
def joined(draw: st.DrawFn) -> Graph:
    """A concatenation along any axis."""
    net = GraphBuilder("joined", seed=draw(st.integers(0, 99)))
    axis, count = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    shape = [draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(channels)]
    parts = list[Value]()
    for k in range(count):
        shape[axis - 1] = draw(channels if axis == 3 else st.integers(1, 6))
        x = net.input((1, *shape), name=f"x{k}")
        if draw(st.booleans()):
            x = net.conv2d(x, shape[2], 1, quantisation=x.type.quantisation, name=f"part{k}")
        parts.append(x)
    y = net.apply(Concatenation(axis), *parts, quantisation=parts[0].type.quantisation, name="y")
    return finished(draw, net, y)


@st.composite
def words(draw: st.DrawFn) -> Graph:
    """A movement of elements of several bytes."""
    dtype = draw(st.sampled_from((DType.INT16, DType.INT32, DType.FLOAT32)))
    shape = (1, *(draw(st.integers(1, 6)) for _ in range(3)))
    x = Value("x", TensorType(shape, dtype))
    op = draw(st.sampled_from((a_slice, tiling, transposition, gathering)))(draw, shape)
    y = Value("y", op.result_type((x.type,)))
    return Graph("words", (x,), (y,), (Node(op, (x,), y),))


@st.composite
def prelus(draw: st.DrawFn) -> Graph:
    """Slopes of each channel, column, row or element; of the input's quantisation or another."""
    net = GraphBuilder("prelu", seed=draw(st.integers(0, 99)))
    x = features(draw, net, draw(channels))
    shape = tuple(draw(st.sampled_from((1, n))) for n in x.type.shape[1:])
    slopes = drawn_constant(draw, net, shape, draw(st.sampled_from((1 / 128, 1 / 300))), "slopes")
    alike = x.type.quantisation
    made = draw(st.sampled_from((alike, None))) or drawn_range(draw)
    return finished(draw, net, net.apply(Prelu(), x, slopes, quantisation=made, name="y"))


@st.composite
def reductions(draw: st.DrawFn) -> Graph:
    """A maximum or minimum along axes."""
    net = GraphBuilder("extreme", seed=draw(st.integers(0, 99)))
    x = features(draw, net, draw(channels))
    axes = draw(st.sampled_from(((1,), (2,), (3,), (1, 2), (2, 3), (1, 2, 3))))
    op = draw(st.sampled_from((ReduceMax, ReduceMin)))(axes)
    return finished(draw, net, net.apply(op, x, quantisation=x.type.quantisation, name="y"))


@st.composite
def resized(draw: st.DrawFn) -> Graph:
    """Bilinear interpolation, to twice as many rows and columns or another number."""
    net = GraphBuilder("resized", seed=draw(st.integers(0, 99)))
    x = features(draw, net, draw(channels), most=7)
    sampling = draw(st.sampled_from(Sampling))
    corner = sampling is Sampling.ALIGN_CORNERS
    factor = draw(st.sampled_from((1, 2, 2, 4 if corner else 2)))
    rows, columns = ((n - 1) * factor + 1 if corner else n * factor for n in x.type.shape[1:3])
    op = ResizeBilinear(rows, columns, sampling)
    return finished(draw, net, net.apply(op, x, quantisation=x.type.quantisation, name="y"))


@st.composite
def large_constants(draw: st.DrawFn) -> Graph:
    """A product of a constant and of a tensor that is broadcast to its shape."""
    net = GraphBuilder("constant", seed=draw(st.integers(0, 99)))
    shape = (1, draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(channels))
    x = net.input((1, *(draw(st.sampled_from((1, n))) for n in shape[1:])))
    y = drawn_constant(draw, net, shape, 0.01, "c")
    pair = (x, y) if draw(st.booleans()) else (y, x)
    return finished(draw, net, net.apply(Mul(), *pair, quantisation=drawn_range(draw), name="z"))


@st.composite
def large_totals(draw: st.DrawFn) -> Graph:
    """A mean or a sum of an image that is larger than a window."""
    net = GraphBuilder("total", seed=draw(st.integers(0, 99)))
    shape = draw(st.sampled_from(((1, 65, 3, 5), (1, 80, 80, 3), (1, 112, 112, 16), (1, 70, 1, 1))))
    x = net.input(shape, zero_point=draw(zeros))
    if draw(st.booleans()):
        x = net.conv2d(x, draw(st.sampled_from((1, 7, 16))), 1, name="x")
    op = draw(st.sampled_from((Mean, Sum)))((1, 2))
    grown = 1 if isinstance(op, Mean) else shape[1] * shape[2]
    made = Quantisation((x.type.scale * grown * draw(st.floats(0.05, 4)),), (draw(zeros),))
    return finished(draw, net, net.apply(op, x, quantisation=made, name="total"))


@st.composite
def other_ranks(draw: st.DrawFn) -> Graph:
    """A movement or a function of a tensor of one or five axes, or of several images."""
    net = GraphBuilder("rank", seed=draw(st.integers(0, 99)))
    shape = draw(st.sampled_from(((7,), (3, 4, 5, 6), (2, 3, 2, 3, 4))))
    x = net.input(shape, zero_point=draw(zeros))
    if draw(st.booleans()):
        return net.build(net.apply(Abs(), x, quantisation=drawn_range(draw), name="y"))
    op = Transpose(tuple(draw(st.permutations(range(len(shape))))))
    return net.build(net.apply(op, x, quantisation=x.type.quantisation, name="y"))


@st.composite
def softmaxes(draw: st.DrawFn) -> Graph:
    net = GraphBuilder("softmax", seed=draw(st.integers(0, 99)))
    shape = draw(st.sampled_from(((1, 10), (1, 700), (1, 5, 4, 19), (1, 3, 9, 2), (7, 12), (1, 1))))
    scale = draw(st.floats(0.001, 0.5))
    x = net.input(shape, scale=scale, zero_point=draw(zeros))
    if len(shape) == 4 and draw(st.booleans()):
        x = net.conv2d(x, draw(channels), 1, name="x")
    return finished(draw, net, net.softmax(x, draw(st.sampled_from((1.0, 0.5))), name="y"))


@st.composite
def indices(draw: st.DrawFn) -> Graph:
    """The index of the largest channel; of equal ones, if the convolution has few results."""
    net = GraphBuilder("index", seed=draw(st.integers(0, 99)))
    x = net.input((1, draw(st.integers(1, 5)), draw(st.integers(1, 5)), 2))
    made = Quantisation((draw(st.sampled_from((0.01, 0.1, 1.0))),), (draw(zeros),))
    depth = draw(st.sampled_from((1, 2, 19, 32, 256)))
    x = net.conv2d(x, depth, 1, quantisation=made, name="x")
    return net.build(net.apply(ArgMax(3), x, name="y"))


@st.composite
def squares(draw: st.DrawFn) -> Graph:
    """A squared difference of an image and of something that may be broadcast."""
    net = GraphBuilder("square", seed=draw(st.integers(0, 99)))
    x = features(draw, net, draw(channels))
    shape = (1, *(draw(st.sampled_from((1, n))) for n in x.type.shape[1:]))
    y = net.input(shape, scale=draw(st.floats(0.01, 0.3)), zero_point=draw(zeros), name="other")
    pair = (x, y) if draw(st.booleans()) else (y, x)
    z = net.apply(SquaredDifference(), *pair, quantisation=drawn_range(draw), name="z")
    return finished(draw, net, z)


@st.composite
def products(draw: st.DrawFn) -> Graph:
    """Products of matrices, of which one may be the same for all."""
    net = GraphBuilder("product", seed=draw(st.integers(0, 99)))
    m, n, depth, images = (draw(st.integers(1, most)) for most in (9, 9, 40, 3))
    op = BatchMatmul(draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from(Activation)))
    factors = list[Value]()
    for k, (shape, is_turned) in enumerate(
        zip(((m, depth), (depth, n)), (op.a_transposed, op.b_transposed), strict=True)
    ):
        count = draw(st.sampled_from((1, images)))
        matrix = shape[::-1] if is_turned else shape
        factors.append(net.input((1, count, *matrix), zero_point=draw(zeros), name=f"x{k}"))
    y = net.apply(op, *factors, quantisation=drawn_range(draw), name="y")
    return finished(draw, net, y)


KINDS = {
    "indices of maxima": indices(),
    "squared differences": squares(),
    "products of matrices": products(),
    "softmax": softmaxes(),
    "large totals": large_totals(),
    "other ranks": other_ranks(),
    "large constants": large_constants(),
    "words": words(),
    "prelu": prelus(),
    "extremes along axes": reductions(),
    "bilinear resizing": resized(),
    "movements": movements(),
    "repeated": broadcasts_alone(),
    "joined": joined(),
    "functions": functions(),
    "extremes": extremes(),
    "totals over channels": channel_totals(),
    "dense layers of rows": dense_rows(),
    "groups of channels": grouped(),
}


def test_a_large_window_waits_for_what_it_reads() -> None:
    """Vela derives BLOCKDEP from the first 8 x 8 taps of a window."""
    net = GraphBuilder("total")
    x = net.conv2d(net.input((1, 80, 80, 3)), 1, 1, name="x")
    y = net.apply(Mean((1, 2)), x, quantisation=x.type.quantisation, name="mean")
    assert_runs(net.build(y), "ethos_u55:macs=32", "nhwc")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4)
@given(data=st.data(), accelerator=accelerators, layout=layouts)
def test_networks_of_one_operator_are_exact(
    kind: str, data: st.DataObject, accelerator: str, layout: str
) -> None:
    assert_runs(data.draw(KINDS[kind]), accelerator, layout)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3)
@given(
    data=st.data(), config=st.sampled_from(CONFIGURATIONS), layout=layouts, share=shares, seed=seeds
)
def test_networks_of_one_operator_take_the_stated_cycles(
    kind: str,
    data: st.DataObject,
    config: tuple[str, int, str],
    layout: str,
    share: float,
    seed: int,
) -> None:
    """Also where rows are scattered."""
    assert_as_estimated(data.draw(KINDS[kind]), config, layout, share, seed)
