"""Graph: the computation as nodes in topological order, with typed values between them.

All records but `GraphWriter` are frozen.  A value is identified by its name, which is unique in a
graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from penstock.brief import Brief
from penstock.errors import ModelError
from penstock.frozen import frozen
from penstock.ir.op import Op, Site, Work
from penstock.ir.tensor import (
    Array,
    Data,
    DType,
    Quantisation,
    Region,
    TensorType,
    row_axis,
    row_count,
)


@frozen(repr=False)
class Value(Brief):
    """A tensor: a constant if it has `data`, else an input or the result of a node.

    origin: index of the tensor in the model file, by which results are compared with ground truth;
        None for a tensor that the compiler has added.
    """

    name: str
    type: TensorType
    data: Data | None = None
    origin: int | None = None

    @staticmethod
    def constant(name: str, elements: Array, quantisation: Quantisation | None = None) -> Value:
        """The constant of these elements."""
        type = TensorType(elements.shape, DType(elements.dtype.name), quantisation)
        return Value(name, type, Data.of(elements))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def rank(self) -> int:
        return self.type.rank

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def elements(self) -> int:
        return self.type.elements

    @property
    def quantisation(self) -> Quantisation | None:
        return self.type.quantisation

    @property
    def scale(self) -> float:
        return self.type.scale

    @property
    def zero_point(self) -> int:
        return self.type.zero_point

    def with_shape(self, shape: tuple[int, ...]) -> Value:
        """The tensor with another shape."""
        return replace(self, type=self.type.with_shape(shape))

    def shaped(self, name: str, shape: tuple[int, ...]) -> Value:
        """A computed tensor of this type, but for its shape."""
        return Value(name, self.type.with_shape(shape))

    @property
    def array(self) -> Array:
        """The elements of a constant."""
        assert self.data is not None, self.name
        return self.data.array(self.type)

    def section(self, region: Region, name: str) -> Value:
        """A region of a constant, under this name unless it is the whole constant."""
        if region == Region.whole(self.type.shape):
            return self
        elements = self.array[region.slices]
        return Value(name, self.type.of_region(region), Data.of(elements))


Values = tuple[Value, ...]


def result_of(op: Op, inputs: Sequence[Value]) -> TensorType:
    """The type, without quantisation, of what an operator computes from values."""
    return op.result_type(tuple(value.type for value in inputs))


def computes(op: Op, inputs: Iterable[TensorType], shape: tuple[int, ...]) -> bool:
    """Whether an operator on inputs of these types has an output of that shape."""
    try:
        return op.result_type(tuple(inputs)).shape == shape
    except ModelError:
        return False


@frozen(repr=False)
class Node(Brief):
    """An operator with its inputs and its output.

    The name of a node is that of its output.  `origin` describes its location in the model file for
    messages and reports."""

    op: Op
    inputs: Values
    output: Value
    origin: str = ""

    @property
    def name(self) -> str:
        return self.output.name

    @property
    def kind(self) -> str:
        """The name of the operator; for a composite, of the pattern that matched it."""
        return self.op.kind

    @property
    def site(self) -> Site:
        return Site(
            tuple(v.type for v in self.inputs),
            self.output.type,
            tuple(v.data for v in self.inputs),
        )

    def reads(self, out: Region) -> Iterator[tuple[Value, Region]]:
        """The inputs, each with the region of it that a region of the output reads."""
        return zip(self.inputs, self.op.needs(self.site, out), strict=True)

    def reading(self, others: Mapping[str, Value]) -> Node:
        """The node that reads other values in place of those of these names."""
        return replace(self, inputs=tuple(others.get(v.name, v) for v in self.inputs))

    @property
    def variable_inputs(self) -> Values:
        """Inputs that are not constant."""
        return tuple(v for v in self.inputs if v.data is None)


@frozen(repr=False)
class State(Brief):
    """A tensor that keeps its elements from one run to the next.

    initial: its elements before the first run, and after a reset.
    update: copies the new elements to the state at the end of a run, after all nodes; its only
        input is the new tensor, its output the state.
    """

    initial: Data
    update: Node

    @property
    def before(self) -> Value:
        """The state during a run, as nodes read it."""
        return self.update.output

    @property
    def after(self) -> Value:
        """The tensor whose elements the state has after a run."""
        return self.update.inputs[0]


@frozen(repr=False)
class QueueSection(Brief):
    """A tensor whose elements are part of the window of a queue, where they stay.

    first_row: row of the window that contains row 0 of the tensor.
    first_byte: byte of such a row at which the row of the tensor begins.
    """

    value: Value
    first_row: int
    first_byte: int


@frozen(repr=False)
class Queue(Brief):
    """The last rows of a sequence, to which each run appends new ones.

    initial: the rows kept before the first run, and after a reset.
    before: the rows kept from the previous run.
    window: these rows, followed by the new ones.  Its node has both as inputs, in this order, and
        concatenates them along the row axis.  The last rows of the window are kept for the next
        run: as many as `before` has.
    sections: tensors that are read from the window directly, without a copy.
    """

    initial: Data
    before: Value
    window: Value
    sections: tuple[QueueSection, ...] = ()

    @property
    def views(self) -> Values:
        """The tensors that are read from the window directly: the window itself, and sections."""
        return (self.window, *(section.value for section in self.sections))

    @property
    def kept_rows(self) -> int:
        """Number of rows that are kept from run to run."""
        return row_count(self.before.type.shape)

    @property
    def rows(self) -> int:
        """Number of rows of the window."""
        return row_count(self.window.type.shape)

    @property
    def new_rows(self) -> int:
        """Number of rows that each run appends."""
        return self.rows - self.kept_rows

    @property
    def kept_region(self) -> Region:
        """The region of the window that is kept for the next run."""
        whole = Region.whole(self.window.type.shape)
        axis = row_axis(self.window.type.rank)
        return whole.replace(axis, (self.new_rows, self.rows))


@frozen(repr=False)
class Graph(Brief):
    """A network: inputs, outputs, nodes in topological order, states and queues.

    orders: by name, inputs and outputs whose axes are in another order than in the model file: axis
        a is axis order[a] of the file.  Nothing depends on it but what users are told."""

    name: str
    inputs: Values
    outputs: Values
    nodes: tuple[Node, ...]
    states: tuple[State, ...] = ()
    queues: tuple[Queue, ...] = ()
    orders: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def kept(self) -> Values:
        """The values that one run leaves to the next, as they are when a run begins: states, then
        queues."""
        return (*(s.before for s in self.states), *(q.before for q in self.queues))

    @property
    def sources(self) -> Values:
        """The values that exist when a run begins: inputs, then states and queues."""
        return (*self.inputs, *self.kept)

    @property
    def results(self) -> Values:
        """The values that must exist when all nodes have run: outputs, the new elements of states
        and the windows of queues, and what these replace; each value once."""
        after = (*(s.after for s in self.states), *(q.window for q in self.queues))
        every = (*self.outputs, *after, *self.kept)
        return tuple({value.name: value for value in every}.values())

    def producers(self) -> Mapping[str, Node]:
        """The node that computes each value, by name."""
        return {node.output.name: node for node in self.nodes}

    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each value, in order, by its name; unread values are absent."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(v.name for v in node.inputs):
                found.setdefault(value, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    def variables(self) -> Values:
        """The graph's inputs, states and queues, then the result of each node in order."""
        return (*self.sources, *(node.output for node in self.nodes))

    def constants(self) -> Values:
        """Constants that nodes read, each once, in order of first use."""
        every = (v for node in self.nodes for v in node.inputs if v.data is not None)
        return tuple({v.name: v for v in every}.values())

    def names(self) -> frozenset[str]:
        """Names of all values, including values inside composites."""
        operands = (v for node in self.nodes for v in (*node.inputs, node.output))
        inside = (node.op.inner_names() for node in self.nodes)
        return frozenset(v.name for v in (*self.sources, *self.results, *operands)).union(*inside)

    def macs(self) -> int:
        """Multiply-accumulates of one inference; taps on padding are included."""
        return sum(whole_work(node).macs for node in self.nodes)

    def with_nodes(self, nodes: tuple[Node, ...]) -> Graph:
        return replace(self, nodes=nodes)


def free_name(name: str, taken: Collection[str]) -> str:
    """`name` if it is not one of `taken`, else `name` with a number appended.

    >>> free_name("y", {"x"}), free_name("x", {"x", "x#2"})
    ('y', 'x#3')
    """
    if name not in taken:
        return name
    return next(free for k in count(2) if (free := f"{name}#{k}") not in taken)


def whole_work(node: Node) -> Work:
    """The work of computing all of a node's output."""
    return node.op.work(node.site, Region.whole(node.output.type.shape))


@dataclass(slots=True)
class GraphWriter:
    """A graph that is rewritten node by node.

    nodes: those that are written.
    taken: the names of all values, those of `before` included."""

    before: Graph
    nodes: list[Node] = field(default_factory=list[Node], init=False)
    taken: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.taken = set(self.before.names())

    def fresh(self, wanted: str) -> str:
        """A name that no value has, and that is taken from now on."""
        name = free_name(wanted, self.taken)
        self.taken.add(name)
        return name

    def append(self, op: Op, inputs: Values, output: Value, origin: str = "") -> Value:
        """Write a node; returns its output."""
        self.nodes.append(Node(op, inputs, output, origin))
        return output
