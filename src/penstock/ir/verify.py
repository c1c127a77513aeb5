"""verify: the invariants of a Graph, as named checks.  Every pass must preserve them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from penstock.errors import ModelError
from penstock.ir.foreign import MALFORMED
from penstock.ir.graph import Graph, Queue, QueueSection, Value
from penstock.ir.op import Types
from penstock.ir.tensor import row_axis, row_count


def verify(graph: Graph) -> None:
    """Raises ModelError for the first invariant that the graph violates."""
    for check in CHECKS:
        problem = check(graph)
        if problem:
            raise ModelError(
                "model-016",
                problem,
                where=graph.name,
                why=str(check.__doc__),
                help=MALFORMED,
            )


def names_tell_values_apart(graph: Graph) -> str | None:
    """Values of one name have one type and the same data."""
    found: dict[str, Value] = {}
    every = (value for node in graph.nodes for value in (*node.inputs, node.output))
    for value in (*graph.sources, *every, *graph.results):
        other = found.setdefault(value.name, value)
        if (other.type, other.data) != (value.type, value.data):
            return f'two values are called "{value.name}": {other.type} and {value.type}'
    return None


def values_are_written_once(graph: Graph) -> str | None:
    """Every value is an input, a state, a constant, or the output of exactly one node."""
    constant = next((v for v in graph.sources if v.data is not None), None)
    if constant is not None:
        return f'input "{constant.name}" is constant'
    seen = {value.name for value in graph.sources}
    if len(seen) < len(graph.sources):
        return "an input stands twice among the graph's inputs and states"
    for node in graph.nodes:
        if node.output.name in seen:
            return f'"{node.output.name}" is written twice ({node.origin})'
        if node.output.data is not None:
            return f'"{node.output.name}" is constant and written ({node.origin})'
        seen.add(node.output.name)
    return None


def values_are_written_before_they_are_read(graph: Graph) -> str | None:
    """A node reads constants, graph inputs, states, and outputs of earlier nodes."""
    known = {value.name for value in graph.sources}
    for node in graph.nodes:
        for value in node.inputs:
            if value.data is None and value.name not in known:
                return f'"{value.name}" is read before it is written ({node.origin})'
        known.add(node.output.name)
    missing = next((v for v in graph.results if v.data is None and v.name not in known), None)
    return f'output "{missing.name}" is never written' if missing else None


def updates_fit_their_states(graph: Graph) -> str | None:
    """The new elements of a state have its shape and type, and are computed by a node; a state has
    as many initial elements as its type states."""
    computed = {node.name for node in graph.nodes}
    for state in graph.states:
        before, after = state.before, state.after
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            return f'state "{before.name}" is {before.type}, its new elements are {after.type}'
        if after.name not in computed:
            return f'the new elements of state "{before.name}" are not computed by a node'
        if len(state.initial.raw) != before.type.size_bytes:
            return f'state "{before.name}" has {len(state.initial.raw)} initial bytes'
    return None


def windows_continue_their_queues(graph: Graph) -> str | None:
    """The window of a queue is computed by a node from the kept rows and at least one new row, in
    this order; all have the same rows.  A queue has as many initial elements as its type states."""
    producers = graph.producers()
    for queue in graph.queues:
        before, window = queue.before.type, queue.window.type
        node = producers.get(queue.window.name)
        if node is None or len(node.inputs) != 2 or node.inputs[0] != queue.before:
            return f'the window of queue "{queue.before.name}" does not begin with its kept rows'
        if node.inputs[1].data is not None:
            return f'the new rows of queue "{queue.before.name}" are constant'
        axis = row_axis(window.rank)
        if not _same_rows((before, node.inputs[1].type, window), axis):
            return f'the rows of queue "{queue.before.name}" differ from those of its window'
        if before.shape[axis] + node.inputs[1].shape[axis] != window.shape[axis]:
            return f'the window of queue "{queue.before.name}" has {window.shape[axis]} rows'
        if len(queue.initial.raw) != before.size_bytes:
            return f'queue "{queue.before.name}" has {len(queue.initial.raw)} initial bytes'
        outside = next((s for s in queue.sections if not _is_inside(s, queue)), None)
        if outside is not None:
            return f'"{outside.value.name}" is no section of the window of "{queue.before.name}"'
    return None


def _is_inside(section: QueueSection, queue: Queue) -> bool:
    type, rows = section.value.type, row_count(section.value.shape)
    row_bytes = queue.window.type.size_bytes // queue.rows
    end_row, end_byte = section.first_row + rows, section.first_byte + type.size_bytes // rows
    return (
        min(section.first_row, section.first_byte) >= 0
        and end_row <= queue.rows
        and end_byte <= row_bytes
        and prod(type.shape[: row_axis(type.rank)]) == 1
    )


def _same_rows(types: Types, axis: int) -> bool:
    first = types[0]
    return all(
        type.dtype is first.dtype
        and type.rank == first.rank > 1
        and type.shape[axis + 1 :] == first.shape[axis + 1 :]
        and prod(type.shape[:axis]) == 1
        for type in types
    )


def there_is_something_to_compute(graph: Graph) -> str | None:
    """A graph has at least one input and one output, and no tensor is empty."""
    if not graph.inputs or not graph.outputs:
        return f"the graph has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs"
    values = (*graph.variables(), *graph.constants())
    empty = next((value for value in values if value.elements == 0), None)
    return f'tensor "{empty.name}" has shape {list(empty.shape)}' if empty else None


Check = Callable[[Graph], str | None]
CHECKS: tuple[Check, ...] = (
    names_tell_values_apart,
    values_are_written_once,
    values_are_written_before_they_are_read,
    updates_fit_their_states,
    windows_continue_their_queues,
    there_is_something_to_compute,
)
