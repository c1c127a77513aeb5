"""Hypothesis strategies for the data types of the compiler; small examples come first."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import assume
from hypothesis import strategies as st

from benchmarks.small_tensors import Operand, bias, int8, sample, weights
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op
from penstock.ir.tensor import Interval, Region, TensorType
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.conversions import Quantize
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.pad import Pad
from penstock.ops.pool import AveragePool2D, MaxPool2D
from penstock.ops.reshape import Reshape
from penstock.ops.row_vectors import Softmax
from penstock.ops.unary import Relu

seeds = st.integers(0, 2**32 - 1)


def intervals(extent: int) -> st.SearchStrategy[Interval]:
    """Non-empty intervals within [0, extent)."""
    return st.integers(0, extent - 1).flatmap(
        lambda lower: st.tuples(st.just(lower), st.integers(lower + 1, extent))
    )


def regions(shape: tuple[int, ...]) -> st.SearchStrategy[Region]:
    """Non-empty regions of a tensor."""
    return st.tuples(*map(intervals, shape)).map(lambda found: Region.of(*found))


@st.composite
def partitions(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Region, ...]:
    """Partitions of a tensor by one or two splits, in any order."""
    pieces = [Region.whole(shape)]
    for _ in range(draw(st.integers(1, 2))):
        wide = [(k, a) for k, p in enumerate(pieces) for a, n in enumerate(p.shape) if n > 1]
        if wide:
            index, axis = draw(st.sampled_from(wide))
            piece = pieces.pop(index)
            lower, upper = piece.intervals[axis]
            cut = draw(st.integers(lower + 1, upper - 1))
            pieces += [piece.replace(axis, (lower, cut)), piece.replace(axis, (cut, upper))]
    return tuple(draw(st.permutations(pieces)))


@st.composite
def windows(draw: st.DrawFn, extent: int) -> Window:
    """Windows that fit over an axis and contain at least one element of it."""
    size = draw(st.integers(1, 3))
    dilation = draw(st.integers(1, 2)) if size < 3 else 1
    before, after = draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1))
    window = Window(size, draw(st.integers(1, 2)), dilation, before, after)
    if window.outputs(extent) > 0 and (dilation == 1 or before == after == 0):
        return window
    return Window(1)


def _conv(draw: st.DrawFn, x: Value) -> tuple[Op, tuple[Operand, ...]]:
    rows, columns = draw(windows(x.type.shape[1])), draw(windows(x.type.shape[2]))
    outputs, axis = draw(st.integers(1, 5)), draw(st.sampled_from((0, None)))
    op = Conv2D(rows, columns, draw(st.sampled_from(Activation)))
    shape = (outputs, rows.size, columns.size, x.type.shape[3])
    return op, (weights(*shape, axis=axis), bias(outputs))


def _depthwise(draw: st.DrawFn, x: Value) -> tuple[Op, tuple[Operand, ...]]:
    rows, columns = draw(windows(x.type.shape[1])), draw(windows(x.type.shape[2]))
    multiplier = draw(st.integers(1, 2))
    channels = x.type.shape[3] * multiplier
    op = DepthwiseConv2D(rows, columns, multiplier)
    return op, (weights(1, rows.size, columns.size, channels, axis=3), bias(channels))


def _pool(draw: st.DrawFn, x: Value) -> tuple[Op, tuple[Operand, ...]]:
    rows, columns = draw(windows(x.type.shape[1])), draw(windows(x.type.shape[2]))
    return draw(st.sampled_from((MaxPool2D, AveragePool2D)))(rows, columns), ()


def _fully_connected(draw: st.DrawFn, x: Value) -> tuple[Op, tuple[Operand, ...]]:
    outputs = draw(st.integers(1, 5))
    return FullyConnected(), (weights(outputs, x.type.elements), bias(outputs))


def _pad(draw: st.DrawFn, x: Value) -> tuple[Op, tuple[Operand, ...]]:
    sides = st.tuples(*(st.integers(0, most) for most in (0, 2, 2, 1)))
    fill = draw(st.sampled_from((x.type.zero_point, 9)))
    return Pad(draw(sides), draw(sides), fill), ()


def _lookup(draw: st.DrawFn, x: Value) -> tuple[Op, tuple[Operand, ...]]:
    return draw(st.sampled_from((Quantize(), Relu(), Relu(Activation.RELU6)))), ()


def _softmax(draw: st.DrawFn, x: Value) -> tuple[Op, tuple[Operand, ...]]:
    return Softmax(), ()


def _reshape(draw: st.DrawFn, x: Value) -> tuple[Op, tuple[Operand, ...]]:
    first, *rest = x.type.shape
    shapes = ((first, *rest[:-2], 1, *rest[-2:]), (x.type.elements,), (1, x.type.elements))
    return Reshape(draw(st.sampled_from([s for s in shapes if len(s) <= 4]))), ()


Maker = Callable[[st.DrawFn, Value], tuple[Op, tuple[Operand, ...]]]
OF_IMAGES: tuple[Maker, ...] = (_conv, _pool, _depthwise, _pad)
OF_ANYTHING: tuple[Maker, ...] = (_softmax, _reshape, _fully_connected, _lookup)


def node_of(
    name: str,
    op: Op,
    inputs: tuple[Value, ...],
    *constants: Operand,
    like: TensorType | None = None,
) -> Node:
    """A node of `op` on inputs and constants; its output is quantised like `like`, if given."""
    operands = (*(v.type for v in inputs), *constants)
    scale, zero = (like.scale, like.zero_point) if like else (0.1, 5)
    scale, zero = (1 / 256, -128) if isinstance(op, Softmax) else (scale, zero)
    made = sample(op, *operands, scale=scale, zero=zero)
    pairs = (operand for operand in constants if isinstance(operand, tuple))
    values = tuple(Value(f"{name}/{k}", type, data) for k, (type, data) in enumerate(pairs))
    return Node(op, (*inputs, *values), Value(name, made.site.output), f"node {name}")


@st.composite
def nodes(draw: st.DrawFn, name: str, known: list[Value]) -> Node:
    """A node that reads one or two known values, more often later ones."""
    x = known[-1 - draw(st.integers(0, len(known) - 1))]
    alike = [v for v in known if v.type.shape == x.type.shape]
    if len(alike) > 1 and draw(st.booleans()):
        return node_of(name, Add(), (x, draw(st.sampled_from(alike))))
    makers = (*OF_IMAGES, *OF_ANYTHING) if x.type.rank == 4 else OF_ANYTHING
    op, constants = draw(st.sampled_from(makers))(draw, x)
    kept = isinstance(op, MaxPool2D | AveragePool2D | Pad | Reshape) or draw(st.booleans())
    return node_of(name, op, (x,), *constants, like=x.type if kept else None)


@st.composite
def graphs(draw: st.DrawFn, most_nodes: int = 6, constants: bool = False) -> Graph:
    """Graphs of a few operators with branches and residual sums; every input has a reader.

    `constants`: operators may read constant images, or only those.
    """
    shape = draw(st.tuples(st.just(1), st.integers(1, 6), st.integers(1, 6), st.integers(1, 4)))
    known = [Value("x", int8(*shape))]
    if draw(st.booleans()):
        known.append(Value("z", int8(*shape, scale=0.03, zero=7)))
    inputs, made = tuple(known), list[Node]()
    if constants:
        type, data = weights(*shape)
        known.append(Value("k", type, data))
    for k in range(draw(st.integers(1, most_nodes))):
        made.append(draw(nodes(f"n{k}", known)))
        known.append(made[-1].output)
    read = {v.name for node in made for v in node.inputs}
    kept = tuple(node.output for node in made if node.name not in read)
    extra = (made[0].output,) if made[0].output not in kept and draw(st.booleans()) else ()
    assume(not read.isdisjoint(v.name for v in inputs))
    return Graph("g", tuple(v for v in inputs if v.name in read), (*kept, *extra), tuple(made))
