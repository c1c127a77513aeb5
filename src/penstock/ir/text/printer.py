"""Printer: the text of a graph, one declaration per line.

    graph lenet5
    input x: int8[1,28,28,1] scale 0.0078125 zero -1
    constant w: int8[6,5,5,1] scale @5f.. axis 0 = @c5029a71db5295a1
    constant b: int32[6] scale @6a.. axis 0 = 0
    y: int8[1,24,24,6] scale 0.5 = Conv2D(x, w, b, activation=Activation.RELU) at "node 0"
    output y

A constant precedes the first node that reads it.  A state has a line with its initial elements
after the inputs, and the node that updates it before the outputs:

    state s: int8[1,2,1,40] scale 0.1 zero -128 = -128
    update s: int8[1,2,1,40] scale 0.1 zero -128 = Concatenation(next, axis=1)

A queue, too, has a line with its initial rows, and one that names its window:

    queue q: int8[1,2,1,40] scale 0.1 zero -128 = -128
    keep q from window
    section q: a from row 2 byte 40

A section names a tensor that is read from the window, and where its rows begin.

The nodes of a composite are in braces:

    y: int8[1,24,24,6] = composite conv(x, w, b) on npu {
      ..
    }

The kernels that an accelerator chose for a composite are not part of the text (`Composite.chosen`,
`fallback`, `prefetching`): they follow from the composite and the accelerator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.errors import InternalError
from penstock.frozen import frozen
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Queue, State, Value, Values
from penstock.ir.tensor import Quantisation, TensorType
from penstock.ir.text.attributes import ConstantTable, attribute, data_lines, record
from penstock.quoting import is_name, name_or_string, quoted

MAX_NAME = 32  # Longer names are printed once; all other references use a handle.


@frozen
class Labels:
    """The handles of names, such as "%0"; the label of a name without a handle is the name
    itself."""

    handles: Mapping[str, str]

    @staticmethod
    def of(graph: Graph) -> Labels:
        """Handles for a graph's names, numbered in the order in which its text declares them."""
        long = (name for name in dict.fromkeys(_names(graph)) if not _is_short(name))
        return Labels({name: f"%{k}" for k, name in enumerate(long)})

    def __call__(self, name: str) -> str:
        """The token that refers to a name."""
        return self.handles.get(name) or (name if is_name(name) else quoted(name))

    def declaration(self, name: str) -> str:
        """The text of a name's declaration: the name, with its handle if it has one."""
        handle = self.handles.get(name)
        return f"{handle} {quoted(name)}" if handle else name


def _is_short(name: str) -> bool:
    return is_name(name) and len(name) <= MAX_NAME


def _names(graph: Graph) -> Iterator[str]:
    yield from (value.name for value in graph.sources)
    yield from _names_of_nodes(graph.nodes)
    yield from (value.name for value in graph.results)


def _names_of_nodes(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        yield from (value.name for value in node.inputs)
        yield node.name
        if isinstance(node.op, Composite):
            yield from node.op.inputs
            yield from _names_of_nodes(node.op.nodes)


def print_graph(graph: Graph, *, with_data: bool = False) -> str:
    """The text of a graph.  Constants of more than a few elements are shown by digest; `with_data`
    appends the elements, so that the text alone reads back."""
    table = ConstantTable()
    text = "".join(f"{line}\n" for line in graph_lines(graph, Labels.of(graph), table))
    return text + data_lines(table.found) if with_data else text


def graph_lines(graph: Graph, labels: Labels, table: ConstantTable) -> Iterator[str]:
    """The lines of a graph's text."""
    yield f"graph {name_or_string(graph.name)}"
    scope = _Scope(labels, table)
    yield from map(scope.input, graph.inputs)
    yield from (scope.kept("state", state) for state in graph.states)
    yield from (scope.kept("queue", queue) for queue in graph.queues)
    yield from scope.nodes(graph.nodes)
    yield from map(scope.update, graph.states)
    yield from (line for queue in graph.queues for line in scope.keep(queue))
    yield from scope.constants(graph.outputs)
    yield f"output {', '.join(map(scope.use, graph.outputs))}".rstrip()


def print_node(node: Node, labels: Labels, table: ConstantTable) -> str:
    """The line of a node that is not a composite; does not check that its inputs are declared."""
    inputs = (labels(value.name) for value in node.inputs)
    origin = f" at {quoted(node.origin)}" if node.origin else ""
    declared = _declaration(node.output, labels, table)
    return f"{declared} = {record(node.op, table, *inputs)}{origin}"


def print_type(type: TensorType, table: ConstantTable) -> str:
    """The text of a tensor type.

    >>> from penstock.ir.tensor import DType
    >>> q = Quantisation((0.5,), (3,))
    >>> print_type(TensorType((1, 8), DType.INT8, q), ConstantTable())
    'int8[1,8] scale 0.5 zero 3'
    """
    text = str(type)
    if type.quantisation is not None:
        text += _quantisation(type.quantisation, table)
    if type.layout is not None:
        text += f" layout {attribute(type.layout, table)}"
    return text


def _quantisation(q: Quantisation, table: ConstantTable) -> str:
    """The text of a quantisation: scales, zero points unless they are 0, and the axis."""
    text = f" scale {repr(q.scales[0]) if len(q.scales) == 1 else table.numbers(q.scales)}"
    alike = len(q.zero_points) == len(q.scales) and len(set(q.zero_points)) == 1
    if not alike:
        text += f" zero {table.numbers(q.zero_points)}"
    elif q.zero_points[0] != 0:
        text += f" zero {q.zero_points[0]}"
    return text if q.axis is None else f"{text} axis {q.axis}"


class _Scope:
    """Prints the declarations of a graph or of a composite's nodes."""

    def __init__(self, labels: Labels, table: ConstantTable, outside: _Scope | None = None) -> None:
        self._labels = labels
        self._table = table
        self._indent = "" if outside is None else outside._indent + "  "
        self._outside = {} if outside is None else {**outside._outside, **outside._declared}
        self._declared: dict[str, Value] = {}

    def input(self, value: Value) -> str:
        return f"{self._indent}input {self._declare(value)}"

    def kept(self, keyword: str, state: State | Queue) -> str:
        data = self._table.data(state.initial, state.before.type)
        return f"{self._indent}{keyword} {self._declare(state.before)} = {data}"

    def update(self, state: State) -> str:
        text = print_node(state.update, self._labels, self._table)
        return f"{self._indent}update {text}"

    def keep(self, queue: Queue) -> Iterator[str]:
        before = self.use(queue.before)
        yield f"{self._indent}keep {before} from {self.use(queue.window)}"
        for section in queue.sections:
            start = f"row {section.first_row} byte {section.first_byte}"
            yield f"{self._indent}section {before}: {self.use(section.value)} from {start}"

    def nodes(self, nodes: tuple[Node, ...]) -> Iterator[str]:
        """Yields the lines of nodes; constants precede the first node that reads them."""
        for node in nodes:
            yield from self.constants(node.inputs)
            for value in node.inputs:
                self._check(value)
            if not isinstance(node.op, Composite):
                self._declare(node.output)
                yield f"{self._indent}{print_node(node, self._labels, self._table)}"
                continue
            inside = self._inside(node.op)
            head = f"{self._indent}{self._declare(node.output)} = "
            yield f"{head}{self._composite(node.op, node.inputs)} {{"
            yield from inside
            yield f"{self._indent}}}" + (f" at {quoted(node.origin)}" if node.origin else "")

    def constants(self, values: Values) -> Iterator[str]:
        for value in values:
            if value.data is not None and self._known(value.name) != value:
                data = self._table.data(value.data, value.type)
                yield f"{self._indent}constant {self._declare(value)} = {data}"

    def use(self, value: Value) -> str:
        self._check(value)
        return self._labels(value.name)

    def _check(self, value: Value) -> None:
        """Raises InternalError if the name of a value is declared for another value."""
        if self._known(value.name) != value:
            raise _ambiguous(value.name)

    def _known(self, name: str) -> Value | None:
        return self._declared.get(name) or self._outside.get(name)

    def _declare(self, value: Value) -> str:
        if value.name in self._declared:
            raise _ambiguous(value.name)
        self._declared[value.name] = value
        return _declaration(value, self._labels, self._table)

    def _composite(self, op: Composite, inputs: Values) -> str:
        """The head of a composite; an input is printed as `outside as inside` if its names
        differ."""
        operands = (
            self._labels(value.name) + ("" if value.name == name else f" as {self._labels(name)}")
            for value, name in zip(inputs, op.inputs, strict=True)
        )
        text = f"composite {name_or_string(op.name)}({', '.join(operands)})"
        text += f" on {name_or_string(op.engine)}"
        told = (f"{name_or_string(n)}={attribute(x, self._table)}" for n, x in op.attributes)
        return f"{text} with ({', '.join(told)})" if op.attributes else text

    def _inside(self, op: Composite) -> tuple[str, ...]:
        inner = _Scope(self._labels, self._table, self)
        first_reads = {v.name: v for n in reversed(op.nodes) for v in reversed(n.inputs)}
        read = (first_reads[name] for name in op.inputs if name in first_reads)
        renamed = (v for v in read if v.data is None and self._known(v.name) != v)
        return (*map(inner.input, renamed), *inner.nodes(op.nodes))


def _declaration(value: Value, labels: Labels, table: ConstantTable) -> str:
    origin = "" if value.origin is None else f" origin {value.origin}"
    return f"{labels.declaration(value.name)}: {print_type(value.type, table)}{origin}"


def _ambiguous(name: str) -> InternalError:
    return InternalError(
        "text-005",
        f'two values are called "{name}"',
        why="a graph's text refers to values by their names",
    )
