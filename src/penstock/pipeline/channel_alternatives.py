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
excludes most pairs of a depthwise and a pointwise layer.  For the others, the least memory of the
network in cascades row by row tells which groups lower it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.ir.graph import Graph
from penstock.ir.op import row_count
from penstock.ir.tensor import DType
from penstock.passes.channel_groups import HiddenChain, group_channels, hidden_chains
from penstock.scheduling.cascades.least_memory import RowPeak, least_row_peak
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import Options

LARGE_COUNTS = (8, 32)
"""Numbers of groups to try where a hidden row is more than half of the memory of any schedule."""
COUNTS = (2, 4, 8, 32)
"""Numbers of groups to try where groups lower the least memory of cascades row by row."""
TRIED_COUNT = 8
"""The number of groups with which chains are selected."""

Groups = Mapping[str, int]
"""Numbers of groups, by name of the chain."""


def grouped_graphs(
    graph: Graph, parts: Parts, estimated: Callable[[Graph], Parts], options: Options
) -> Iterator[tuple[Graph, int | None]]:
    """Yield graphs that may need less memory than `graph`, since hidden channels are grouped.

    Each comes with its `Parts.least_row_bytes`.

    parts: those of `graph`.
    estimated: returns the parts of a graph, with kernels that may differ from those of `parts`.
    """
    chains = hidden_chains(graph)
    large = _disjoint([c for c in chains if 2 * c.row_bytes > parts.rows.least_bytes])
    found = [_groups(large, count) for count in LARGE_COUNTS] if large else []
    for groups in found:
        yield group_channels(graph, groups), None
    for groups, least_bytes in _needed(graph, parts, chains, estimated, options):
        if groups not in found:
            yield group_channels(graph, groups), least_bytes


def _groups(chains: Sequence[HiddenChain], count: int) -> Groups:
    return {chain.name: min(count, chain.channels) for chain in chains}


def _needed(
    graph: Graph,
    parts: Parts,
    chains: Sequence[HiddenChain],
    estimated: Callable[[Graph], Parts],
    options: Options,
) -> Iterator[tuple[Groups, int]]:
    """Yield groups of the chains that determine the least memory of cascades row by row.

    Each comes with the least live bytes of such cascades.  Chains are grouped one by one, each time
    the chain that runs at the peak.  Numbers of groups are yielded while they lower the least
    memory.
    """
    paying = _disjoint(_paying(parts, chains))
    whole = least_row_peak(parts, options) if paying else None
    if whole is None:
        return

    def peak(chosen: Sequence[HiddenChain], count: int, limit_bytes: int) -> RowPeak | None:
        changed = group_channels(graph, _groups(chosen, count))
        return least_row_peak(estimated(changed), options, limit_bytes)

    least = whole.live_bytes
    tried, needed = list[HiddenChain](), list[HiddenChain]()
    found: RowPeak | None = whole
    while found is not None:
        critical = next((c for c in paying if c not in tried and found.part in _names(c)), None)
        if critical is None:
            break
        tried.append(critical)
        found = peak(tried, TRIED_COUNT, least + 1)
        if found is not None and found.live_bytes < least:
            least, needed = found.live_bytes, list(tried)
    least = whole.live_bytes
    counts = COUNTS if needed else COUNTS[:1] if tried else ()
    for count in counts:
        found = peak(needed or tried, count, least)
        if found is not None:
            least = found.live_bytes
            yield _groups(needed or tried, count), least


def _paying(parts: Parts, chains: Sequence[HiddenChain]) -> Iterator[HiddenChain]:
    """Yield the chains of which some layer needs larger rows than a row of sums, largest first."""
    index = {part.name: k for k, part in enumerate(parts.parts)}

    def most_bytes(chain: HiddenChain) -> int:
        return max(parts.rows.row_bytes(index[name]) for name in _names(chain) & index.keys())

    needs = [(most_bytes(chain), chain) for chain in chains]
    for need, chain in sorted(needs, key=lambda pair: -pair[0]):
        outputs = chain.last.output.type
        sums = outputs.elements // row_count(outputs.shape) * DType.INT32.size_bytes
        if need > sums:
            yield chain


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
