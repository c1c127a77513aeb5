"""Orders of the nodes within a group, for few live bytes.

    trace_back   rules of Zheng et al.: run a node that frees a live tensor; if no node does, run a
                 reader of the oldest live tensor, or a node on which such a reader depends
    dfs, bfs     depth first, breadth first
    circular     the order of the problem; tensors are allocated in a circular buffer (NVDLA)
    best         the order of least peak that a search finds, with a proven lower bound

Of an `Order` within a group, `order` has indices of nodes, and `peak_bytes` is the buffer that it
needs.

Source: Zheng et al., IEEE TCAD 39(11), 2020, section 4.3; circular: NVDLA's convolution buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import accumulate

from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.order.order import BEAM_WIDTH, Order, OrderOptions, find_order
from penstock.scheduling.order.steps import Heuristic, bits, heuristic_order, step_table


def trace_back(problem: GroupingProblem, group: int, max_states: int = 0) -> Order:
    """Return the order of a group's nodes by two rules of Zheng et al.

    The next node is one that frees a live tensor.  If no node does, the next node is a reader of
    the oldest live tensor, or a node on which such a reader depends.
    group: mask of nodes.
    max_states: not used.
    """
    run = _TraceBack(problem, group)
    order: list[int] = []
    while run.remaining:
        order.append(run.next())
    return inner_order(problem, group, tuple(order))


def dfs(problem: GroupingProblem, group: int, max_states: int = 0) -> Order:
    """Return the depth-first order of a group's nodes: the node that became ready last runs next.

    group: mask of nodes.
    max_states: not used.
    """
    return _by_heuristic(problem, group, Heuristic.DEPTH_FIRST)


def bfs(problem: GroupingProblem, group: int, max_states: int = 0) -> Order:
    """Return the breadth-first order of a group's nodes: the one that became ready first runs next.

    group: mask of nodes.
    max_states: not used.
    """
    return _by_heuristic(problem, group, Heuristic.BREADTH_FIRST)


def circular(problem: GroupingProblem, group: int, max_states: int = 0) -> Order:
    """Return a group's nodes in the problem's order, for tensors in a circular buffer.

    The peak of the result is the size of the buffer, which is the smallest one in which no live
    tensor is overwritten (`circular_bytes`).
    group: mask of nodes.
    max_states: not used.
    """
    order = tuple(bits(group))
    return Order(order, circular_bytes(problem, group, order))


def best(problem: GroupingProblem, group: int, max_states: int = 20_000) -> Order:
    """Return the order of a group's nodes with the lowest peak that is found.

    It is optimal if a best-first search ends within `max_states` states.  Otherwise, it is the best
    order that a beam search and heuristics such as `trace_back` find.
    group: mask of nodes.
    """
    paper = trace_back(problem, group)
    nodes = tuple(bits(group))
    width = BEAM_WIDTH if len(nodes) ** 2 <= max_states else 0  # 0: no beam search
    found = find_order(problem.steps(group), OrderOptions(max_states, width))
    if paper.peak_bytes < found.peak_bytes:
        return replace(paper, bound_bytes=found.bound_bytes)
    return replace(found, order=tuple(nodes[k] for k in found.order))


ORDERS_INSIDE: Mapping[str, Callable[[GroupingProblem, int, int], Order]] = {
    "trace_back": trace_back,
    "dfs": dfs,
    "bfs": bfs,
    "circular": circular,
    "best": best,
}


def inner_order(problem: GroupingProblem, group: int, order: tuple[int, ...]) -> Order:
    """Return the given order of a group's nodes together with its peak bytes.

    group: mask of nodes; order: the same nodes as indices.
    """
    nodes = {i: k for k, i in enumerate(bits(group))}
    table = step_table(problem.steps(group))
    peak, _ = table.peak(0, table.start_bytes, [nodes[i] for i in order])
    return Order(order, peak)


def circular_bytes(problem: GroupingProblem, group: int, order: tuple[int, ...]) -> int:
    """Return the bytes of the smallest circular buffer in which no live tensor is overwritten.

    Tensors are allocated one after the other: first those from outside the group, then the outputs
    of the nodes, in order.  For each tensor t, all tensors from t to the last one that is allocated
    while t is live must fit into the buffer together.
    group: mask of nodes.
    order: the same nodes in execution order.
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


def _by_heuristic(problem: GroupingProblem, group: int, kind: Heuristic) -> Order:
    nodes = tuple(bits(group))
    found = heuristic_order(step_table(problem.steps(group)), kind)
    return inner_order(problem, group, tuple(nodes[k] for k in found))


class _TraceBack:
    """Selects, one after the other, the nodes of a group to run, by two rules of Zheng et al.

    Rule 1: run a ready node that is the last reader of a live tensor.
    Rule 2, if no node satisfies rule 1: take the tensor that has been live longest, and run a
        ready node that reads this tensor, or a ready node on which a reader of the tensor depends.

    Zheng et al. do not define how ties are broken; here, the first node in the problem's order is
    selected.

    remaining: mask of the nodes that have not run.
    """

    def __init__(self, problem: GroupingProblem, group: int) -> None:
        self._problem, self._group = problem, group
        self.remaining = group
        self._live = list(bits(problem.read_from_outside(group)))

    def next(self) -> int:
        """Select the next node, mark it as run, and return it."""
        ready = [i for i in bits(self.remaining) if not self._problem.before[i] & self.remaining]
        node = self._last_reader(ready)
        if node is None:
            node = self._traced_back(ready)
        self.remaining &= ~(1 << node)
        self._live = [t for t in self._live if self._pending(t)]
        if self._pending(node):
            self._live.append(node)
        return node

    def _pending(self, tensor: int) -> int:
        return self._problem.readers[tensor] & self.remaining

    def _last_reader(self, ready: list[int]) -> int | None:
        """Return a node of `ready` that is the last reader of a live tensor (rule 1), or None.

        Tensors that are used outside of the group are disregarded.
        ready: indices of the nodes that can run.
        """
        for i in ready:
            for t in bits(self._problem.reads[i]):
                if self._pending(t) == 1 << i and not self._stays(t):
                    return i
        return None

    def _stays(self, tensor: int) -> bool:
        """Return whether `tensor` is written by the group and is also used outside of the group."""
        problem = self._problem
        inside = tensor < len(problem.nodes) and self._group >> tensor & 1
        return bool(inside and problem.wanted_outside(1 << tensor | self._group) >> tensor & 1)

    def _traced_back(self, ready: list[int]) -> int:
        """Return a node of `ready` that helps to free the oldest live tensor (rule 2).

        It is the first node that reads the tensor, or on which a reader of the tensor depends.
        Tensors that the group writes for use outside do not count, because they stay live anyway.
        If no live tensor counts, return the first node of `ready`.
        ready: indices of the nodes that can run.
        """
        for tensor in self._live:
            if self._stays(tensor):
                continue
            missing = self._pending(tensor)
            for i in bits(self._pending(tensor)):
                missing |= self._problem.ancestors[i] & self.remaining
            for i in ready:
                if missing >> i & 1:
                    return i
        return ready[0]
