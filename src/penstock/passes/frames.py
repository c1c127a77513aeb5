"""Frames: the input of a network as a window of frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.errors import UnsupportedError, UsageError
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value
from penstock.opkit.broadcast import Elementwise
from penstock.ops.reshape import Reshape
from penstock.passes.streamed_rows import channels_first
from penstock.passes.time_series import MOST_FRAMES, RunStep, TimeSeries

OPTION = "--incremental"
NEXT_AXIS = ("incremental-004", "usage-132")
"""The errors after which another axis may be the time axis."""


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
    shape = view.output.type.shape
    old = (*graph.inputs, *(node.output for node in before), view.output)
    viewed = {value.name: Value(value.name, value.type.with_shape(shape)) for value in old[:-1]}
    viewed[view.name] = viewed[old[-2].name]
    nodes = (
        replace(
            node,
            inputs=tuple(viewed.get(value.name, value) for value in node.inputs),
            output=viewed.get(node.name, node.output),
        )
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
    long, more = (sum(n > 1 for n in value.type.shape) for value in (x, view))
    return long == 1 and view.type.rank > 2 and (more > 1 or x.type.rank <= 2)


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
    axes = tuple(a for a in range(first, x.type.rank) if 1 < x.type.shape[a] <= MOST_FRAMES)
    if not axes or x.type.shape[0] != 1:
        raise UnsupportedError(
            "incremental-003",
            "the input has no time axis",
            where=f'{graph.name}, input "{x.name}"',
            why=f"its type is {x.type}; a time axis is an axis after a batch of 1, and after the "
            "channels of an image that has its channels first, with an extent above 1, and at most "
            f"{MOST_FRAMES}",
            help=f"omit {OPTION}",
        )
    return axes if x.type.rank == 3 else axes[:1]


def frames_along(graph: Graph, axis: int, hop: int) -> TimeSeries:
    """The input as a series of frames along an axis.  Raises UsageError if the hop has none, or
    more than the window."""
    x = graph.inputs[0]
    frames = x.type.shape[axis]
    if not 1 <= hop <= frames:
        raise UsageError(
            "usage-132",
            f"the hop is {hop}, must be at least 1 and at most {frames}",
            where=f'{graph.name}, {OPTION}, input "{x.name}"',
            why=f"the window, axis {axis} of {x.type}, has {frames} frames",
            help="give the number of new frames per run",
        )
    return TimeSeries(axis, frames, hop, 1)
