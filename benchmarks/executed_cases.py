"""Executed cases: cases of TVM's cascader on programs that the reference machine executes.

    python -m benchmarks.executed_cases FILE

For each case of FILE, which `benchmarks.cases` checks on the algebra, a network is built whose
cascade has the stripes of the case; it is scheduled, placed, lowered and executed. The stripes that
the machine counts are compared with those of the case, in number, shape and offset:

    count_stripes    the windows of a tensor that a layer reads or, for a sliding window, the rows
                     that are computed for each of them; if channels are divided, the stripes of
                     one layer for each group of channels
    propagators      the windows that a layer of this transform reads
    op_propagators   the windows of each input that the operator of the case reads, in stripes of
                     two rows and, where possible, three columns

Every program is also compared with its schedule (`TensorConfig`), and its outputs with those of the
operators. Cases without such a network are listed with the reason. Exits with 1 if a case differs.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.cascader_cases import Config, Counts, Expected, Propagation
from benchmarks.cascader_operators import Binary, Identity, Operator, Unary, Windowed
from benchmarks.case_file import Document, read_as, read_document
from benchmarks.entry import entry
from benchmarks.small_tensors import Operand, bias, int8, sample, weights
from penstock import cascader
from penstock.errors import UnsupportedError
from penstock.ir.affine import Affine
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op
from penstock.ir.tensor import Interval, Region
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.concatenation import Concatenation
from penstock.ops.conversions import Quantize
from penstock.ops.convolutions import Conv2D
from penstock.ops.unary import Abs, Relu
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine

ROWS, COLUMNS = 2, 3
"""Stripe size in which operators are executed."""
Regions = Counter[Region]
Boxes = Counter[tuple[Interval, ...]]
"""Stripes without the axis of the batch."""


class NotExpressible(Exception):
    """A case for which there is no network, with the reason."""


@dataclass(frozen=True, slots=True)
class Executed:
    """The stripes that the machine counted, by tensor: computed ones, and windows read."""

    computed: Mapping[str, Regions]
    read: Mapping[str, Regions]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case: a difference, or how often it was compared, or why it was not."""

    label: str
    compared: str = ""
    difference: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.label}: not executed: {self.reason}"
        return f"{self.label}: {self.difference or f'equal: {self.compared}'}"


def main(arguments: Sequence[str]) -> int:
    """Prints the outcome of every case; returns 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.executed_cases")
    parser.add_argument("file", type=Path, metavar="FILE", help="cases, as JSON")
    path: Path = parser.parse_args(arguments).file
    found = tuple(outcomes(read_document(path), str(path)))
    for outcome in found:
        print(outcome)
    wrong = sum(bool(outcome.difference) for outcome in found)
    left = sum(bool(outcome.reason) for outcome in found)
    equal = len(found) - wrong - left
    print(f"{len(found)} cases: {equal} equal, {wrong} differ, {left} not executed")
    return 1 if wrong else 0


def outcomes(document: Document, where: str) -> Iterator[Outcome]:
    """Yield the outcome of every case of a file."""
    judges = {
        "count_stripes": _counted,
        "propagators": _propagated,
        "op_propagators": _operator,
    }
    for key, judge in judges.items():
        section = document.get(key)
        cases = section.get("cases") if isinstance(section, Mapping) else section
        for k, case in enumerate(cases if isinstance(cases, list) else ()):
            names = [str(case[field]) for field in ("name", "op") if field in case]
            label = " ".join((key, f"case {k}", *names))
            try:
                compared, difference = judge(case, f"{where}: {key}, case {k}")
                yield Outcome(label, compared, difference)
            except NotExpressible as error:
                yield Outcome(label, reason=str(error))


def executed(graph: Graph, rows: int | None, columns: int | None) -> Executed:
    """Execute a network as a single cascade in stripes of at most these rows and columns.

    Raises AssertionError if an output differs from the operators, or the stripes that the machine
    counts from those of the schedule.
    """
    parts = cascader.parts(graph)
    schedule = cascader.single_cascade(parts, rows, columns)
    machine = Machine(cascader.program(schedule))
    random = np.random.default_rng(1)
    inputs = {v.name: random.integers(-128, 128, v.type.shape, np.int8) for v in graph.inputs}
    outputs, expected = machine.run(inputs), run_graph(graph, inputs)
    for name, elements in outputs.items():
        assert np.array_equal(elements, expected[name]), f"{name} differs from the operators"
    configs = {c.tensor: Counter(c.regions()) for c in cascader.tensor_configs(schedule)}
    assert configs == machine.counts.stripes, "the machine counts other stripes than the schedule"
    return Executed(machine.counts.stripes, machine.counts.windows)


def _counted(found: object, where: str) -> tuple[str, str]:
    """Execute the stripes of a tensor."""
    case = read_as(Counts, found, where)
    config = case.stripe_config
    rank = len(config.shape)
    if rank > 3:
        raise NotExpressible("more than three axes with stripes")
    if rank == 3 and config.shape[2] < config.extent[2]:
        boxes, note = _channel_groups(config), ", one layer for each group of channels"
    else:
        boxes, note = _windows(config, case.sliding_window), ""
    shapes: Counter[tuple[int, ...]] = Counter()
    for box, n in boxes.items():
        shapes[tuple(upper - lower for lower, upper in box)] += n
    expected = {entry.shape: entry.count for entry in case.expected_counts}
    positions = _positions(config, case.sliding_window)
    compared = f"{boxes.total()} stripes{note}"
    if shapes != expected:
        return compared, f"the machine counts {dict(shapes)}, expected {expected}"
    if boxes != positions:
        return compared, f"the machine counts stripes at {sorted(boxes)}, not {sorted(positions)}"
    return compared, ""


def _windows(config: Config, sliding_window: bool) -> Boxes:
    """Execute a cascade whose last layer reads the stripes of an interior tensor.

    Return these windows or, for a sliding window, the stripes in which the tensor is computed.
    """
    rank = len(config.shape)
    if sliding_window and rank > 1 and config.stripes[1] > 1:
        raise NotExpressible("columns are not kept from band to band, but recomputed")
    axes = [_axis(config, axis) for axis in range(min(rank, 2))]
    row, column = axes[0], axes[1] if rank > 1 else _Axis(1, 1, Window(1), None)
    x = Value("x", int8(1, row.extent, column.extent, config.extent[2] if rank == 3 else 1))
    producer = _node("interior", Relu(), (x,))
    kernel = (1, row.window.size, column.window.size, x.type.shape[3])
    layer = Conv2D(row.window, column.window)
    conv = _node("y", layer, (producer.output,), weights(*kernel), bias(1))
    done = executed(Graph("stripes", (x,), (conv.output,), (producer, conv)), row.size, column.cut)
    regions = (done.computed if sliding_window else done.read)["interior"]
    return Counter({region.intervals[1 : rank + 1]: n for region, n in regions.items()})


def _channel_groups(config: Config) -> Boxes:
    """Execute a cascade in which one layer computes each group of channels of a tensor.

    Return the stripes that these layers compute, at their position in the whole tensor.
    """
    if config.strides != config.shape or any(config.offset):
        raise NotExpressible("stripes of some channels that overlap, or leave out channels")
    rows, columns, channels = config.shape
    x = Value("x", int8(1, *config.extent[:2], 2))
    groups = tuple(
        _node(
            f"group{k}",
            Conv2D(Window(1), Window(1)),
            (x,),
            weights(channels, 1, 1, 2),
            bias(channels),
        )
        for k in range(config.stripes[2])
    )
    tensor = _node("y", Concatenation(3), tuple(group.output for group in groups))
    graph = Graph("groups", (x,), (tensor.output,), (*groups, tensor))
    done = executed(graph, rows, columns)
    boxes: Boxes = Counter()
    for k, group in enumerate(groups):
        for region, n in done.computed[group.name].items():
            boxes[region.shift((0, 0, 0, k * channels)).intervals[1:]] += n
    return boxes


@dataclass(frozen=True, slots=True)
class _Axis:
    """A layer along one axis, whose stripes read the windows of a case.

    extent: elements of the tensor that it reads.
    size: outputs per stripe.
    cut: the same; None if there is a single stripe.
    """

    extent: int
    size: int
    window: Window
    cut: int | None


def _axis(config: Config, axis: int) -> _Axis:
    """Return the layer of stride 1 whose stripes read the windows along an axis of a case."""
    shape, extent = config.shape[axis], config.extent[axis]
    stride, stripes, offset = config.strides[axis], config.stripes[axis], config.offset[axis]
    if stripes == 1 and shape == extent:
        return _Axis(extent, extent, Window(1), None)
    if not isinstance(stride, int):
        raise NotExpressible(
            f"stripes at a distance of {stride} elements, as channel blocks (NHCWB16) cause: "
            "tensors of the processor have no blocks"
        )
    size = shape - stride + 1
    after = stripes * stride + size - 1 - extent + offset
    if stride < 1 or size < 1 or offset > 0 or after < 0:
        raise NotExpressible("stripes that leave out elements of the tensor")
    return _Axis(extent, stride, Window(size, before=-offset, after=after), stride)


def _positions(config: Config, sliding_window: bool) -> Boxes:
    """Return the stripes of a case one by one, clipped, as its definition states them."""
    found: list[list[Interval]] = []
    for axis, extent in enumerate(config.extent):
        covered = 0
        found.append([])
        for i in range(config.stripes[axis]):
            start = math.floor(config.offset[axis] + i * config.strides[axis])
            lower, upper = max(start, 0), min(start + config.shape[axis], extent)
            lower, covered = max(lower, covered if sliding_window else 0), max(covered, upper)
            if lower < upper:
                found[axis].append((lower, upper))
    return Counter(product(*found))


def _propagated(found: object, where: str) -> tuple[str, str]:
    """Execute a transform of (rows, channels): the windows that a layer of this transform reads."""
    case = read_as(Propagation, found, where)
    if len(case.transform) > 4:
        raise NotExpressible("a change of layout to channel blocks (NHCWB16), not of the processor")
    if any(not isinstance(factor, int) for row in case.transform for factor in row):
        raise NotExpressible(
            "a layer that enlarges: resizing has no form for some columns, and by a whole factor "
            "it gives no tensor of these extents (benchmarks.executed_traps enlarges rows)"
        )
    if len(case.transform) != 3:
        raise NotExpressible("a transform of other axes than rows and channels")
    stride, more, channels = case.transform[0][0], case.transform[0][-1], case.transform[1][-1]
    given, expected = case.input, case.expected
    before, rows = -case.offset[0], given.extent[0]
    window = Window(int(stride + more), int(stride), before=before, after=before)
    extent = (rows - 1) * window.stride + window.size - 2 * before
    x = Value("x", int8(1, extent, 1, int(channels)))
    producer = _node("interior", Relu(), (x,))
    kernel = (given.extent[1], window.size, 1, int(channels))
    layer = Conv2D(window, Window(1))
    conv = _node("y", layer, (producer.output,), weights(*kernel), bias(given.extent[1]))
    done = executed(
        Graph("transform", (x,), (conv.output,), (producer, conv)), given.shape[0], None
    )
    read = Counter({region.intervals[1::2]: n for region, n in done.read["interior"].items()})
    real = expected.model_copy(update={"extent": (extent, expected.extent[1])})
    positions = _positions(real, sliding_window=False)
    compared = f"{read.total()} windows, for all channels of the output at once"
    if read != positions:
        return compared, f"the machine reads {sorted(read)}, not {sorted(positions)}"
    return compared, ""


def _operator(found: object, where: str) -> tuple[str, str]:
    """Execute an operator in stripes: the windows of each input that its calls read."""
    operator = read_as(Operator, found, where).root
    expected = read_as(Expected, found, where)
    layouts = {getattr(operator, f"{name}_layout", "NHWC") for name in ("ifm", "ifm2", "ofm")}
    if layouts != {"NHWC"}:
        raise NotExpressible("tensors in channel blocks (NHCWB16), not of the processor")
    op, images, constants = _operands(operator)
    names = ("ifm", "ifm2")[: len(images)]
    inputs = tuple(Value(f"x{k}", int8(*shape)) for k, shape in enumerate(images))
    producers = tuple(_node(name, Relu(), (x,)) for name, x in zip(names, inputs, strict=True))
    node = _node("y", op, tuple(producer.output for producer in producers), *constants)
    graph = Graph("operator", inputs, (node.output,), (*producers, node))
    size = f"stripes of {ROWS} rows and {COLUMNS} columns"
    try:
        done = executed(graph, ROWS, COLUMNS)
    except UnsupportedError as error:
        done, size = executed(graph, ROWS, None), f"stripes of {ROWS} rows; {error.what}"
    for name, x in zip(names, inputs, strict=True):
        transform = getattr(expected, f"{name}_transform")
        offset = getattr(expected, f"{name}_offset") or (0,) * x.type.rank
        form = Affine.of_augmented(transform, offset)
        windows: Regions = Counter()
        for out, n in done.computed["y"].items():
            window = form.apply(out).meet(Region.whole(x.type.shape))
            windows[window] += n * (not window.empty)
        if +windows != done.read[name]:
            wrong = (+windows - done.read[name]) | (done.read[name] - +windows)
            first = min(region.intervals for region in wrong)
            return size, f"{name} is read in other windows, such as {first}"
    return f"{sum(done.read[name].total() for name in names)} windows, {size}", ""


def _operands(
    operator: Windowed | Binary | Unary | Identity,
) -> tuple[Op, tuple[tuple[int, ...], ...], tuple[Operand, ...]]:
    """Return the operator of a case, the shapes of its tensors, and its constants."""
    match operator:
        case Windowed():
            op, (image, *others) = operator.op_and_shapes()
            if not others:
                return op, (image,), ()
            return op, (image,), (weights(*others[0]), bias(*others[1]))
        case Binary():
            return Add(), (operator.ofm_shape_nhwc, operator.ifm2_shape_nhwc), ()
        case Unary():
            return Abs(), (operator.ofm_shape_nhwc,), ()
        case Identity():
            return Quantize(), (operator.ifm_shape,), ()


def _node(name: str, op: Op, inputs: tuple[Value, ...], *constants: Operand) -> Node:
    """Return a node of an operator; its output is quantised like its first input."""
    like = inputs[0].type
    operands = (*(value.type for value in inputs), *constants)
    made = sample(op, *operands, scale=like.scale, zero=like.zero_point)
    pairs = (operand for operand in constants if isinstance(operand, tuple))
    values = tuple(Value(f"{name}/{k}", type, data) for k, (type, data) in enumerate(pairs))
    return Node(op, (*inputs, *values), Value(name, made.site.output))


if __name__ == "__main__":
    entry(main)
