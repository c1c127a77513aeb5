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
from dataclasses import replace

from penstock.ir.columns import COLUMNS, RANK, add_reads, column_reads
from penstock.ir.graph import Node
from penstock.ir.region import Interval
from penstock.passes.band_graph import BandGraph, band_graph
from penstock.scheduling.bands.columns import Location, Span, Spans, kept_spans, locations


def column_bands(
    name: str,
    nodes: Sequence[Node],
    width: int,
    taken: frozenset[str],
    *,
    keeps_halos: bool = False,
) -> tuple[BandGraph, ...] | None:
    """Return the graphs that compute the output of the last node in bands of columns, in order.

    name: name of the graphs.
    nodes: in topological order.  Only the output of the last one is read by other nodes.
    width: number of columns of each band; the last one may have fewer.
    taken: names that the values of the graphs must not have.
    keeps_halos: whether each band keeps the columns that the next one needs, too.

    Returns None if a node cannot compute some columns by itself, or if columns cannot be kept.
    """
    output = nodes[-1].output
    if output.type.rank != RANK:
        return None
    columns = output.type.shape[COLUMNS]
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
        band = None if some is None else band_graph(name, nodes, interval, some, where, taken)
        if band is None:
            return None
        found.append(band)
    return tuple(_shared(found))


def single_node_band(node: Node, columns: Interval) -> BandGraph | None:
    """Return the graph that computes some columns of a node's output; None if it has none."""
    spans = _recomputed([node], columns)
    return None if spans is None else band_graph(node.name, [node], columns, spans, {}, frozenset())


def _kept_spans(nodes: Sequence[Node], columns: int, width: int) -> Sequence[Spans] | None:
    """Return the columns of each tensor in each band, if bands keep their halos.

    columns: number of columns of the last node's output.
    """
    made = {node.name: node for node in nodes}
    if any(node.output.type.rank != RANK for node in nodes):
        return None

    def needs(name: str, interval: Interval) -> Sequence[tuple[str, Interval]] | None:
        reads = column_reads(made[name], interval)
        return None if reads is None else [read for read in reads if read[0] in made]

    numbers = range(-(-columns // width))
    return kept_spans(tuple(made), columns, width, numbers, needs)


def _locations(nodes: Sequence[Node], spans: Sequence[Spans]) -> Sequence[Mapping[str, Location]]:
    """Return, for each band, where it finds the columns of the tensors that are kept.

    spans: the columns of each tensor in each band.
    """
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
    """Return the columns of each tensor that are needed for some columns of the last node's output.

    Where several nodes read a tensor, the smallest interval that contains what they read.  None if
    a node cannot compute some columns by itself.
    """
    wanted = {nodes[-1].name: columns}
    for node in reversed(nodes):
        if node.name not in wanted or node.output.type.rank != RANK:
            return None
        reads = column_reads(node, wanted[node.name])
        if reads is None:
            return None
        add_reads(reads, wanted)
    made = {node.name for node in nodes}
    return {n: Span(lower, lower, upper) for n, (lower, upper) in wanted.items() if n in made}
