"""banks: which bank group each tensor of a running group lies in, and how many banks each one has.

A *bank group* is some banks of a buffer joined for one tensor at a time.  A tensor from outside
lives from its first reader's step to its last one's, any other from its writer's step; what is
wanted outside is *drained* to external memory in the step after its writer's.

Source of the paper's rules: Zheng et al., IEEE TCAD 39(11), 2020, section 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb

from penstock.errors import CapacityError
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.step_table import bits

MOST_SPLITS = 50_000
"""Up to so many ways to deal banks out are all tried: 5 groups of 32 banks are 31,465."""


@dataclass(frozen=True, slots=True)
class Life:
    """A tensor in the steps [first, last] of an order; `drained`: the step in which it is written
    to external memory, or -1."""

    tensor: int
    size_bytes: int
    first: int
    last: int
    drained: int = -1


@dataclass(frozen=True, slots=True)
class BankGroups:
    """The lives in each bank group, in order; `optimal`: proven that no groups need fewer bytes
    and, of those, none write to a group that is being drained more rarely."""

    groups: tuple[tuple[Life, ...], ...]
    optimal: bool = False

    @property
    def largest_bytes(self) -> tuple[int, ...]:
        """Of each group, the bytes of its largest tensor."""
        return tuple(max(life.size_bytes for life in group) for group in self.groups)

    @property
    def conflicts(self) -> int:
        """How often a tensor begins where the one before is being drained."""
        return sum(_clash(a, b) for group in self.groups for a, b in pairwise(group))

    @property
    def key(self) -> tuple[int, int]:
        """The less, the better: bytes of all groups, and conflicts."""
        return sum(self.largest_bytes), self.conflicts


def lives(problem: GroupingProblem, group: int, order: Sequence[int]) -> tuple[Life, ...]:
    """What lives while a group runs in an order, by first step."""
    step = {i: k for k, i in enumerate(order)}
    wanted = problem.wanted_outside(group)
    found: list[Life] = []
    for t in (*bits(problem.read_from_outside(group)), *order):
        reads = [step[i] for i in bits(problem.readers[t] & group)]
        written = [step[t]] if t in step else []
        drained = step[t] + 1 if t in step and wanted >> t & 1 else -1
        steps = (*written, *reads)
        found.append(Life(t, problem.sizes[t], min(steps), max(steps), drained))
    return tuple(sorted(found, key=lambda life: (life.first, life.tensor)))


def paper_groups(some: Sequence[Life]) -> BankGroups:
    """The paper's rule: a group that is free, rather one that is not being drained, rather one
    whose tensor's size is closest; else a new one."""
    groups: list[list[Life]] = []
    for life in some:
        free = [group for group in groups if group[-1].last < life.first]
        if free:
            min(free, key=lambda group: _preference(group[-1], life)).append(life)
        else:
            groups.append([life])
    return BankGroups(tuple(map(tuple, groups)))


def best_groups(some: Sequence[Life], max_states: int = 20_000) -> BankGroups:
    """As many groups as the paper's rule makes, of the fewest bytes; then of the fewest conflicts.
    Exactly, where the search finishes."""
    start = paper_groups(some)
    search = _Colouring(tuple(some), len(start.groups), start, max_states)
    search.place(0, [])
    return BankGroups(search.best.groups, search.states < max_states)


@dataclass(slots=True)
class _Colouring:
    """Lives, each put into every group that is free, depth first."""

    lives: tuple[Life, ...]
    most: int
    best: BankGroups
    max_states: int
    states: int = 0

    def place(self, k: int, groups: list[tuple[Life, ...]]) -> None:
        here = BankGroups(tuple(groups))
        if self.states >= self.max_states or here.key >= self.best.key:
            return  # neither bytes nor conflicts become fewer
        self.states += 1
        if k == len(self.lives):
            self.best = here
            return
        life = self.lives[k]
        free = [g for g, group in enumerate(groups) if group[-1].last < life.first]
        for g in sorted(free, key=lambda g: _preference(groups[g][-1], life)):
            self.place(k + 1, [*groups[:g], (*groups[g], life), *groups[g + 1 :]])
        if len(groups) < self.most:
            self.place(k + 1, [*groups, (life,)])


def _preference(before: Life, life: Life) -> tuple[bool, int]:
    smaller, larger = sorted((before.size_bytes, life.size_bytes))
    return _clash(before, life), larger - smaller


def _clash(before: Life, life: Life) -> bool:
    """Whether a tensor begins while the one before it is being drained."""
    return before.drained >= life.first


@dataclass(frozen=True, slots=True)
class Split:
    """Banks of each bank group, and what they cost; `optimal`: all ways were tried."""

    banks: tuple[int, ...]
    cost: int
    optimal: bool


SplitCost = Callable[[tuple[int, ...]], int | None]
"""The cost of a split; None where it will not do."""


def proportional(largest_bytes: Sequence[int], banks: int) -> tuple[int, ...]:
    """The paper's rule: in proportion to the largest tensor of each group, at least one each; what
    rounding down leaves goes to the largest remainders.  Raises CapacityError."""
    count, total = len(largest_bytes), max(1, sum(largest_bytes))
    if count > banks:
        raise CapacityError(
            "grouping-004",
            f"{count} tensors are live at a time, there are {banks} banks",
            where="bank groups",
            why="every tensor that is live has a bank of its own at least",
            help="take smaller groups of layers, or more banks",
        )
    spare = banks - count
    shares = [size * spare // total for size in largest_bytes]
    rests = sorted(range(count), key=lambda g: (-(largest_bytes[g] * spare % total), g))
    for g in rests[: spare - sum(shares)]:
        shares[g] += 1
    return tuple(share + 1 for share in shares)


def best_split(largest_bytes: Sequence[int], banks: int, cost: SplitCost) -> Split | None:
    """The cheapest split, the first of equals; never dearer than the paper's.  Where there are too
    many, banks are moved from group to group, one by one, as long as that helps."""
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
    """Every way to deal banks to groups, at least one each.

    >>> list(splits(4, 2))
    [(1, 3), (2, 2), (3, 1)]
    """
    for cuts in combinations(range(1, banks), groups - 1):
        yield tuple(b - a for a, b in pairwise((0, *cuts, banks)))


def _moved(banks: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for a in range(len(banks)):
        for b in range(len(banks)):
            if a != b and banks[a] > 1:
                yield tuple(n - (g == a) + (g == b) for g, n in enumerate(banks))


def _cheapest(
    some: Iterator[tuple[int, ...]] | Sequence[tuple[int, ...]], cost: SplitCost, *, optimal: bool
) -> Split | None:
    found = ((cost(banks), banks) for banks in some)
    best = min(((c, banks) for c, banks in found if c is not None), default=None)
    return None if best is None else Split(best[1], best[0], optimal)
