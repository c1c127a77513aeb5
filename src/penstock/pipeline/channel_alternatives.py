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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.ir.graph import Graph, Node
from penstock.ir.op import row_count
from penstock.ir.tensor import DType
from penstock.passes.channel_groups import HiddenChain, group_channels, hidden_chains
from penstock.scheduling.cascades.least_memory import RowPeak, least_row_peak
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import Options

COUNTS = (2, 4, 8, 32)
"""Numbers of groups to try where groups lower the least memory."""
TRIED_COUNT = 8
"""The number of groups with which chains are selected."""


def grouped_graphs(
    graph: Graph, parts: Parts, estimated: Callable[[Graph], Parts], options: Options
) -> Iterator[tuple[Graph, int]]:
    """Yield graphs that need less memory than `graph`, since hidden channels are grouped.

    Each comes with its `Parts.least_row_bytes`.  The chains that determine the least memory are
    grouped, one by one, each time the chain that runs at the peak.  Numbers of groups are tried
    while they lower the least memory.

    parts: those of `graph`.
    estimated: returns the parts of a graph, with kernels that may differ from those of `parts`.
    """
    paying = _paying(parts, hidden_chains(graph))
    whole = least_row_peak(parts, options) if paying else None
    if whole is None:
        return
    least_bytes = whole.live_bytes
    paying = _disjoint([c for c in paying if _least_bytes(parts, c) < least_bytes])

    def grouped(chosen: Sequence[HiddenChain], count: int) -> Graph:
        return group_channels(graph, {c.name: min(count, c.channels) for c in chosen})

    def peak(chosen: Sequence[HiddenChain], count: int, limit_bytes: int) -> RowPeak | None:
        return least_row_peak(estimated(grouped(chosen, count)), options, limit_bytes)

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
            yield grouped(needed or tried, count), least_bytes


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
