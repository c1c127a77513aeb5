"""strategies: problem and cost -> Grouping, by name; `best` is never worse than any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.scheduling.grouping.bounds import lower_bound
from penstock.scheduling.grouping.cost import OrderCost
from penstock.scheduling.grouping.greedy import greedy
from penstock.scheduling.grouping.grouping import Grouping, grouping_of
from penstock.scheduling.grouping.intervals import intervals
from penstock.scheduling.grouping.levels import next_in_level
from penstock.scheduling.grouping.merging import merged_intervals
from penstock.scheduling.grouping.moves import Moves
from penstock.scheduling.grouping.orders import orders
from penstock.scheduling.grouping.search import GroupSearch
from penstock.scheduling.step_table import bits


@dataclass(frozen=True, slots=True)
class GroupingOptions:
    """How much the searches may spend: nodes of the groups that they look at."""

    bounded_nodes: int = 4  # most nodes of a group of `bounded`
    level_work: int = 50_000  # of the order inside the paper's levels
    ideal_work: int = 200_000  # of the exact search
    move_work: int = 200_000  # of local moves
    bound_work: int = 20_000  # of the bound, for each of its largest pieces


DEFAULTS = GroupingOptions()
Groups = tuple[int, ...]
Strategy = Callable[[OrderCost, GroupingOptions], Grouping]


def layer(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Every node alone."""
    return grouping_of((1 << i for i in range(len(cost.problem.nodes))), cost)


def greedily(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """By Halide's rule."""
    return grouping_of(greedy(cost), cost)


def bounded(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Dynamic programming in the order of depth, of at most `bounded_nodes` nodes a group."""
    order = orders(cost.problem)["asap"]
    return grouping_of(intervals(order, cost, options.bounded_nodes), cost)


def paper(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Dynamic programming in the order of depth, with the best order inside every level that is
    found: of all, where a search can try them; else of those that other orders suggest."""
    search = GroupSearch(cost, cost.problem.everything, next_in_level(cost.problem))
    found = search.run(options.level_work)
    if found.finished:
        return grouping_of(found.groups, cost)
    return _least(_depth_orders(cost), cost)


def paper_merged(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """The paper's, with pointwise nodes joined to their producers beforehand."""
    return grouping_of(merged_intervals(cost), cost)


def ideals(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Exactly, where the search finishes; else as `paper`, with a bound."""
    return _certified(paper(cost, options), cost, options)


def best(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """The least of all strategies and orders, improved by local moves; exactly, where the search
    finishes, else with a bound.

    Every strategy is asked twice: groups that were not decided may fit where their nodes run in an
    order that another one has brought up since."""
    every = orders(cost.problem)
    twice = (groups for _ in range(2) for groups in _candidates(cost, options, every))
    start = _least(twice, cost)
    moves = Moves(cost, tuple(every.values()), start.groups, options.move_work)
    moved = grouping_of(moves.improve(), cost)
    found = _certified(moved, cost, options)
    if found.optimal:
        return found
    order = [i for group in found.groups for i in bits(group)]
    bound, work = lower_bound(cost, order, options.bound_work)
    return replace(found, bound=max(found.bound, bound), work=found.work + work)


STRATEGIES: Mapping[str, Strategy] = {
    "layer": layer,
    "greedy": greedily,
    "bounded": bounded,
    "paper": paper,
    "paper_merged": paper_merged,
    "ideals": ideals,
    "best": best,
}


def _candidates(
    cost: OrderCost, options: GroupingOptions, every: Mapping[str, Sequence[int]]
) -> Iterator[Groups]:
    """Groups of every strategy and along every order."""
    for strategy in (paper, paper_merged, greedily, bounded):
        yield strategy(cost, options).groups
    for order in every.values():
        yield intervals(order, cost)


def _depth_orders(cost: OrderCost) -> Iterator[Groups]:
    """The best groups in orders of depth, nodes of one depth as they stand in other orders."""
    depths = cost.problem.depths
    for order in orders(cost.problem).values():
        yield intervals(sorted(order, key=depths.__getitem__), cost)


def _least(some: Iterable[Groups], cost: OrderCost) -> Grouping:
    """The cheapest, of those the first of the least tie; single nodes where there are none."""
    found = [grouping_of(groups, cost) for groups in some if groups]
    return (
        min(found, key=lambda g: (g.cost, sum(map(cost.tie, g.groups)))) if found else layer(cost)
    )


def _certified(start: Grouping, cost: OrderCost, options: GroupingOptions) -> Grouping:
    """A grouping, or a cheaper one that the exact search finds, with what that proves."""
    search = GroupSearch(cost, cost.problem.everything)
    found = search.run(options.ideal_work, start.cost)
    done = grouping_of(found.groups, cost) if found.groups else start
    return replace(done, bound=0 if cost.undecided else found.bound, work=found.work)
