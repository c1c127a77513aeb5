"""column_bands: the graphs that compute one tensor of a network in bands of columns.

A band is an interval of columns of the tensor, with all rows and channels.  Its graph computes the
band from those columns of other tensors that it needs:

    columns of x  [0 ... 33)    [31 ... 65)    [63 ... 96)        inputs, sections of x
                      |              |              |
                 conv, pool     conv, pool     conv, pool         the same nodes, cropped
                      |              |              |
    columns of y  [0 .. 16)     [16 .. 32)     [32 .. 48)         outputs, sections of y

Neighbouring bands both compute the columns between them that both need (the halo), unless each band
keeps them for the next one.  Then the graph of a band reads the kept columns of a tensor as an
input, moves them, and computes only the others:

    kept columns of t (input) --- Slice -------+
                                               +-- Concatenation --- columns of t that are read
    columns of s ---------------- conv, .. ----+

The results of the Slice and of the node are stored in the result of the concatenation.  Consecutive
bands whose graphs differ only in the position of their columns share one graph.

Source: the stripes of TVM's RFC 0037 (cascading scheduler), along columns and recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Node, Value, Values, computes, free_name
from penstock.ir.op import Croppable
from penstock.ir.tensor import COLUMNS, IMAGE_RANK, Interval, TensorType
from penstock.ops.concatenation import Concatenation
from penstock.ops.slice import part
from penstock.scheduling.bands.columns import (
    Location,
    Span,
    Spans,
    add_reads,
    column_reads,
    kept_spans,
    locations,
    with_columns,
)


@frozen
class Columns:
    """Some columns of a tensor: its name, and the index of the first of them."""

    tensor: str
    first: int


@frozen(repr=False)
class BandGraph(Brief):
    """The graph of consecutive bands that differ only in the position of their columns.

    graph: computes the first of the bands.  All its values are columns of tensors of the network.
    tensors, first_columns, steps: for each variable of `graph`, the tensor of the network that
        contains it, the column at which it begins there in the first band, and the number of
        columns from one band to the next.
    in_place: the values that are stored as columns of other values of `graph`.
    uncomputed: names of the nodes whose inputs or outputs are stored in place.
    kept: the values that are stored in memory that all bands share.
    """

    graph: Graph
    tensors: Values
    first_columns: tuple[int, ...]
    steps: tuple[int, ...]
    in_place: Mapping[str, Columns]
    uncomputed: frozenset[str]
    kept: Mapping[str, Columns] = field(default_factory=dict[str, Columns])
    count: int = 1

    @property
    def inputs(self) -> Values:
        # kept columns have been computed by an earlier band
        return tuple(v for v in self.graph.inputs if self._place(v.name) not in self.kept)

    def _place(self, value: str) -> str:
        return self.in_place[value].tensor if value in self.in_place else value


def column_bands(
    name: str,
    nodes: Sequence[Node],
    width: int,
    taken: frozenset[str],
    *,
    keeps_halos: bool = False,
) -> tuple[BandGraph, ...] | None:
    """The graphs that compute the output of the last node in bands of `width` columns, in order.

    nodes: in topological order.  Only the output of the last one is read by other nodes.
    taken: names that the values of the graphs must not have.
    keeps_halos: whether each band keeps the columns that the next one needs, too.

    None if a node cannot compute some columns by itself, or if columns cannot be kept.
    """
    output = nodes[-1].output
    if output.rank != IMAGE_RANK:
        return None
    columns = output.shape[COLUMNS]
    intervals = [(lower, min(lower + width, columns)) for lower in range(0, columns, width)]
    if keeps_halos:
        spans = _kept_spans(nodes, columns, width)
        places = _locations(nodes, spans or ())
    else:
        spans = [_recomputed(nodes, interval) for interval in intervals]
        places = [dict[str, Location]()] * len(intervals)
    if spans is None:
        return None
    found: list[BandGraph] = []
    for interval, some, where in zip(intervals, spans, places, strict=True):
        band = None if some is None else _band_graph(name, nodes, interval, some, where, taken)
        if band is None:
            return None
        found.append(band)
    return tuple(_shared(found))


def single_node_band(node: Node, columns: Interval) -> BandGraph | None:
    """The graph that computes some columns of a node's output; None if there is none."""
    spans = _recomputed([node], columns)
    return (
        None if spans is None else _band_graph(node.name, [node], columns, spans, {}, frozenset())
    )


def _kept_spans(nodes: Sequence[Node], columns: int, width: int) -> Sequence[Spans] | None:
    made = {node.name: node for node in nodes}
    if any(node.output.rank != IMAGE_RANK for node in nodes):
        return None

    def needs(name: str, interval: Interval) -> Sequence[tuple[str, Interval]] | None:
        reads = column_reads(made[name], interval)
        return None if reads is None else [read for read in reads if read[0] in made]

    numbers = range(-(-columns // width))
    return kept_spans(tuple(made), columns, width, numbers, needs)


def _locations(nodes: Sequence[Node], spans: Sequence[Spans]) -> Sequence[Mapping[str, Location]]:
    found: list[dict[str, Location]] = [{} for _ in spans]
    for name in (node.name for node in nodes[:-1]):
        held = [(k, band[name]) for k, band in enumerate(spans) if name in band]
        if not any(span.kept for _, span in held):
            continue
        where = locations([span for _, span in held])
        for (k, _), location in zip(held, where, strict=True):
            found[k][name] = location
    return found


def _shared(bands: Sequence[BandGraph]) -> Iterator[BandGraph]:
    waiting = bands[0]
    for band in bands[1:]:
        joined = _joined(waiting, band)
        if joined is None:
            yield waiting
        waiting = joined or band
    yield waiting


def _joined(waiting: BandGraph, band: BandGraph) -> BandGraph | None:
    """Consecutive bands and the next one as one; None if they do not share a graph."""
    if not _same_graph(band, waiting):
        return None
    # in the first `waiting.count` bands, a section moves by the same number of columns each time
    pairs = list(zip(band.first_columns, waiting.first_columns, strict=True))
    steps = tuple((b - a) // waiting.count for b, a in pairs)
    evenly = all(b - a == step * waiting.count for (b, a), step in zip(pairs, steps, strict=True))
    if not evenly or (waiting.count > 1 and steps != waiting.steps):
        return None
    return replace(waiting, steps=steps, count=waiting.count + 1)


def _same_graph(one: BandGraph, other: BandGraph) -> bool:
    """Whether two graphs differ at most in the names of their values, which state columns."""
    kept = [[(kept.tensor, kept.first) for kept in band.kept.values()] for band in (one, other)]
    if kept[0] != kept[1]:
        return False
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


def _recomputed(nodes: Sequence[Node], columns: Interval) -> Spans | None:
    """What the nodes must compute for some columns of the last node's output."""
    wanted = {nodes[-1].name: columns}
    for node in reversed(nodes):
        if node.name not in wanted or node.output.rank != IMAGE_RANK:
            return None
        reads = column_reads(node, wanted[node.name])
        if reads is None:
            return None
        add_reads(reads, wanted)
    made = {node.name for node in nodes}
    return {n: Span(lower, lower, upper) for n, (lower, upper) in wanted.items() if n in made}


def _band_graph(
    name: str,
    nodes: Sequence[Node],
    columns: Interval,
    spans: Spans,
    places: Mapping[str, Location],
    taken: frozenset[str],
) -> BandGraph | None:
    wanted = _wanted(nodes, spans)
    if wanted is None:
        return None
    writer = _Writer(spans, places, wanted, columns, taken)
    if not all(writer.write(node) for node in nodes if node.name in spans):
        return None
    made = {node.name for node in nodes}
    outer = [v for n in nodes for v in n.variable_inputs if v.name not in made]
    read = (writer.values[v.name] for v in outer if v.name in writer.values)
    inputs = tuple({value.name: value for value in (*read, *writer.inputs)}.values())
    output = writer.values[nodes[-1].name]
    graph = Graph(name, inputs, (output,), tuple(writer.nodes))
    ends = [writer.ends[value.name] for value in graph.variables()]
    tensors, firsts = (tuple(column) for column in zip(*ends, strict=True))
    steps = (0,) * len(tensors)
    uncomputed = frozenset(writer.uncomputed)
    return BandGraph(graph, tensors, firsts, steps, writer.in_place, uncomputed, writer.kept)


def _wanted(nodes: Sequence[Node], spans: Spans) -> Mapping[str, Interval] | None:
    wanted: dict[str, Interval] = {}
    for node in nodes:
        span = spans.get(node.name)
        if span is not None and span.computed:
            reads = column_reads(node, (span.begin, span.upper))
            if reads is None:
                return None
            add_reads(reads, wanted)
    return wanted | {name: (span.lower, span.upper) for name, span in spans.items()}


@dataclass(slots=True)
class _Writer:
    """Writes the nodes of a band."""

    spans: Spans  # of the tensors that nodes compute
    places: Mapping[str, Location]  # of tensors that are kept
    wanted: Mapping[str, Interval]  # columns that the band holds or reads, of all tensors
    columns: Interval  # of the band
    taken: frozenset[str]
    values: dict[str, Value] = field(default_factory=dict[str, Value])  # sections, by tensor
    nodes: list[Node] = field(default_factory=list[Node])
    inputs: list[Value] = field(default_factory=list[Value])  # computed by earlier bands
    # by section: its tensor, and the column at which it begins there
    ends: dict[str, tuple[Value, int]] = field(default_factory=dict[str, tuple[Value, int]])
    in_place: dict[str, Columns] = field(default_factory=dict[str, Columns])
    uncomputed: set[str] = field(default_factory=set[str])
    kept: dict[str, Columns] = field(default_factory=dict[str, Columns])

    def write(self, node: Node) -> bool:
        """Append a node for the columns to compute; False if it has no cropped form."""
        span, place = self.spans[node.name], self.places.get(node.name)
        whole = self._section(node.output, (span.lower, span.upper))
        if place is not None:
            self.kept[whole.name] = Columns(node.name, place.position)
        self.values[node.name] = whole
        if not span.computed:
            self.inputs.append(whole)
            return True
        op = node.op
        out = with_columns(node.output.type, (span.begin, span.upper))
        cropped = op.cropped(node.site, out) if isinstance(op, Croppable) else None
        if cropped is None:
            return False
        needs = node.op.needs(node.site, out)
        inputs = tuple(
            value if value.data is not None else self._read(value, need.intervals[COLUMNS])
            for value, need in zip(node.inputs, needs, strict=True)
        )
        output = whole
        if span.kept:
            output = self._section(node.output, (span.begin, span.upper))
            self.in_place[output.name] = Columns(whole.name, span.kept)
        if not computes(cropped, (value.type for value in inputs), output.shape):
            return False
        before = self._moved(node, span, whole) if span.kept else ()
        self.nodes.append(Node(cropped, inputs, output, node.origin))
        if before:
            self.nodes.append(Node(Concatenation(COLUMNS), (*before, output), whole))
            self.uncomputed.add(whole.name)
        return True

    def _moved(self, node: Node, span: Span, whole: Value) -> Values:
        """The kept columns of a node's output, moved to the begin of `whole`, which is read."""
        # The moves come before the node, whose columns may be stored where the kept ones were.
        moves = self.places[node.name].moves(span)
        if not moves:
            before = self._section(node.output, (span.lower, span.begin))
            self.inputs.append(before)
            self.in_place[before.name] = Columns(whole.name, 0)
            return (before,)
        return tuple(self._move(node, columns, span, whole) for columns in moves)

    def _move(self, node: Node, columns: Interval, span: Span, whole: Value) -> Value:
        source, position = self.places[node.name].source, columns[0] - span.lower
        assert source is not None
        before = self._section(node.output, columns, " kept")
        self.inputs.append(before)
        self.kept[before.name] = Columns(node.name, source + position)
        after = self._section(node.output, columns)
        op = part((0,) * IMAGE_RANK, after.shape)
        self.nodes.append(Node(op, (before,), after, node.origin))
        self.in_place[after.name] = Columns(whole.name, position)
        return after

    def _read(self, value: Value, columns: Interval) -> Value:
        if value.name not in self.values:
            self.values[value.name] = self._section(value, self.wanted[value.name])
        whole, wanted = self.values[value.name], self.wanted[value.name]
        if columns == wanted:
            return whole
        section = self._section(value, columns)
        if section.name not in self.in_place:
            start = (0, 0, columns[0] - wanted[0], 0)
            self.nodes.append(Node(part(start, section.shape), (whole,), section))
            self.in_place[section.name] = Columns(whole.name, start[COLUMNS])
            self.uncomputed.add(section.name)
        return section

    def _section(self, value: Value, columns: Interval, suffix: str = "") -> Value:
        """A value for columns of a tensor; `suffix` tells it from another one for the same."""
        shape = with_columns(value.type, columns).shape
        (lower, upper), (first, end) = self.columns, columns
        name = free_name(f"{value.name}[{first}:{end}] of [{lower}:{upper}]{suffix}", self.taken)
        self.ends[name] = value, first
        return Value(name, value.type.with_shape(shape))


def column_bytes(type: TensorType) -> int:
    return type.shape[-1] * type.dtype.size_bytes
