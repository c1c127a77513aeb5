"""incremental: a network with a window of frames becomes one that consumes a few frames per run.

The network is applied to the last T frames of a signal, and again `hop` frames later.  Rows of
a tensor that only move in between (`passes/time_series.py`) are computed once: a run computes those
that the new frames add, and keeps the older ones that readers still need as a state,

    window = Concatenation(kept, new rows); kept becomes the last rows of the window,

which `passes/states.py` stores in a ring.  A reader of fewer rows than the window reads a slice.
Operators that need all rows, such as a mean over time or a dense layer, read the whole window, and
they and all that depends on them are computed per run, as in the network with the window.

Before the first run, the signal was zero: the states are what the network computes of such frames.
An output with a time axis has its new rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.errors import PenstockError, UnsupportedError, UsageError
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, GraphWriter, Node, State, Value
from penstock.ir.tensor import Array, Data, Interval, Region
from penstock.ir.verify import verify
from penstock.opkit.broadcast import Elementwise
from penstock.ops.concatenation import Concatenation
from penstock.ops.registry import COPY
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice, along
from penstock.passes.cleaning import drop_dead, fold_constants
from penstock.passes.streamed_rows import channels_first
from penstock.passes.time_series import (
    MOST_FRAMES,
    ROWS,
    RunStep,
    TimeSeries,
    row_shape,
    steps,
    time_rows,
)

# Frames: the input of a network as a window of frames.


OPTION = "--incremental"
# The errors after which another axis may be the time axis.
NEXT_AXIS = ("incremental-004", "usage-132")


def check_interface(graph: Graph) -> None:
    """Raises UsageError if the network has states, or not exactly one input, or is partitioned."""
    if any(isinstance(node.op, Composite) for node in graph.nodes):
        raise UsageError(
            "usage-133",
            "a partitioned network cannot become incremental",
            where=graph.name,
            why="accelerators claim layers of the network that consumes a hop",
            help="compile the graph that was not partitioned",
        )
    if graph.states:
        raise UsageError(
            "usage-130",
            "the network has states already",
            where=f"{graph.name}, {OPTION}",
            why=f'"{graph.states[0].before.name}" is kept from run to run, so that no window of '
            "frames determines the results",
            help=f"omit {OPTION}",
        )
    if len(graph.inputs) != 1:
        raise UsageError(
            "usage-131",
            f"the network has {len(graph.inputs)} inputs",
            where=f"{graph.name}, {OPTION}",
            why="a network that runs incrementally has one input, a window of frames",
            help=f"omit {OPTION}",
        )


def with_viewed_input(graph: Graph) -> Graph:
    """The graph whose input has the shape in which the network views it, if that has more axes.

    Element-wise operators, such as a quantisation, may precede the view."""
    before, view = _viewed(graph)
    if view is None:
        return graph
    shape = view.output.shape
    old = (*graph.inputs, *(node.output for node in before), view.output)
    viewed = {value.name: Value(value.name, value.type.with_shape(shape)) for value in old[:-1]}
    viewed[view.name] = viewed[old[-2].name]
    nodes = (
        replace(node.reading(viewed), output=viewed.get(node.name, node.output))
        for node in graph.nodes
        if node is not view
    )
    return replace(graph, inputs=(viewed[old[0].name],), nodes=tuple(nodes))


def _viewed(graph: Graph) -> tuple[list[Node], Node | None]:
    """The element-wise operators of one input each that follow the input, and the view after them
    that has more axes with an extent above 1; None if there is no such view."""
    consumers, before = graph.consumers(), list[Node]()
    x = graph.inputs[0]
    while True:
        last = before[-1].output if before else x
        readers = consumers.get(last.name, ())
        if len(readers) != 1 or last in graph.outputs or len(readers[0].inputs) != 1:
            return before, None
        node = readers[0]
        if isinstance(node.op, Reshape):
            adds = _adds_axes(x, node.output) and node.output not in graph.outputs
            return before, node if adds else None
        if not isinstance(node.op, Elementwise):
            return before, None
        before.append(node)


def _adds_axes(x: Value, view: Value) -> bool:
    """Whether a view of a tensor with one axis, or of rank 2 at most, has more axes."""
    long, more = (sum(n > 1 for n in value.shape) for value in (x, view))
    return long == 1 and view.rank > 2 and (more > 1 or x.rank <= 2)


def refuse_whole(graph: Graph, done: Sequence[RunStep], frames: TimeSeries) -> None:
    """Raises UnsupportedError if no layer computes fewer rows than the network with the window."""
    partial = any(step.series is not None and step.series.new < step.series.total for step in done)
    if partial or frames.new == frames.total:
        return
    first = next((step.node for step in done if any(step.reads)), None)
    raise UnsupportedError(
        "incremental-004",
        "no run can use what an earlier one has computed",
        where=graph.name if first is None else first.origin,
        why=f"this layer, the first one, mixes all {frames.total} frames of the window, or all of "
        f"its rows are new after {frames.new} frames",
        help=f"omit {OPTION}, and supply the window of each run",
    )


def time_axes(graph: Graph) -> tuple[int, ...]:
    """The axes that may be the time axis: the first one after a batch of 1 with an extent above 1,
    but not the channels of an image (1, C, H, W); for an input of rank 3, which may be (1, T, C) or
    (1, C, T), each of the two.

    Raises UnsupportedError if there is none."""
    x = graph.inputs[0]
    first = 2 if x in channels_first(graph) else 1
    axes = tuple(a for a in range(first, x.rank) if 1 < x.shape[a] <= MOST_FRAMES)
    if not axes or x.shape[0] != 1:
        raise UnsupportedError(
            "incremental-003",
            "the input has no time axis",
            where=f'{graph.name}, input "{x.name}"',
            why=f"its type is {x.type}; a time axis is an axis after a batch of 1, and after the "
            "channels of an image that has its channels first, with an extent above 1, and at most "
            f"{MOST_FRAMES}",
            help=f"omit {OPTION}",
        )
    return axes if x.rank == 3 else axes[:1]


def frames_along(graph: Graph, axis: int, hop: int) -> TimeSeries:
    """The input as a series of frames along an axis.  Raises UsageError if the hop has none, or
    more than the window."""
    x = graph.inputs[0]
    frames = x.shape[axis]
    if not 1 <= hop <= frames:
        raise UsageError(
            "usage-132",
            f"the hop is {hop}, must be at least 1 and at most {frames}",
            where=f'{graph.name}, {OPTION}, input "{x.name}"',
            why=f"the window, axis {axis} of {x.type}, has {frames} frames",
            help="give the number of new frames per run",
        )
    return TimeSeries(axis, frames, hop, 1)


def incremental(graph: Graph, hop: int) -> Graph:
    """Return the network that consumes `hop` frames per run.

    The time axis is the first one of `frames.time_axes` along which that saves
    multiply-accumulates.

    Raises UsageError if the hop is not in [1, T] or the network has several inputs or states, and
    UnsupportedError if a layer forbids it (`time_series.steps`)."""
    graph = drop_dead(fold_constants(graph))
    check_interface(graph)
    graph = with_viewed_input(graph)
    macs, found, errors = graph.macs(), list[Graph](), list[PenstockError]()
    for axis in time_axes(graph):
        try:
            made = _along(graph, axis, hop)
        except PenstockError as error:
            if error.code not in NEXT_AXIS:
                raise
            errors.append(error)
            continue
        if made.macs() < macs or not macs:
            return made
        found.append(made)
    if not found:
        raise errors[0]
    return found[0]


def _along(graph: Graph, axis: int, hop: int) -> Graph:
    """The network that consumes `hop` frames, which are along an axis of the input."""
    x = graph.inputs[0]
    series = frames_along(graph, axis, hop)
    done = steps(graph, {x.name: series}, hop)
    refuse_whole(graph, done, series)
    axes = {step.node.name: step.series.axis for step in done if step.series is not None}
    graph = time_rows(graph, {x.name: axis, **axes})
    done = steps(graph, {x.name: series}, hop)
    found = _Writer(graph, done, {x.name: series}).graph()
    verify(found)
    return found


@dataclass(slots=True)
class _Writer(GraphWriter):
    """Writes the nodes of one run.

    written: per series, the new rows, followed by parts of the window by their rows.
    """

    steps: tuple[RunStep, ...]
    inputs: Mapping[str, TimeSeries]
    states: list[State] = field(default_factory=list[State])
    parts: dict[tuple[str, Interval], Value] = field(
        default_factory=dict[tuple[str, Interval], Value]
    )

    def graph(self) -> Graph:
        zero = _silence(self.before, self.steps)
        outputs: dict[str, Value] = {}
        for value in self.before.inputs:
            series = self.inputs[value.name]
            outputs[value.name] = _new_rows(value, series)
            self._append(value, outputs[value.name], series, zero[value.name])
        for step in self.steps:
            value = step.node.output
            inputs = tuple(
                outputs.get(x.name, x) if read is None else self.parts[x.name, read]
                for x, read in zip(step.inputs, step.reads, strict=True)
            )
            made = value if step.series is None else _new_rows(value, step.series)
            if (
                isinstance(step.op, Slice)
                and set(step.op.step) == {1}
                and step.op.shape == inputs[0].shape
                and value not in self.before.outputs
            ):
                made = inputs[0]
            else:
                self.append(step.op, inputs, made, step.node.origin)
            outputs[value.name] = made
            if step.series is not None:
                self._append(value, made, step.series, zero[value.name])
        return replace(
            self.before,
            inputs=tuple(outputs[value.name] for value in self.before.inputs),
            outputs=tuple(outputs.get(value.name, value) for value in self.before.outputs),
            nodes=tuple(self.nodes),
            states=tuple(self.states),
        )

    def _append(self, value: Value, new: Value, series: TimeSeries, zero: Array) -> None:
        reads = self._reads(value)
        first = min((lower for lower, _ in reads), default=series.interval[0])
        if all(read == series.interval for read in reads):
            self.parts.update(((value.name, read), new) for read in reads)
            return
        shape = row_shape(new.shape, series.axis)
        rows, axis = (new, series.axis) if shape is None else (self._view(new, shape), ROWS)
        window, lower = rows, series.interval[0]
        if first < lower:
            window, lower = self._window(rows, axis, lower - first, zero, series), first
        for read in reads:
            inside = (read[0] - lower, read[1] - lower)
            part = new if read == series.interval else self._part(window, axis, inside)
            shape = _with(value, series.axis, read[1] - read[0])
            self.parts[value.name, read] = self._view(part, shape)

    def _view(self, value: Value, shape: tuple[int, ...]) -> Value:
        """A value in another shape."""
        if shape == value.shape:
            return value
        y = value.shaped(self._name(value, "view"), shape)
        return self.append(Reshape(shape), (value,), y, f'rows of "{value.name}"')

    def _reads(self, value: Value) -> list[Interval]:
        reads = (
            read
            for step in self.steps
            for x, read in zip(step.inputs, step.reads, strict=True)
            if x.name == value.name and read is not None
        )
        return list(dict.fromkeys(reads))

    def _window(self, new: Value, axis: int, kept: int, zero: Array, series: TimeSeries) -> Value:
        extent, origin = kept + series.new, f'rows of "{new.name}"'
        rows = Region.whole(zero.shape).replace(series.axis, (series.total - kept, series.total))
        state = new.shaped(self._name(new, "kept"), _with(new, axis, kept))
        window = new.shaped(self._name(new, "window"), _with(new, axis, extent))
        self.append(Concatenation(axis), (state, new), window, origin)
        after = self._slice(window, axis, (series.new, extent), self._name(new, "next"))
        update = Node(COPY, (after,), state, origin)
        self.states.append(State(Data.of(zero[rows.slices]), update))
        return window

    def _part(self, window: Value, axis: int, rows: Interval) -> Value:
        if rows == (0, window.shape[axis]):
            return window
        return self._slice(window, axis, rows, self._name(window, "part"))

    def _slice(self, x: Value, axis: int, rows: Interval, name: str) -> Value:
        op = along(x.shape, axis, rows[0], rows[1] - rows[0])
        return self.append(op, (x,), x.shaped(name, op.shape), f'rows of "{x.name}"')

    def _name(self, value: Value, role: str) -> str:
        return self.fresh(f"{value.name}/{role}")


def _silence(graph: Graph, done: Sequence[RunStep]) -> Mapping[str, Array]:
    """All series for a signal of zeros.  Their rows are equal, because each depends alike on the
    rows of other series: only the first one is computed."""
    found: dict[str, Array] = {
        x.name: np.full(x.shape, x.zero_point, x.dtype.value) for x in graph.inputs
    }
    for node, series in ((step.node, step.series) for step in done):
        if series is None:
            continue
        operands = (found[x.name] if x.data is None else x.array for x in node.inputs)
        first = Region.whole(node.output.shape).replace(series.axis, (0, 1))
        row = node.op.evaluate(node.site, tuple(operands), first)
        found[node.name] = np.repeat(row, series.total, series.axis)
    return found


def _new_rows(value: Value, series: TimeSeries) -> Value:
    shape = _with(value, series.axis, series.new)
    if shape == value.shape:
        return value
    return Value(value.name, value.type.with_shape(shape))


def _with(value: Value, axis: int, extent: int) -> tuple[int, ...]:
    """The shape of a value with another extent along an axis."""
    shape = value.shape
    return (*shape[:axis], extent, *shape[axis + 1 :])
