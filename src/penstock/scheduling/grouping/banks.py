"""Bank allocation: which banks of a buffer hold each tensor while a group of nodes runs.

A *bank group* is a set of banks that holds one tensor at a time.  Tensors are assigned to bank
groups, and the banks are divided among the bank groups.

Each step runs one node.  A tensor is live from the step that writes it to the last step that reads
it; a tensor from outside the group of nodes is live from the first step that reads it.  A tensor
that is used outside is *drained*: copied to external memory in the step after the one that computes
it.

Source of `paper_groups` and `proportional`: Zheng et al., IEEE TCAD 39(11), 2020, section 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb

from penstock.errors import CapacityError
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.order.step_table import bits

MOST_SPLITS = 50_000
"""Maximum number of splits for an exhaustive search; 32 banks in 5 bank groups have 31,465."""


@dataclass(frozen=True, slots=True)
class TensorLiveRange:
    """The live range of a tensor: steps [first, last] of an order, both included.

    tensor: index of the tensor in the grouping problem.
    drained: step in which the tensor is written to external memory; None if it never is.
    """

    tensor: int
    size_bytes: int
    first: int
    last: int
    drained: int | None = None


@dataclass(frozen=True, slots=True)
class BankGroups:
    """An assignment of live ranges to bank groups: sets of banks that hold one tensor at a time.

    groups: for each bank group, the live ranges of its tensors, in order of time.
    optimal: whether it is proven that no assignment needs fewer bytes or, with equal bytes, has
        fewer conflicts.  A conflict is a tensor that becomes live while the previous one in its
        bank group is still being written to external memory.
    """

    groups: tuple[tuple[TensorLiveRange, ...], ...]
    optimal: bool = False

    @property
    def largest_bytes(self) -> tuple[int, ...]:
        """Bytes of the largest tensor of each bank group.

        A bank group is a set of banks that holds one tensor at a time.
        """
        return tuple(max(live_range.size_bytes for live_range in group) for group in self.groups)

    @property
    def conflicts(self) -> int:
        """Number of tensors that become live while their bank group is still being drained.

        A bank group is drained while its previous tensor is written to external memory.
        """
        return sum(_clash(a, b) for group in self.groups for a, b in pairwise(group))

    @property
    def key(self) -> tuple[int, int]:
        """Sort key of an assignment to bank groups, lowest is best: (total bytes, conflicts).

        Each bank group counts with the bytes of its largest tensor.  A conflict is a tensor that
        becomes live while the previous one in its bank group is still being written to external
        memory.
        """
        return sum(self.largest_bytes), self.conflicts


def live_ranges(
    problem: GroupingProblem, group: int, order: Sequence[int]
) -> tuple[TensorLiveRange, ...]:
    """Return the live ranges of the tensors that a group reads or writes, sorted by first step.

    group: mask of nodes; order: the same nodes in execution order, one per step.
    """
    step = {i: k for k, i in enumerate(order)}
    wanted = problem.wanted_outside(group)
    found: list[TensorLiveRange] = []
    for t in (*bits(problem.read_from_outside(group)), *order):
        reads = [step[i] for i in bits(problem.readers[t] & group)]
        written = [step[t]] if t in step else []
        drained = step[t] + 1 if t in step and wanted >> t & 1 else None
        steps = (*written, *reads)
        found.append(TensorLiveRange(t, problem.sizes[t], min(steps), max(steps), drained))
    return tuple(sorted(found, key=lambda live_range: (live_range.first, live_range.tensor)))


def paper_groups(some: Sequence[TensorLiveRange]) -> BankGroups:
    """Assign live ranges to bank groups (banks that hold one tensor at a time) as Zheng et al. do.

    some: live ranges, sorted by first step.

    A bank group is free if its last tensor is dead.  Free bank groups whose last tensor is not
    being written to external memory any more are preferred.  Among these, the one whose last tensor
    is closest in size to the new tensor is selected.  If no bank group is free, a new one is added.
    """
    groups: list[list[TensorLiveRange]] = []
    for live_range in some:
        free = [group for group in groups if group[-1].last < live_range.first]
        if free:
            min(free, key=lambda group: _preference(group[-1], live_range)).append(live_range)
        else:
            groups.append([live_range])
    return BankGroups(tuple(map(tuple, groups)))


def best_groups(some: Sequence[TensorLiveRange], max_states: int = 20_000) -> BankGroups:
    """Return the assignment of live ranges to bank groups that needs the fewest bytes.

    A bank group is a set of banks that holds one tensor at a time; it needs the bytes of its
    largest tensor.  Of the assignments with the fewest bytes, one with the fewest conflicts is
    returned.  A conflict is a tensor that becomes live while the previous tensor of its bank group
    is still being written to external memory.

    The method is branch and bound over assignments with at most as many bank groups as
    `paper_groups` uses.  Among these, the result is optimal, unless the search stops because it has
    visited `max_states` partial assignments.
    some: live ranges, sorted by first step.
    """
    start = paper_groups(some)
    search = _Colouring(tuple(some), len(start.groups), start, max_states)
    search.place(0, [])
    return BankGroups(search.best.groups, search.states < max_states)


@dataclass(slots=True)
class _Colouring:
    """Assigns live ranges to bank groups, by branch and bound, so that they need the fewest bytes.

    A bank group holds one tensor at a time.  Of two assignments with equal bytes, the one with
    fewer conflicts is better.  A conflict is a tensor that becomes live while the previous tensor
    of its bank group is still being written to external memory.  (Bank groups are the colours of an
    interval graph.)

    most: maximum number of bank groups.
    best: the best assignment found so far.
    states: number of partial assignments visited so far, at most `max_states`.
    """

    live_ranges: tuple[TensorLiveRange, ...]
    most: int
    best: BankGroups
    max_states: int
    states: int = 0

    def place(self, k: int, groups: list[tuple[TensorLiveRange, ...]]) -> None:
        """Extend a partial assignment in all ways that may be better than `best`; update `best`.

        k: number of live ranges that are assigned; `live_ranges[k]` is assigned next.
        groups: the partial assignment.  One entry per bank group: its live ranges, in order of
            time.
        """
        here = BankGroups(tuple(groups))
        if self.states >= self.max_states or here.key >= self.best.key:
            return  # bytes and conflicts never decrease along a path
        self.states += 1
        if k == len(self.live_ranges):
            self.best = here
            return
        live_range = self.live_ranges[k]
        free = [g for g, group in enumerate(groups) if group[-1].last < live_range.first]
        for g in sorted(free, key=lambda g: _preference(groups[g][-1], live_range)):
            self.place(k + 1, [*groups[:g], (*groups[g], live_range), *groups[g + 1 :]])
        if len(groups) < self.most:
            self.place(k + 1, [*groups, (live_range,)])


def _preference(before: TensorLiveRange, live_range: TensorLiveRange) -> tuple[bool, int]:
    """Return the sort key by which a bank group is selected for a live range; the lowest is best.

    The key is (whether the previous tensor is still being written to external memory, difference
    between the sizes of the two tensors in bytes).
    before: live range of the previous tensor in the bank group.
    """
    smaller, larger = sorted((before.size_bytes, live_range.size_bytes))
    return _clash(before, live_range), larger - smaller


def _clash(before: TensorLiveRange, live_range: TensorLiveRange) -> bool:
    """Return whether `live_range` begins while the previous tensor is written to external memory.

    before: live range of the previous tensor in the same bank group.
    """
    return before.drained is not None and before.drained >= live_range.first


@dataclass(frozen=True, slots=True)
class Split:
    """A division of the banks of a buffer among bank groups, with its cost.

    banks: number of banks of each bank group.
    cost: cost of `banks`, computed by the cost function that was given to `best_split`.
    optimal: whether all divisions were tried, so that none is cheaper.
    """

    banks: tuple[int, ...]
    cost: int
    optimal: bool


SplitCost = Callable[[tuple[int, ...]], int | None]
"""Function from the number of banks of each bank group to the cost; None if infeasible."""


def proportional(largest_bytes: Sequence[int], banks: int) -> tuple[int, ...]:
    """Return the number of banks of each bank group, in proportion to its largest tensor.

    largest_bytes: for each bank group, the bytes of its largest tensor.
    banks: total number of banks.

    Rule of Zheng et al.: each bank group gets one bank; the other banks are divided in proportion
    to `largest_bytes`, by the largest-remainder method.

    Raises CapacityError if there are more bank groups than banks.
    """
    count, total = len(largest_bytes), max(1, sum(largest_bytes))
    if count > banks:
        raise CapacityError(
            "grouping-004",
            f"{count} tensors are live at a time, there are {banks} banks",
            where="bank groups",
            why="every live tensor needs at least one bank",
            help="use smaller groups of layers, or more banks",
        )
    spare = banks - count
    shares = [size * spare // total for size in largest_bytes]
    rests = sorted(range(count), key=lambda g: (-(largest_bytes[g] * spare % total), g))
    for g in rests[: spare - sum(shares)]:
        shares[g] += 1
    return tuple(share + 1 for share in shares)


def best_split(largest_bytes: Sequence[int], banks: int, cost: SplitCost) -> Split | None:
    """Return the cheapest division of banks among bank groups that the search finds.

    largest_bytes: for each bank group, the bytes of its largest tensor.
    banks: total number of banks.
    cost: function from the number of banks of each bank group to the cost; None if infeasible.

    If there are at most `MOST_SPLITS` divisions, all are tried.  Otherwise the search begins with
    the division of `proportional`, and moves single banks between bank groups while that reduces
    the cost.

    Returns None if all tried divisions are infeasible.  Raises CapacityError if there are more bank
    groups than banks.
    """
    start = proportional(largest_bytes, banks)
    if comb(banks - 1, len(start) - 1) <= MOST_SPLITS:
        return _cheapest(splits(banks, len(start)), cost, optimal=True)
    best = _cheapest([start], cost, optimal=False)
    while best is not None:
        found = _cheapest(_moved(best.banks), cost, optimal=False)
        if found is None or found.cost >= best.cost:
            break
        best = found
    return best


def splits(banks: int, groups: int) -> Iterator[tuple[int, ...]]:
    """Yield every division of banks among bank groups, with at least one bank each.

    >>> list(splits(4, 2))
    [(1, 3), (2, 2), (3, 1)]
    """
    for cuts in combinations(range(1, banks), groups - 1):
        yield tuple(b - a for a, b in pairwise((0, *cuts, banks)))


def _moved(banks: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield each division of banks that results from moving one bank to another bank group.

    banks: number of banks of each bank group before the move.
    """
    for a in range(len(banks)):
        for b in range(len(banks)):
            if a != b and banks[a] > 1:
                yield tuple(n - (g == a) + (g == b) for g, n in enumerate(banks))


def _cheapest(
    some: Iterator[tuple[int, ...]] | Sequence[tuple[int, ...]], cost: SplitCost, *, optimal: bool
) -> Split | None:
    """Return the division of banks that costs least, or None if none is feasible.

    some: divisions to choose from; each is the number of banks of each bank group.
    optimal: whether `some` contains all divisions.
    """
    found = ((cost(banks), banks) for banks in some)
    best = min(((c, banks) for c, banks in found if c is not None), default=None)
    return None if best is None else Split(best[1], best[0], optimal)
