"""Small networks of many rows and few columns, for laws about cascades.

They contain chains, branches, residuals, concatenations along rows and channels, strides,
dilations, upscaling and dense layers at the end.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from benchmarks.small_tensors import bias, int8, real_bias, weights
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.opkit.requantise import Multipliers
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add, Mul
from penstock.ops.concatenation import Concatenation
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.lstm import Lstm, LstmHidden
from penstock.ops.pad import Pad
from penstock.ops.pool import MaxPool2D
from penstock.ops.real_recurrent import Gru, RealHidden, RealLstm
from penstock.ops.resize import ResizeNearest
from penstock.ops.row_vectors import Softmax
from penstock.ops.running import RequantiseLast, RunningMax, RunningProduct, RunningSum
from penstock.ops.slice import Slice
from penstock.ops.sums import Mean
from penstock.ops.unary import Relu
from strategies import node_of


def towers() -> Graph:
    """The sum of two branches of one tensor, each wide in the middle and narrow at the end."""
    net = GraphBuilder("towers")
    x = net.conv2d(net.input((1, 8, 8, 2)), 2, 1, name="stem")
    ends = [
        net.conv2d(net.conv2d(x, 16, 1, name=f"wide{k}"), 2, 1, name=f"slim{k}") for k in range(2)
    ]
    return net.build(net.add(*ends, name="sum"))


ONE = Window(1)
MOST_ROWS = 12


@st.composite
def row_windows(draw: st.DrawFn, extent: int) -> Window:
    """Windows along rows that contain at least one row."""
    size = draw(st.sampled_from((3, 3, 2, 1, 4)))
    stride = draw(st.sampled_from((1, 1, 2, 3)))
    dilation = draw(st.sampled_from((1, 1, 2)))
    pad = (size - 1) // 2 if dilation == 1 and draw(st.booleans()) else 0
    window = Window(size, stride, dilation, pad, pad)
    return window if window.outputs(extent) > 0 else ONE


def _conv(draw: st.DrawFn, name: str, x: Value) -> Node:
    window, outputs = draw(row_windows(x.type.shape[1])), draw(st.integers(1, 4))
    channels = x.type.shape[3]
    kernel = weights(outputs, window.size, 1, channels)
    return node_of(name, Conv2D(window, ONE), (x,), kernel, bias(outputs), like=x.type)


def _depthwise(draw: st.DrawFn, name: str, x: Value) -> Node:
    window, channels = draw(row_windows(x.type.shape[1])), x.type.shape[3]
    kernel = weights(1, window.size, 1, channels, axis=3)
    return node_of(name, DepthwiseConv2D(window, ONE), (x,), kernel, bias(channels), like=x.type)


def _pool(draw: st.DrawFn, name: str, x: Value) -> Node:
    return node_of(name, MaxPool2D(draw(row_windows(x.type.shape[1])), ONE), (x,), like=x.type)


def _pad(draw: st.DrawFn, name: str, x: Value) -> Node:
    before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    op = Pad((0, before, 0, 0), (0, after, 0, 0), x.type.zero_point)
    return node_of(name, op, (x,), like=x.type)


def _slice(draw: st.DrawFn, name: str, x: Value) -> Node:
    images, rows, columns, channels = x.type.shape
    start, step = draw(st.integers(0, min(2, rows - 1))), draw(st.sampled_from((1, 2)))
    most = (rows - start - 1) // step + 1
    count = draw(st.integers(max(1, most - 2), most))
    op = Slice((0, start, 0, 0), (images, count, columns, channels), (1, step, 1, 1))
    return node_of(name, op, (x,), like=x.type)


def _resize(draw: st.DrawFn, name: str, x: Value) -> Node:
    _, rows, columns, _ = x.type.shape
    outputs = rows * 2 if rows * 2 <= MOST_ROWS else max(1, rows * 2 // 3)
    return node_of(name, ResizeNearest(outputs, columns), (x,), like=x.type)


def _pointwise(draw: st.DrawFn, name: str, x: Value) -> Node:
    return node_of(name, draw(st.sampled_from((Relu(), Softmax()))), (x,))


def _binary(draw: st.DrawFn, name: str, x: Value, y: Value) -> Node:
    return node_of(name, draw(st.sampled_from((Add(), Add(), Mul()))), (x, y), like=x.type)


def _joined(draw: st.DrawFn, name: str, x: Value, y: Value, axis: int) -> Node:
    return node_of(name, Concatenation(axis), (x, y), like=x.type)


OF_ONE = (_conv, _conv, _conv, _depthwise, _pool, _pad, _slice, _resize, _pointwise)


def _totalled(draw: st.DrawFn, name: str, x: Value) -> list[Node]:
    """A running reduction over the rows of an image, and a reader of its last row."""
    _, extent, width, _ = x.type.shape
    rows, columns = (
        draw(st.integers(max(1, extent - 1), extent)),
        Window(draw(st.sampled_from((1, width)))),
    )
    kind = draw(st.integers(0, 2))
    if kind == 0:
        dense = weights(2, x.type.elements), bias(2)
        sums = node_of(f"{name}/running", RunningProduct(), (x,), *dense)
        return [sums, _requantised(name, sums.output, x)]
    if kind == 1:
        maxima = node_of(f"{name}/running", RunningMax(rows, columns), (x,), like=x.type)
        shape = (1, 1, *maxima.output.type.shape[2:])
        take = Slice((0, rows - 1, 0, 0), shape, (1, 1, 1, 1))
        return [maxima, node_of(name, take, (maxima.output,), like=x.type)]
    sums = node_of(f"{name}/running", RunningSum(rows, columns, x.type.zero_point), (x,))
    return [sums, _requantised(name, sums.output, x)]


def _recurrent(draw: st.DrawFn, name: str, x: Value) -> list[Node]:
    """An LSTM layer whose steps are the rows of an image, and its hidden state."""
    _, _, batch, depth = x.type.shape
    units = draw(st.integers(1, 3))
    zeros = np.zeros((batch, units), np.int16)
    cell = TensorType(zeros.shape, DType.INT16, Quantisation((2.0**-11,), (0,)))
    hidden = int8(batch, units, scale=1 / 128, zero=0)
    steps = node_of(
        f"{name}/steps", Lstm(), (x,), (hidden, Data.of(zeros.astype(np.int8))),
        (cell, Data.of(zeros)), weights(4 * units, depth), weights(4 * units, units),
        bias(4 * units),
    )  # fmt: skip
    return [steps, node_of(name, LstmHidden(), (steps.output,), like=x.type)]


def _real_recurrent(draw: st.DrawFn, name: str, x: Value) -> list[Node]:
    """An LSTM or GRU layer on real numbers, likewise."""
    _, _, batch, depth = x.type.shape
    units = draw(st.integers(1, 3))
    op = draw(st.sampled_from((RealLstm(), Gru(), Gru(reset_after=True))))
    type = TensorType((batch, units), DType.FLOAT32)
    states = ((type, Data.of(np.zeros(type.shape, np.float32))),) * op.STATES
    gates = op.GATES * units
    steps = node_of(
        f"{name}/steps", op, (x,), *states, weights(gates, depth), weights(gates, units),
        real_bias(op.biases * units),
    )  # fmt: skip
    return [steps, node_of(name, RealHidden(units), (steps.output,), like=x.type)]


def _requantised(name: str, sums: Value, x: Value) -> Node:
    op = RequantiseLast(Multipliers.of([0.01] * sums.type.shape[3]))
    return node_of(name, op, (sums,), like=x.type)


def _node(draw: st.DrawFn, name: str, known: list[Value]) -> Node:
    """A node that reads the last value or an earlier one, and perhaps a second value."""
    x = known[-1] if draw(st.booleans()) else draw(st.sampled_from(known))
    others = [v for v in known if v is not x]
    alike = [v for v in others if v.type.shape == x.type.shape]
    if alike and draw(st.booleans()):
        return _binary(draw, name, x, draw(st.sampled_from(alike)))
    for axis in (1, 3):
        fits = [v for v in others if _fits(v, x, axis) and v.type.scale == x.type.scale]
        if fits and draw(st.integers(0, 3)) == 0:
            return _joined(draw, name, x, draw(st.sampled_from(fits)), axis)
    return draw(st.sampled_from(OF_ONE))(draw, name, x)


def _fits(one: Value, other: Value, axis: int) -> bool:
    """Whether shapes differ along at most one axis and their concatenation stays small."""
    pairs = list(zip(one.type.shape, other.type.shape, strict=True))
    same = all(a == b for k, (a, b) in enumerate(pairs) if k != axis)
    return same and sum(pairs[axis]) <= MOST_ROWS


@st.composite
def networks(draw: st.DrawFn, most_parts: int = 7, images: int = 1) -> Graph:
    """Networks of at most `most` parts; values without readers are outputs, even inputs."""
    is_one = images == 1  # running and recurrent layers take no batch
    rows, columns = draw(st.integers(4, 9)), draw(st.integers(1, 2))
    known = [Value("x", int8(images, rows, columns, draw(st.integers(1, 3))))]
    made: list[Node] = []
    for k in range(draw(st.integers(2, most_parts))):
        if is_one and len(made) + 2 <= most_parts and draw(st.integers(0, 6)) == 0:
            pair = draw(st.sampled_from((_totalled, _recurrent, _real_recurrent)))
            made += pair(draw, f"n{k}", draw(st.sampled_from(known)))
        elif len(made) < most_parts:
            made.append(_node(draw, f"n{k}", known))
        known.append(made[-1].output)
    if is_one and len(made) < most_parts and draw(st.integers(0, 3)) == 0:
        made += _tail(draw, made[-1].output, most_parts - len(made))
    read = {v.name for node in made for v in node.inputs}
    outputs = [node.output for node in made if node.name not in read]
    if draw(st.integers(0, 4)) == 0 and made[0].output not in outputs:
        outputs.append(made[0].output)
    inputs = [known[0]]
    if draw(st.integers(0, 4)) == 0:
        inputs.append(Value("unread", int8(1, draw(st.integers(1, 40)), columns, 3)))
    return Graph("network", tuple(inputs), tuple(outputs), tuple(made))


def _tail(draw: st.DrawFn, x: Value, most: int) -> list[Node]:
    """A mean or a running total over rows, a dense layer, or both."""
    tail: list[Node] = []
    if draw(st.booleans()):
        two = most > 1 and draw(st.booleans())
        tail += _totalled(draw, "mean", x) if two else [node_of("mean", Mean((1, 2)), (x,))]
        x = tail[-1].output
    if not tail or (len(tail) < most and draw(st.booleans())):
        dense = weights(3, x.type.elements), bias(3)
        tail.append(node_of("dense", FullyConnected(), (x,), *dense))
    return tail
