"""Passes that prepare states for their memory: results that no run may overwrite, and queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from penstock.frozen import frozen
from penstock.ir.graph import Graph, Node, Queue, QueueSection, State, Value, free_name
from penstock.ir.tensor import Data, Region, row_axis, row_count
from penstock.ops.concatenation import Concatenation
from penstock.ops.registry import COPY
from penstock.ops.slice import Slice, along


def own_results(graph: Graph) -> Graph:
    """Returns the graph in which no output and no new elements of a state are in a state's memory.

    The updates of states, at the end of a run, would overwrite such a result.  A result that is a
    view of a state becomes a view of a copy.  If the state itself is an output, the output is a
    copy, and the state gets another name.
    """
    return _with_copied_views(_with_copied_states(graph))


def _with_copied_states(graph: Graph) -> Graph:
    """The graph in which no output is a state itself."""
    taken = set(graph.names())
    outputs = {value.name for value in graph.outputs}
    renamed: dict[str, Value] = {}
    copies: list[Node] = []
    for state in graph.states:
        before = state.before
        if before.name in outputs:
            name = free_name(f"{before.name}/state", taken)
            taken.add(name)
            renamed[before.name] = replace(before, name=name)
            copies.append(Node(COPY, (renamed[before.name],), before, state.update.origin))
    nodes = (node.reading(renamed) for node in graph.nodes)
    return replace(
        graph,
        nodes=(*copies, *nodes),
        states=tuple(_renamed_state(state, renamed) for state in graph.states),
    )


def _renamed_state(state: State, names: Mapping[str, Value]) -> State:
    before = names.get(state.before.name, state.before)
    return replace(state, update=replace(state.update, output=before))


def _with_copied_views(graph: Graph) -> Graph:
    """The graph in which no result is a view of a state."""
    taken = set(graph.names())
    results = {value.name for value in (*graph.outputs, *(s.after for s in graph.states))}
    in_states = {state.before.name for state in graph.states}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op.ALIAS and node.inputs[0].name in in_states:
            if node.name in results:
                source = node.inputs[0]
                copy = replace(source, name=free_name(f"{source.name}/copy", taken), origin=None)
                taken.add(copy.name)
                nodes.append(Node(COPY, (source,), copy, node.origin))
                node = replace(node, inputs=(copy, *node.inputs[1:]))
            else:
                in_states.add(node.name)
        nodes.append(node)
    return graph.with_nodes(tuple(nodes))


# Most rows of a window: the largest number in the 16 bits that state the rotation of a ring.
MAX_ROWS = 2**15 - 1


def queues(graph: Graph) -> Graph:
    """Returns the graph in which states that are the last rows of a sequence are queues
    (`Graph.queues`).

    A model shifts such a state: it concatenates the old rows with new ones, and assigns the last
    rows of the result.  As a queue, the rows stay where they are in a ring, and only the new ones
    are written.  Two forms are recognised, where `s` is the state before the run and the axis is
    that of rows:

    1. window = Concatenation(s, new); s becomes Slice(window, last rows).
    2. kept = Slice(s, last rows); window = Concatenation(kept, new); s becomes window.

    Conditions: the state, and in form 2 the slice, have no other reader, and neither the window nor
    the new rows are outputs of the graph.
    """
    search = _Search.of(graph)
    found = {state.before.name: search.queue(state) for state in graph.states}
    removed = {replaced.name for match in found.values() if match for replaced in match.removed}
    return replace(
        graph,
        nodes=tuple(node for node in graph.nodes if node.name not in removed),
        states=tuple(state for state in graph.states if found[state.before.name] is None),
        queues=(*graph.queues, *(match.queue for match in found.values() if match)),
    )


@frozen
class _Match:
    """A queue, and the nodes that it makes superfluous."""

    queue: Queue
    removed: tuple[Node, ...]


@frozen
class _Search:
    """Producers, consumers and outputs of a graph, and the new elements of each state."""

    producers: Mapping[str, Node]
    consumers: Mapping[str, tuple[Node, ...]]
    outputs: frozenset[str]
    updates: tuple[str, ...]

    @staticmethod
    def of(graph: Graph) -> _Search:
        outputs = frozenset(value.name for value in graph.outputs)
        updates = tuple(state.after.name for state in graph.states)
        return _Search(graph.producers(), graph.consumers(), outputs, updates)

    def queue(self, state: State) -> _Match | None:
        """The queue that a state is, or None."""
        return self._sliced_after(state) or self._sliced_before(state)

    def _sliced_after(self, state: State) -> _Match | None:
        """The queue of a state that becomes the last rows of its window (form 1)."""
        last = self.producers.get(state.after.name)
        if last is None or not _takes_last_rows(last):
            return None
        window = last.inputs[0]
        if not self._appends(state.before, window):
            return None
        read = self.consumers.get(last.name) or last.name in self.outputs
        needed = read or self.updates.count(last.name) > 1
        queue = Queue(state.initial, state.before, window)
        return _Match(queue, () if needed else (last,))

    def _sliced_before(self, state: State) -> _Match | None:
        """The queue of a state that is shifted, extended and becomes its window (form 2)."""
        window = state.after
        shift = self._only_reader(state.before)
        if shift is None or not _takes_last_rows(shift) or not self._appends(shift.output, window):
            return None
        region = shift.op.needs(shift.site, Region.whole(shift.output.shape))[0]
        rows = state.initial.array(state.before.type)[region.slices]
        return _Match(Queue(Data.of(rows), shift.output, window), (shift,))

    def _appends(self, before: Value, window: Value) -> bool:
        """Whether `window` is `before`, which has no other reader, followed by new rows."""
        append = self.producers.get(window.name)
        if append is None or append is not self._only_reader(before):
            return False
        new = append.inputs[-1]
        rank = window.rank
        return (
            isinstance(append.op, Concatenation)
            and append.inputs == (before, new)
            and row_count(window.shape) <= MAX_ROWS
            and rank > 1
            and append.op.axis == row_axis(rank)
            and prod(window.shape[: append.op.axis]) == 1
            and new.data is None
            and not {window.name, new.name} & self.outputs
        )

    def _only_reader(self, value: Value) -> Node | None:
        """The node that reads a value; None if there are several or if the value is an output or
        becomes a state."""
        readers = self.consumers.get(value.name, ())
        elsewhere = value.name in self.outputs or value.name in self.updates
        return readers[0] if len(readers) == 1 and not elsewhere else None


def _takes_last_rows(node: Node) -> bool:
    x, y = node.inputs[0].shape, node.output.shape
    if not isinstance(node.op, Slice) or len(x) < 2:
        return False
    axis = row_axis(len(x))
    return node.op == along(x, axis, x[axis] - y[axis], y[axis])


def queue_sections(graph: Graph) -> Graph:
    """Returns the graph in which slices of the window of a queue are read from its ring
    (`Queue.sections`).  Conditions:

    1. The slice takes consecutive rows of the window or of another section, with step 1 along all
       axes.
    2. The elements that it takes of each row are consecutive.
    3. The slice is not an output of the graph.
    """
    return replace(graph, queues=tuple(_with_sections(queue, graph) for queue in graph.queues))


def _with_sections(queue: Queue, graph: Graph) -> Queue:
    outputs = {value.name for value in graph.outputs}
    found = {queue.window.name: QueueSection(queue.window, 0, 0)}
    for node in graph.nodes:
        whole = found.get(node.inputs[0].name) if node.inputs else None
        if whole is not None and node.name not in outputs and _is_section(node):
            found[node.name] = _section(node, whole)
    return replace(queue, sections=tuple(found.values())[1:])


def _is_section(node: Node) -> bool:
    op, x, y = node.op, node.inputs[0].shape, node.output.shape
    if not isinstance(op, Slice) or len(x) < 2:
        return False
    columns = y[row_axis(len(x)) + 1 : -1]
    return set(op.step) == {1} and (y[-1] == x[-1] or set(columns) <= {1})


def _section(node: Node, whole: QueueSection) -> QueueSection:
    assert isinstance(node.op, Slice)
    type, axis = node.inputs[0].type, row_axis(node.inputs[0].rank)
    elements = 0
    for start, extent in zip(node.op.start[axis + 1 :], type.shape[axis + 1 :], strict=True):
        elements = elements * extent + start
    first_byte = whole.first_byte + elements * type.dtype.size_bytes
    return QueueSection(node.output, whole.first_row + node.op.start[axis], first_byte)
