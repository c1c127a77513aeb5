"""NASNet-A (4 @ 1056): normal and reduction cells found by search.

A cell adds up five pairs of operations on its earlier states.  The first two states are the outputs
of the two cells before, each projected to the cell's number of channels; every pair of operations
yields one more state.  The output concatenates some of them.

Source: `NasNetABaseCell` of the authors' implementation (tensorflow/models, slim).
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum, auto
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Quantisation
from penstock.ops.concatenation import Concatenation
from penstock.ops.pad import Pad
from penstock.ops.slice import Slice
from penstock.zoo.network import Network, SharedRelu, begun, classified, option

STEM_CHANNELS = 32
STAGES = 3  # Stages of the cells after the stem; each doubles the number of filters.
# Of all tensors that are concatenated, for values in [-16, 16): sums of calibrated outputs.
FEATURES = Quantisation((1 / 8,), (0,))
FIRST, PREVIOUS = 0, 1  # States that come from the cell before, and from the cell before that.
LAYERS = 2  # Separable convolutions in a row.
POOL = 3


class CellOperator(Enum):
    """Operations on a state."""

    SEPARABLE = auto()
    AVERAGE = auto()
    MAXIMUM = auto()
    IDENTITY = auto()


@frozen
class CellOperation:
    """An operation on a state of the cell; `kernel` is that of separable convolutions."""

    kind: CellOperator
    state: int
    kernel: int = 0


@frozen
class Cell:
    """Pairs of operations, and the states that the output concatenates."""

    pairs: tuple[tuple[CellOperation, CellOperation], ...]
    outputs: tuple[int, ...]


def separable(kernel: int, state: int) -> CellOperation:
    """Two separable convolutions, each after a ReLU."""
    return CellOperation(CellOperator.SEPARABLE, state, kernel)


def average(state: int) -> CellOperation:
    """3 x 3 average pooling."""
    return CellOperation(CellOperator.AVERAGE, state)


def maximum(state: int) -> CellOperation:
    """3 x 3 maximum pooling."""
    return CellOperation(CellOperator.MAXIMUM, state)


def identity(state: int) -> CellOperation:
    """The state itself; a convolution if the shape differs from that of the cell's output."""
    return CellOperation(CellOperator.IDENTITY, state)


@frozen
class _CellBuilder:
    """Adds cells to a network.

    `pools`: the pools added so far, by name, since several operations may read one."""

    net: GraphBuilder
    relu: SharedRelu
    pools: dict[str, Value] = field(default_factory=dict[str, Value])

    def add(
        self, cell: Cell, x: Value, previous: Value | None, filters: int, stride: int, name: str
    ) -> Value:
        """The output of a cell that reads x and the output of the cell before x, if any."""
        first = self._projected(x, filters, 1, None, f"{name}/project")
        other = x if previous is None else self._adjusted(previous, x, filters, name)
        states = [first, other]
        for number, pair in enumerate(cell.pairs, start=1):
            left, right = (
                self._applied(operation, states, filters, stride, f"{name}/block{number}/{side}")
                for operation, side in zip(pair, ("left", "right"), strict=True)
            )
            label = f"{name}/block{number}/add"
            states.append(self.net.add(left, right, quantisation=FEATURES, name=label))
        return self._concatenated([states[k] for k in cell.outputs], name)

    def _applied(
        self, operation: CellOperation, states: list[Value], filters: int, stride: int, name: str
    ) -> Value:
        """The output of an operation; only operations on the first two states have a stride."""
        x = states[operation.state]
        step = stride if operation.state in (FIRST, PREVIOUS) else 1
        match operation.kind:
            case CellOperator.SEPARABLE:
                return self._separable(x, filters, operation.kernel, step, name)
            case CellOperator.IDENTITY if step == 1 and x.shape[3] == filters:
                return x
            case CellOperator.IDENTITY:
                return self._projected(x, filters, step, None, name)
            case CellOperator.AVERAGE | CellOperator.MAXIMUM:
                y = self._pooled(x, operation.kind, step)
                if x.shape[3] == filters:
                    return y
                return self.net.conv2d(y, filters, 1, name=name)

    def _separable(self, x: Value, filters: int, kernel: int, stride: int, name: str) -> Value:
        for k in range(1, LAYERS + 1):
            y = self.relu(x) if k == 1 else x
            step = stride if k == 1 else 1
            y = self.net.depthwise_conv2d(y, kernel, step, name=f"{name}/depthwise{k}")
            clamp = "none" if k == LAYERS else "relu"
            label = f"{name}/pointwise{k}"
            x = self.net.conv2d(y, filters, 1, activation=clamp, name=label)
        return x

    def _pooled(self, x: Value, kind: CellOperator, stride: int) -> Value:
        label = f"{x.name}/{kind.name.lower()}{stride}"
        if label not in self.pools:
            pool = self.net.average_pool2d if kind is CellOperator.AVERAGE else self.net.max_pool2d
            self.pools[label] = pool(x, POOL, stride, "same", name=label)
        return self.pools[label]

    def _adjusted(self, previous: Value, x: Value, filters: int, name: str) -> Value:
        # Where the extents differ, one half of the channels reads the elements at even rows and
        # columns, the other half those at odd ones; zeros follow an odd extent.
        if previous.shape[1:3] == x.shape[1:3]:
            if previous.shape[3] == filters:
                return previous
            return self._projected(previous, filters, 1, FEATURES, f"{name}/adjust")
        y, half = self.relu(previous), filters // 2
        even = self._strided(y, half, 2, f"{name}/adjust/even")
        odd = self._strided(self._odd(y, x, name), filters - half, 1, f"{name}/adjust/odd")
        return self._concatenated([even, odd], f"{name}/adjust")

    def _odd(self, x: Value, target: Value, name: str) -> Value:
        _, height, width, channels = x.shape
        shape = (1, height // 2, width // 2, channels)
        op = Slice((0, 1, 1, 0), shape, (1, 2, 2, 1))
        y = self.net.apply(op, x, quantisation=x.type.quantisation, name=f"{name}/adjust/slice")
        after = tuple(b - a for a, b in zip(shape[1:3], target.shape[1:3], strict=True))
        if not any(after):
            return y
        pad = Pad((0,) * 4, (0, *after, 0), x.type.zero_point)
        return self.net.apply(pad, y, quantisation=y.type.quantisation, name=f"{name}/adjust/pad")

    def _strided(self, x: Value, channels: int, stride: int, name: str) -> Value:
        return self.net.conv2d(x, channels, 1, stride, "valid", quantisation=FEATURES, name=name)

    def _projected(
        self, x: Value, filters: int, stride: int, chosen: Quantisation | None, name: str
    ) -> Value:
        """A ReLU and a 1 x 1 convolution."""
        return self.net.conv2d(self.relu(x), filters, 1, stride, quantisation=chosen, name=name)

    def _concatenated(self, values: list[Value], name: str) -> Value:
        op = Concatenation(3)
        return self.net.apply(op, *values, quantisation=FEATURES, name=f"{name}/concat")


NORMAL = Cell(
    (
        (separable(5, FIRST), separable(3, PREVIOUS)),
        (separable(5, PREVIOUS), separable(3, PREVIOUS)),
        (average(FIRST), identity(PREVIOUS)),
        (average(PREVIOUS), average(PREVIOUS)),
        (separable(3, FIRST), identity(FIRST)),
    ),
    outputs=(1, 2, 3, 4, 5, 6),
)
# Source: figure 4 of the paper, with the order of inputs of the authors' implementation
# (tensorflow/models, slim).
REDUCTION = Cell(
    (
        (separable(5, FIRST), separable(7, PREVIOUS)),
        (maximum(FIRST), separable(7, PREVIOUS)),
        (average(FIRST), separable(5, PREVIOUS)),
        (identity(3), average(2)),
        (separable(3, 2), maximum(FIRST)),
    ),
    outputs=(3, 4, 5, 6),
)


@frozen(kw_only=True)
class NasnetMobile(Network):
    """Three stages of normal cells with reduction cells before each, ReLU.

    `filters` scales all widths but that of the first convolution; `cells` is the number of normal
    cells in a stage.  The auxiliary classifier is left out.

    Source: Zoph et al., Learning Transferable Architectures, 2017, arXiv:1707.07012
    """

    NAME: ClassVar[str] = "nasnet_mobile"

    filters: int = option(44, 4, 168)
    cells: int = option(4, 1, 6)
    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net, x = begun(self, self.resolution)
        builder = _CellBuilder(net, SharedRelu(net))
        x = net.conv2d(x, STEM_CHANNELS, 3, 2, "valid", name="stem")
        return classified(net, builder.relu(self._cells(builder, x)), self.classes)

    def _cells(self, builder: _CellBuilder, x: Value) -> Value:
        """The output of the last cell; `x` is that of the first convolution."""
        reduced = builder.add(REDUCTION, x, None, self.filters // 4, 2, "stem1")
        previous, x = x, reduced
        previous, x = x, builder.add(REDUCTION, x, previous, self.filters // 2, 2, "stem2")
        for stage in range(1, STAGES + 1):
            filters = self.filters * 2 ** (stage - 1)
            if stage > 1:
                name = f"reduction{stage - 1}"
                previous, x = x, builder.add(REDUCTION, x, previous, filters, 2, name)
            for number in range(1, self.cells + 1):
                name = f"stage{stage}/cell{number}"
                previous, x = x, builder.add(NORMAL, x, previous, filters, 1, name)
        return x
