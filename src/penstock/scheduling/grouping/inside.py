"""Orders of the nodes within a group, for few live bytes.

    trace_back   the paper's rule: a node that frees a live tensor; else go back, step by step,
                 along the nodes that the oldest live tensor's readers wait for
    dfs, bfs     depth first, breadth first
    circular     the given order on NVDLA's circular buffer, where tensors are allocated in a ring
    best         least peak found by search, with a proven bound; never above another order's

Source: Zheng et al., IEEE TCAD 39(11), 2020, section 4.3; circular: NVDLA's convolution buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.order.order import BEAM_WIDTH, OrderOptions, find_order
from penstock.scheduling.order.step_orders import Heuristic, heuristic_order
from penstock.scheduling.order.step_table import bits, step_table


@dataclass(frozen=True, slots=True)
class InnerOrder:
    """An order of a group's nodes.

    peak_bytes: bytes of buffer that it needs; bound_bytes: proven lower bound over all orders.
    """

    order: tuple[int, ...]
    peak_bytes: int
    bound_bytes: int = 0

    @property
    def optimal(self) -> bool:
        """Whether the peak is proven optimal."""
        return self.peak_bytes == self.bound_bytes

    @property
    def gap(self) -> float:
        """Optimality gap: how far the peak lies above the bound, as a fraction; 0.0 if proven
        optimal.
        """
        return (self.peak_bytes - self.bound_bytes) / max(self.bound_bytes, 1)


def trace_back(problem: GroupingProblem, group: int, max_states: int = 0) -> InnerOrder:
    """Return the paper's order."""
    run = _TraceBack(problem, group)
    order: list[int] = []
    while run.left:
        order.append(run.next())
    return inner_order(problem, group, tuple(order))


def dfs(problem: GroupingProblem, group: int, max_states: int = 0) -> InnerOrder:
    """Return the order in which the node that became ready last runs next."""
    return _by_heuristic(problem, group, Heuristic.DEPTH_FIRST)


def bfs(problem: GroupingProblem, group: int, max_states: int = 0) -> InnerOrder:
    """Return the order in which the node that became ready first runs next."""
    return _by_heuristic(problem, group, Heuristic.BREADTH_FIRST)


def circular(problem: GroupingProblem, group: int, max_states: int = 0) -> InnerOrder:
    """Return the given order, with the size of the least circular buffer as its peak.

    The buffer never overwrites a tensor that is read later.
    """
    order = tuple(bits(group))
    return InnerOrder(order, circular_bytes(problem, group, order))


def best(problem: GroupingProblem, group: int, max_states: int = 20_000) -> InnerOrder:
    """Return the order of least peak; optimal if the search finishes within `max_states` states.

    A beam search follows only where its work, quadratic in the number of nodes, is within the
    budget.
    """
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
    """Return an order of a group with its peak."""
    nodes = {i: k for k, i in enumerate(bits(group))}
    table = step_table(problem.steps(group))
    peak, _ = table.peak(0, table.start_bytes, [nodes[i] for i in order])
    return InnerOrder(order, peak)


def circular_bytes(problem: GroupingProblem, group: int, order: tuple[int, ...]) -> int:
    """Return the bytes of the least circular buffer for an order.

    For each tensor, the span from its place to that of the last tensor allocated while it is live;
    the maximum over all tensors.
    """
    outside = list(bits(problem.read_from_outside(group)))
    sizes = [problem.sizes[t] for t in (*outside, *order)]
    ends = [0, *accumulate(sizes)]  # ends[k]: buffer position after k allocations
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
    found = heuristic_order(step_table(problem.steps(group)), kind)
    return inner_order(problem, group, tuple(nodes[k] for k in found))


class _TraceBack:
    """The paper's two rules, node by node.

    1. Among the ready nodes, run one that is the last reader of a live tensor. 2. Otherwise take
    the live tensor that has existed longest, partly read tensors first.  Where its remaining
    readers wait for other nodes, go back along the producers to a node that is ready.

    The paper does not break ties; this implementation takes the first node in the given order.
    """

    def __init__(self, problem: GroupingProblem, group: int) -> None:
        self._problem, self._group = problem, group
        self.left = group
        self._there = list(bits(problem.read_from_outside(group)))

    def next(self) -> int:
        """Run a node, and return it."""
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
        """Return the first node that is the last reader of a tensor that is not used outside."""
        for i in ready:
            for t in bits(self._problem.reads[i]):
                if self._pending(t) == 1 << i and not self._stays(t):
                    return i
        return None

    def _stays(self, tensor: int) -> bool:
        """Return whether a tensor of the group is used outside."""
        problem = self._problem
        inside = tensor < len(problem.nodes) and self._group >> tensor & 1
        return bool(inside and problem.wanted_outside(1 << tensor | self._group) >> tensor & 1)

    def _traced(self, ready: list[int]) -> int:
        """Return the ready node to which the oldest live tensor leads back."""
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
