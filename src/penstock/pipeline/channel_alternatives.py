"""Alternative graphs in which some hidden channels are computed in groups.

Groups lower the memory of a hidden chain (`passes/channel_groups.py`) in two ways:

- One after the other: each group is a cascade of its own.  Then the hidden rows of a single group
  are live, but the input of the chain and all of its int32 sums are whole.
- Row by row, all groups in one cascade: between two rows, the hidden rows that the next one reads
  again are live in all groups: k - s of them for windows of k rows and stride s.  While a row is
  computed, a single group needs more: its other hidden rows, and its row of the next tensor.
  Besides, one row of int32 sums is live, and s rows of the input.

In both cases, at least a row of sums is live when the last layer runs.  So groups cannot lower the
memory of a chain if the rows that any of its layers needs are no larger than a row of sums; this
excludes most pairs of a depthwise and a pointwise layer.  Nor can they lower the memory of the
network if it is no larger than the memory of the last group's first layer: the rows that it reads,
and a row of sums or else the hidden rows of all groups; this excludes most classifiers.  For the
others, the least memory of the network in cascades row by row tells which groups lower it.

Below the least memory row by row, chains recompute rows of hidden tensors with less memory than
groups keep them (decision 21).  They cannot recompute what is summed over all rows, such as a
global average of hidden channels before a classifier; there, groups alone help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from penstock.frozen import frozen
from penstock.ir.graph import Graph, Node
from penstock.ir.tensor import DType, row_count
from penstock.passes.channel_groups import HiddenChain, group_channels, hidden_chains
from penstock.scheduling.cascades.rows import RowPeak, least_row_peak
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import Options

COUNTS = (2, 4, 8, 32)
"""Numbers of groups to try where groups lower the least memory."""
TRIED_COUNT = 8
"""The number of groups with which chains are selected."""
SUMMED_COUNT = 4
"""Number of groups of channels that are summed over all rows."""
NEAR_FLOOR = Fraction(5, 4)
"""Up to this multiple of the memory that a chain needs at least, it may limit the network's."""
MOST_SAVED = 3
"""Recomputation lowers the least memory of cascades row by row at most to a fraction of this."""


@frozen
class GroupedGraph:
    """A graph with groups of hidden channels, and a field of its `Parts`."""

    graph: Graph
    least_row_bytes: int | None = None
    floor_bytes: int | None = None


def grouped_graphs(
    graph: Graph, parts: Parts, estimated: Callable[[Graph], Parts], options: Options
) -> Iterator[GroupedGraph]:
    """Yield graphs that may need less memory than `graph`, since hidden channels are grouped.

    parts: those of `graph`.
    estimated: returns the parts of a graph, with kernels that may differ from those of `parts`.
    """
    chains = hidden_chains(graph)
    paying = _paying(parts, chains)
    floors = {c.name: _floor_bytes(parts, c) for c in chains if options.max_recompute > 1}
    whole = least_row_peak(parts, options) if paying or any(floors.values()) else None
    if whole is None:
        return
    grouped: set[str] = set()
    for chosen, count, least_bytes in _row_groups(graph, parts, paying, whole, estimated, options):
        grouped |= {chain.name for chain in chosen}
        yield GroupedGraph(_grouped(graph, chosen, count), least_row_bytes=least_bytes)
    others = [chain for chain in chains if floors.get(chain.name) and chain.name not in grouped]
    for chain in sorted(others, key=lambda c: -floors[c.name])[:1]:
        if MOST_SAVED * floors[chain.name] >= whole.live_bytes:
            summed = _grouped(graph, [chain], SUMMED_COUNT)
            yield GroupedGraph(summed, floor_bytes=floors[chain.name])


def _row_groups(
    graph: Graph,
    parts: Parts,
    paying: Sequence[HiddenChain],
    whole: RowPeak,
    estimated: Callable[[Graph], Parts],
    options: Options,
) -> Iterator[tuple[Sequence[HiddenChain], int, int]]:
    """Yield chains and their number of groups, with the least memory of cascades row by row.

    The chains that determine the least memory are grouped, one by one, each time the chain that
    runs at the peak.  Numbers of groups are yielded while they lower the least memory.

    paying: chains of which groups may need less memory.
    whole: the peak of cascades without groups."""
    least_bytes = whole.live_bytes
    paying = _disjoint([c for c in paying if _least_bytes(parts, c) < least_bytes])

    def peak(chosen: Sequence[HiddenChain], count: int, limit_bytes: int) -> RowPeak | None:
        return least_row_peak(estimated(_grouped(graph, chosen, count)), options, limit_bytes)

    tried, needed = list[HiddenChain](), list[HiddenChain]()
    found: RowPeak | None = whole
    while found is not None:
        critical = next((c for c in paying if c not in tried and found.part in _names(c)), None)
        if critical is None:
            break
        tried.append(critical)
        found = peak(tried, TRIED_COUNT, least_bytes + 1)
        if found is not None and found.live_bytes < least_bytes:
            least_bytes, needed = found.live_bytes, list(tried)
    least_bytes = whole.live_bytes
    for count in COUNTS if needed else _fewest(tried, options):
        found = peak(needed or tried, count, least_bytes)
        if found is not None:
            least_bytes = found.live_bytes
            yield needed or tried, count, least_bytes


def _grouped(graph: Graph, chosen: Sequence[HiddenChain], count: int) -> Graph:
    return group_channels(graph, {chain.name: min(count, chain.channels) for chain in chosen})


def _floor_bytes(parts: Parts, chain: HiddenChain) -> int:
    """Return the memory of a chain that neither bands nor chains of a schedule lower.

    It is the most that a part needs for a row while the sums of the rows before it are live; 0 if
    the chain sums no rows."""
    rows, names = parts.rows, _names(chain)
    sums_bytes, most_bytes = 0, 0
    for k, part in enumerate(parts.parts):
        if part.name in names:
            storages = (rows.storages[read.storage] for read in rows.row_parts[k].reads)
            summed = [storage.size_bytes for storage in storages if storage.accumulates]
            sums_bytes += sum(summed)
            most_bytes = max(most_bytes, 0 if summed else rows.row_bytes(k))
    return sums_bytes and sums_bytes + most_bytes


def _fewest(tried: Sequence[HiddenChain], options: Options) -> Sequence[int]:
    """Return the least number of groups if `TRIED_COUNT` groups are too many parts for a cascade.

    Fewer groups lower the memory only if more of them do not fit a cascade."""
    most_parts = TRIED_COUNT * sum(len(_names(chain)) for chain in tried)
    return COUNTS[:1] if most_parts > options.max_parts else ()


def _paying(parts: Parts, chains: Sequence[HiddenChain]) -> list[HiddenChain]:
    """Return the chains of which some layer needs larger rows than a row of sums, largest first."""
    needs = {chain.name: max(_row_bytes(parts, chain).values()) for chain in chains}
    paying = [chain for chain in chains if needs[chain.name] > _sums_bytes(chain)]
    return sorted(paying, key=lambda chain: -needs[chain.name])


def _least_bytes(parts: Parts, chain: HiddenChain) -> int:
    """Return a lower bound of the memory of any schedule with groups of a chain.

    It is the memory of the last group's first layer when the other groups have computed the same
    row of hidden channels: it reads its input, and each of the other groups has either added its
    products to the sums, or still holds a hidden row."""
    first, hidden = chain.nodes[0], [_output_row_bytes(node) for node in chain.nodes]
    numbers = (k for k, part in enumerate(parts.parts) if part.nodes and part.nodes[0] is first)
    read = sum(parts.rows.row_bytes(k) - hidden[0] for k in numbers)
    return read + min(_sums_bytes(chain), *hidden)


def _row_bytes(parts: Parts, chain: HiddenChain) -> Mapping[str, int]:
    """Return the most bytes that each part of a chain needs to compute a row, by part name."""
    names = _names(chain)
    every = enumerate(parts.parts)
    return {part.name: parts.rows.row_bytes(k) for k, part in every if part.name in names}


def _sums_bytes(chain: HiddenChain) -> int:
    return _output_row_bytes(chain.last) * DType.INT32.size_bytes


def _output_row_bytes(node: Node) -> int:
    type = node.output.type
    return type.size_bytes // row_count(type.shape)


def _disjoint(chains: Sequence[HiddenChain] | Iterator[HiddenChain]) -> list[HiddenChain]:
    """Return chains without common nodes, the first ones first."""
    found: list[HiddenChain] = []
    taken: set[str] = set()
    for chain in chains:
        names = _names(chain)
        if taken.isdisjoint(names):
            taken |= names
            found.append(chain)
    return found


def _names(chain: HiddenChain) -> frozenset[str]:
    return frozenset((*(node.name for node in chain.nodes), chain.name))
