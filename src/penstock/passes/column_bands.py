"""column_bands: the graphs that compute one tensor of a network in bands of columns.

A band is an interval of columns of the tensor, with all rows and channels.  Its graph computes the
band from those columns of other tensors that it needs:

    columns of x  [0 ... 33)    [31 ... 65)    [63 ... 96)        inputs, sections of x
                      |              |              |
                 conv, pool     conv, pool     conv, pool         the same nodes, cropped
                      |              |              |
    columns of y  [0 .. 16)     [16 .. 32)     [32 .. 48)         outputs, sections of y

Neighbouring bands both compute the columns between them that both need (the halo).  Consecutive
bands whose graphs differ only in the position of their columns share one graph.

Source: the stripes of TVM's RFC 0037 (cascading scheduler), along columns and recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.brief import Brief
from penstock.errors import ModelError
from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.op import Croppable, Op
from penstock.ir.region import Interval, Region
from penstock.ops.slice import Slice

RANK = 4
COLUMNS = 2
"""The tensors in bands have the shape (N, H, W, C); this is the index of W."""


@dataclass(frozen=True, slots=True, repr=False)
class BandGraph(Brief):
    """The graph of consecutive bands that differ only in the position of their columns.

    graph: computes the first of the bands.  All its values are sections, that is, columns, of
        tensors of the network.
    tensors: for each variable of `graph`, the tensor of the network that contains it.
    first_columns: for each variable, the column of the tensor at which it begins in the first band.
    steps: for each variable, number of columns from one band to the next.
    in_place: names of the values of `graph` that are columns of other values of `graph`, where they
        stay.
    count: number of bands.
    """

    graph: Graph
    tensors: tuple[Value, ...]
    first_columns: tuple[int, ...]
    steps: tuple[int, ...]
    in_place: frozenset[str]
    count: int = 1


def column_bands(
    name: str, nodes: Sequence[Node], width: int, taken: frozenset[str]
) -> tuple[BandGraph, ...] | None:
    """Return the graphs that compute the output of the last node in bands of columns, in order.

    name: name of the graphs.
    nodes: in topological order.  Only the output of the last one is read by other nodes.
    width: number of columns of each band; the last one may have fewer.
    taken: names that the values of the graphs must not have.

    Returns None if a node cannot compute some columns by itself.
    """
    output = nodes[-1].output
    if output.type.rank != RANK:
        return None
    columns = output.type.shape[COLUMNS]
    found: list[BandGraph] = []
    for lower in range(0, columns, width):
        band = _band_graph(name, nodes, (lower, min(lower + width, columns)), taken)
        if band is None:
            return None
        found.append(band)
    return tuple(_shared(found))


def _shared(bands: Sequence[BandGraph]) -> Iterator[BandGraph]:
    """Yield the bands, each sequence of equal graphs at constant distances as one."""
    waiting = bands[0]
    for band in bands[1:]:
        joined = _joined(waiting, band)
        if joined is None:
            yield waiting
        waiting = joined or band
    yield waiting


def _joined(waiting: BandGraph, band: BandGraph) -> BandGraph | None:
    """Return consecutive bands and the next one as one; None if they do not share a graph."""
    if not _same_graph(band, waiting):
        return None
    pairs = list(zip(band.first_columns, waiting.first_columns, strict=True))
    steps = tuple((b - a) // waiting.count for b, a in pairs)
    evenly = all(b - a == step * waiting.count for (b, a), step in zip(pairs, steps, strict=True))
    if not evenly or (waiting.count > 1 and steps != waiting.steps):
        return None
    return replace(waiting, steps=steps, count=waiting.count + 1)


def _same_graph(one: BandGraph, other: BandGraph) -> bool:
    """Return whether two graphs differ in the names of their values at most."""
    numbers = [
        {value.name: k for k, value in enumerate(band.graph.variables())} for band in (one, other)
    ]
    forms = [
        [
            (node.op, node.output.type, [number.get(v.name, v) for v in node.inputs])
            for node in band.graph.nodes
        ]
        for band, number in zip((one, other), numbers, strict=True)
    ]
    inputs = [[value.type for value in band.graph.inputs] for band in (one, other)]
    return forms[0] == forms[1] and inputs[0] == inputs[1]


def _band_graph(
    name: str, nodes: Sequence[Node], columns: Interval, taken: frozenset[str]
) -> BandGraph | None:
    """Return the graph of a single band; None if a node cannot compute some columns by itself."""
    wanted = _wanted(nodes, columns)
    if wanted is None:
        return None
    writer = _Writer(wanted, columns, taken)
    if not all(map(writer.write, nodes)):
        return None
    made = {node.name for node in nodes}
    outer = [v for n in nodes for v in n.variable_inputs if v.name not in made]
    inputs = tuple({value.name: writer.values[value.name] for value in outer}.values())
    output = writer.values[nodes[-1].name]
    graph = Graph(name, inputs, (output,), tuple(writer.nodes))
    places = [writer.places[value.name] for value in graph.variables()]
    tensors, firsts = (tuple(column) for column in zip(*places, strict=True))
    return BandGraph(graph, tensors, firsts, (0,) * len(tensors), frozenset(writer.in_place))


def _wanted(nodes: Sequence[Node], columns: Interval) -> Mapping[str, Interval] | None:
    """Return the columns of each tensor that are needed for some columns of the last node's output.

    Where several nodes read a tensor, the smallest interval that contains what they read.  None if
    a tensor is no (N, H, W, C), if nothing of it is needed, or if a constant operand has columns.
    """
    wanted = {nodes[-1].name: columns}
    for node in reversed(nodes):
        if node.name not in wanted or node.output.type.rank != RANK:
            return None
        out = _region(node.output, wanted[node.name])
        for value, need in zip(node.inputs, node.op.needs(node.site, out), strict=True):
            whole = need == Region.whole(value.type.shape)
            if value.data is not None:
                if not whole:
                    return None
                continue
            if value.type.rank != RANK or need.empty:
                return None
            lower, upper = need.intervals[COLUMNS]
            before = wanted.get(value.name, (lower, upper))
            wanted[value.name] = (min(before[0], lower), max(before[1], upper))
    return wanted


def _region(value: Value, columns: Interval) -> Region:
    return Region.whole(value.type.shape).replace(COLUMNS, columns)


@dataclass(slots=True)
class _Writer:
    """Writes the nodes of a band.

    wanted: the columns that the band computes or reads of each tensor of the network, by name.
    columns: the columns of the band.
    taken: names that must not be used.
    values: the section of each tensor of the network, by its name.
    places: for each section, its tensor and the column at which it begins there, by its name.
    in_place: names of the sections that are columns of another section.
    """

    wanted: Mapping[str, Interval]
    columns: Interval
    taken: frozenset[str]
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    nodes: list[Node] = field(default_factory=list[Node])
    places: dict[str, tuple[Value, int]] = field(default_factory=dict[str, tuple[Value, int]])
    in_place: list[str] = field(default_factory=list[str])

    def write(self, node: Node) -> bool:
        """Append the node for the columns that are wanted; False if it has no cropped form."""
        op = node.op
        out = _region(node.output, self.wanted[node.name])
        cropped = op.cropped(node.site, out) if isinstance(op, Croppable) else None
        if cropped is None:
            return False
        needs = node.op.needs(node.site, out)
        inputs = tuple(
            value if value.data is not None else self._read(value, need.intervals[COLUMNS])
            for value, need in zip(node.inputs, needs, strict=True)
        )
        output = self._section(node.output, self.wanted[node.name])
        if not _fits(cropped, inputs, output):
            return False
        self.values[node.name] = output
        self.nodes.append(Node(cropped, inputs, output, node.origin))
        return True

    def _read(self, value: Value, columns: Interval) -> Value:
        """Return the columns of a tensor that a node reads."""
        if value.name not in self.values:
            self.values[value.name] = self._section(value, self.wanted[value.name])
        whole, wanted = self.values[value.name], self.wanted[value.name]
        if columns == wanted:
            return whole
        section = self._section(value, columns)
        if section.name not in self.in_place:
            start = (0, 0, columns[0] - wanted[0], 0)
            op = Slice(start, section.type.shape, (1,) * RANK)
            self.nodes.append(Node(op, (whole,), section))
            self.in_place.append(section.name)
        return section

    def _section(self, value: Value, columns: Interval) -> Value:
        """Return a value for some columns of a tensor."""
        shape = _region(value, columns).shape
        (lower, upper), (first, end) = self.columns, columns
        name = free_name(f"{value.name}[{first}:{end}] of [{lower}:{upper}]", self.taken)
        self.places[name] = value, first
        return Value(name, value.type.with_shape(shape))


def _fits(op: Op, inputs: Sequence[Value], output: Value) -> bool:
    """Return whether an operator computes an output of this shape from these inputs."""
    try:
        return op.result_type(tuple(v.type for v in inputs)).shape == output.type.shape
    except ModelError:
        return False


def first_byte(band: BandGraph, section: str) -> int:
    """Return the byte of a row of the sectioned value at which the rows of a section begin."""
    node = band.graph.producers()[section]
    assert isinstance(node.op, Slice)
    _, _, _, channels = node.inputs[0].type.shape
    return node.op.start[COLUMNS] * channels * node.output.type.dtype.size_bytes
