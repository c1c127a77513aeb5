"""inside: in which order the nodes of a group run, so that the least is live at a time.

    trace_back   the paper's: what frees a tensor that is there; else, step by step, what that waits
                 for
    dfs, bfs     depth first, breadth first
    circular     as given, on NVDLA's circular buffer: each tensor is put behind the one before it
    best         the least peak that is found, with a certificate; never above another's

Source: Zheng et al., IEEE TCAD 39(11), 2020, section 4.3; circular: NVDLA's convolution buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.order import BEAM_WIDTH, OrderOptions, find_order
from penstock.scheduling.step_orders import Heuristic, heuristic_order
from penstock.scheduling.step_table import bits, table_of


@dataclass(frozen=True, slots=True)
class InnerOrder:
    """Nodes of a group in the order in which they run; bytes of buffer that it takes; `bound`:
    proven, no order has less live at a time."""

    order: tuple[int, ...]
    peak_bytes: int
    bound_bytes: int = 0

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no order needs less."""
        return self.peak_bytes == self.bound_bytes

    @property
    def gap(self) -> float:
        """0.0 where proven optimal, else how far the peak is above the bound, as a fraction."""
        return (self.peak_bytes - self.bound_bytes) / max(self.bound_bytes, 1)


def trace_back(problem: GroupingProblem, group: int, max_states: int = 0) -> InnerOrder:
    """The order of the paper."""
    run = _TraceBack(problem, group)
    order: list[int] = []
    while run.left:
        order.append(run.next())
    return inner_order(problem, group, tuple(order))


def dfs(problem: GroupingProblem, group: int, max_states: int = 0) -> InnerOrder:
    """Next, what became ready last."""
    return _by_heuristic(problem, group, Heuristic.DEPTH_FIRST)


def bfs(problem: GroupingProblem, group: int, max_states: int = 0) -> InnerOrder:
    """Next, what became ready first."""
    return _by_heuristic(problem, group, Heuristic.BREADTH_FIRST)


def circular(problem: GroupingProblem, group: int, max_states: int = 0) -> InnerOrder:
    """As given; the peak is the size of the least circular buffer that never runs over what someone
    will still read."""
    order = tuple(bits(group))
    return InnerOrder(order, circular_bytes(problem, group, order))


def best(problem: GroupingProblem, group: int, max_states: int = 20_000) -> InnerOrder:
    """The order of least peak, exactly where the search finishes; a beam, whose work grows with the
    square of the nodes, only where that is no more than the states."""
    paper = trace_back(problem, group)
    nodes = tuple(bits(group))
    width = BEAM_WIDTH if len(nodes) ** 2 <= max_states else 0
    found = find_order(problem.steps(group), OrderOptions(max_states, width))
    if paper.peak_bytes < found.peak_bytes:
        return InnerOrder(paper.order, paper.peak_bytes, found.bound_bytes)
    order = tuple(nodes[k] for k in found.order)
    return InnerOrder(order, found.peak_bytes, found.bound_bytes)


ORDERS_INSIDE: Mapping[str, Callable[[GroupingProblem, int, int], InnerOrder]] = {
    "trace_back": trace_back,
    "dfs": dfs,
    "bfs": bfs,
    "circular": circular,
    "best": best,
}


def inner_order(problem: GroupingProblem, group: int, order: tuple[int, ...]) -> InnerOrder:
    """An order of a group with its peak."""
    nodes = {i: k for k, i in enumerate(bits(group))}
    table = table_of(problem.steps(group))
    peak, _ = table.peak(0, table.start_bytes, [nodes[i] for i in order])
    return InnerOrder(order, peak)


def circular_bytes(problem: GroupingProblem, group: int, order: tuple[int, ...]) -> int:
    """Bytes of the least circular buffer for an order: from the place of a tensor to that of the
    last one that is put there while it is live, for the worst tensor."""
    outside = list(bits(problem.read_from_outside(group)))
    sizes = [problem.sizes[t] for t in (*outside, *order)]
    ends = [0, *accumulate(sizes)]  # of what is in the buffer when so many tensors were put there
    place = {t: k for k, t in enumerate((*outside, *order))}
    stays = problem.wanted_outside(group)
    most = 0
    for t, k in place.items():
        readers = [place[i] for i in bits(problem.readers[t] & group)]
        last = len(order) + len(outside) - 1 if k >= len(outside) and stays >> t & 1 else k
        most = max(most, ends[max(last, *readers, k) + 1] - ends[k])
    return most


def _by_heuristic(problem: GroupingProblem, group: int, kind: Heuristic) -> InnerOrder:
    nodes = tuple(bits(group))
    found = heuristic_order(table_of(problem.steps(group)), kind)
    return inner_order(problem, group, tuple(nodes[k] for k in found))


class _TraceBack:
    """A group that runs node by node, by the paper's two rules.

    1. Of the nodes that can run, one that is the last reader of a tensor that is there.
    2. Else: of the tensors that are there and partly read, then of the others, the one that has
       been there longest: if what remains of its readers waits for other nodes, go back along the
       nodes that they wait for to one that can run.

    Where that leaves a choice, the paper says nothing: here the first node in the given order.
    """

    def __init__(self, problem: GroupingProblem, group: int) -> None:
        self._problem, self._group = problem, group
        self.left = group
        self._there = list(bits(problem.read_from_outside(group)))

    def next(self) -> int:
        """Runs a node, and says which."""
        ready = [i for i in bits(self.left) if not self._problem.before[i] & self.left]
        node = self._frees(ready)
        if node is None:
            node = self._traced(ready)
        self.left &= ~(1 << node)
        self._there = [t for t in self._there if self._pending(t)]
        if self._pending(node):
            self._there.append(node)
        return node

    def _pending(self, tensor: int) -> int:
        return self._problem.readers[tensor] & self.left

    def _frees(self, ready: list[int]) -> int | None:
        """The first node that is the last reader of a tensor that does not stay."""
        for i in ready:
            for t in bits(self._problem.reads[i]):
                if self._pending(t) == 1 << i and not self._stays(t):
                    return i
        return None

    def _stays(self, tensor: int) -> bool:
        """Whether a tensor of the group is wanted outside."""
        problem = self._problem
        inside = tensor < len(problem.nodes) and self._group >> tensor & 1
        return bool(inside and problem.wanted_outside(1 << tensor | self._group) >> tensor & 1)

    def _traced(self, ready: list[int]) -> int:
        """The node to which the tensor there longest leads back."""
        for tensor in self._there:
            if self._stays(tensor):
                continue
            missing = self._pending(tensor)
            for i in bits(self._pending(tensor)):
                missing |= self._problem.ancestors[i] & self.left
            for i in ready:
                if missing >> i & 1:
                    return i
        return ready[0]
