"""Passes that let a Slice read what was concatenated or viewed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.frozen import frozen
from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.tensor import Data, row_count
from penstock.ops.concatenation import Concatenation
from penstock.ops.gather import Gather
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice, along


@frozen
class _Part:
    """Some indices of a tensor along an axis."""

    value: Value
    axis: int
    start: int
    extent: int

    @property
    def is_whole(self) -> bool:
        return self.extent == self.value.shape[self.axis]

    def cut(self, start: int, extent: int) -> _Part:
        return replace(self, start=self.start + start, extent=extent)

    def follows(self, other: _Part) -> bool:
        return self.value == other.value and self.start == other.start + other.extent


@frozen
class _Parts:
    """Parts of tensors, joined along an axis."""

    axis: int
    parts: tuple[_Part, ...]

    def cut(self, start: int, extent: int) -> _Parts:
        """Some indices of the joined tensor."""
        found: list[_Part] = []
        end = start + extent
        for part in self.parts:
            if start < part.extent and end > 0:
                low, high = max(start, 0), min(end, part.extent)
                found.append(part.cut(low, high - low))
            start, end = start - part.extent, end - part.extent
        return _Parts(self.axis, tuple(found))


def slice_parts(graph: Graph) -> Graph:
    """Returns the graph whose slices of a Concatenation read the concatenated tensors.

    Unrolled loops write a list item by item: they join what is before an item, the item, and what
    is after it.  Then the list is one Concatenation of its items, and whoever reads an item reads
    no list.  Conditions:

    1. The Slice, or a Gather of indices in order, takes all of every other axis than that of the
       Concatenation, and steps of 1 along it.
    2. The Concatenation reads no state: those that do are queues.
    3. A Slice that becomes part of another Concatenation takes whole tensors or constants; another
       one takes a part of a single tensor.
    """
    states = {state.before.name for state in graph.states}
    joined: dict[str, _Parts] = {}
    sliced: dict[str, _Parts] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node.op, Concatenation):
            axis = node.op.axis
            node = _joined(node, axis, sliced)
            if states.isdisjoint(value.name for value in node.inputs):
                parts = tuple(_whole(value, axis) for value in node.inputs)
                joined[node.name] = _Parts(axis, parts)
        elif (source := joined.get(node.inputs[0].name) if node.inputs else None) is not None:
            range_ = _range(node, source.axis)
            if range_ is not None:
                sliced[node.name] = source.cut(*range_)
                node = _of_one(node, sliced[node.name].parts)
        nodes.append(node)
    return graph.with_nodes(tuple(nodes))


def _whole(value: Value, axis: int) -> _Part:
    return _Part(value, axis, 0, value.shape[axis])


def _range(node: Node, axis: int) -> tuple[int, int] | None:
    """Start and extent of what a node selects along an axis; None if it selects otherwise."""
    shape = node.inputs[0].shape
    match node.op:
        case Slice(start=start, shape=extents, step=step):
            others = (a for a in range(len(shape)) if a != axis)
            plain = all((start[a], extents[a]) == (0, shape[a]) for a in others)
            return (start[axis], extents[axis]) if plain and set(step) == {1} else None
        case Gather(axis=along, indices=indices) if along == axis and indices:
            in_order = indices == tuple(range(indices[0], indices[0] + len(indices)))
            return (indices[0], len(indices)) if in_order else None
        case _:
            return None


def _of_one(node: Node, parts: Sequence[_Part]) -> Node:
    """A selection from a single tensor; the node itself if it selects from several."""
    (part, *others) = parts
    if others or part.value.quantisation != node.output.quantisation:
        return node
    shape = part.value.shape
    if part.is_whole:
        return replace(node, op=Reshape(shape), inputs=(part.value,))
    op = along(shape, part.axis, part.start, part.extent)
    return replace(node, op=op, inputs=(part.value,))


def _joined(node: Node, axis: int, sliced: dict[str, _Parts]) -> Node:
    """A concatenation of the parts of its inputs."""
    found: list[_Part] = []
    for value in node.inputs:
        parts = sliced.get(value.name)
        wholes = parts is not None and parts.axis == axis and all(map(_is_simple, parts.parts))
        for part in parts.parts if parts is not None and wholes else (_whole(value, axis),):
            if found and part.follows(found[-1]):
                found[-1] = replace(found[-1], extent=found[-1].extent + part.extent)
            else:
                found.append(part)
    return replace(node, inputs=tuple(_values(node, found)))


def _is_simple(part: _Part) -> bool:
    return part.is_whole or part.value.data is not None


def _values(node: Node, parts: Iterable[_Part]) -> Iterable[Value]:
    for k, part in enumerate(parts):
        if part.is_whole:
            yield part.value
            continue
        box = [slice(None)] * part.value.rank
        box[part.axis] = slice(part.start, part.start + part.extent)
        elements = part.value.array[tuple(box)].copy()
        type = part.value.type.with_shape(elements.shape)
        yield Value(f"{node.name}/part{k}", type, Data.of(elements))


UNCHANGED = (0, 1, 1)  # Start, extent and step of a slice along an axis of extent 1.


def slice_rows(graph: Graph) -> Graph:
    """Returns the graph with slices of views as views of slices.

    A reader of a view with fewer rows reads them all at once, so that no cascade reaches it.  This
    is so for the last step of a sequence (1, T, C), a view of the rows (1, T, 1, C) of a recurrent
    layer.  Conditions:

    1. The view differs from the tensor in axes of extent 1 and in its quantisation at most.
    2. The tensor has more rows than the view.
    """
    producers, names = graph.producers(), graph.names()
    made = (node for one in graph.nodes for node in _through_views(one, producers, names))
    return graph.with_nodes(tuple(made))


def _through_views(
    node: Node, producers: Mapping[str, Node], names: frozenset[str]
) -> tuple[Node, ...]:
    if not isinstance(node.op, Slice):
        return (node,)
    view = node.inputs[0]
    tensor = _viewed(view, producers)
    if row_count(tensor.shape) <= row_count(view.shape):
        return (node,)
    op = node.op
    triples = zip(op.start, op.shape, op.step, view.shape, strict=True)
    sliced = iter([(start, n, step) for start, n, step, extent in triples if extent != 1])
    axes = [UNCHANGED if extent == 1 else next(sliced) for extent in tensor.shape]
    start, shape, step = (tuple(axis[k] for axis in axes) for k in range(3))
    name = free_name(f"{node.name}/rows", names)
    rows = Value(name, node.output.type.with_shape(shape))
    first = Node(Slice(start, shape, step), (tensor,), rows, node.origin)
    return first, replace(node, op=Reshape(node.output.shape), inputs=(rows,))


def _viewed(view: Value, producers: Mapping[str, Node]) -> Value:
    """The tensor at the end of a chain of views that differ in axes of extent 1."""
    producer = producers.get(view.name)
    if producer is None or not isinstance(producer.op, Reshape):
        return view
    source = producer.inputs[0]
    return _viewed(source, producers) if _extents(source) == _extents(view) else view


def _extents(value: Value) -> tuple[int, ...]:
    """The extents of a value that are not 1."""
    return tuple(extent for extent in value.shape if extent != 1)
