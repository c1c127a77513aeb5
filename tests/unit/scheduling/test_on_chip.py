"""KeptTensors: a group fits in the first known order in which its tensors do, one by one."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.random_graphs import FAMILIES, random_problem
from penstock.scheduling.grouping.on_chip import KeptTensors
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.strategies import orders
from penstock.scheduling.order.steps import bit_mask


def peak_bytes(problem: GroupingProblem, order: list[int]) -> int:
    """Live bytes at the peak, of the tensors that only the nodes of the order use."""
    others = [n for i, n in enumerate(problem.nodes) if i not in order]
    kept = {t for t in order if t not in problem.outputs and all(t not in n.reads for n in others)}
    peak = 0
    for k, i in enumerate(order):
        pending = {t for j in order[k:] for t in problem.nodes[j].reads}
        live = kept & (pending & set(order[:k]) | {i})
        peak = max(peak, sum(problem.sizes[t] for t in live))
    return peak


@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 20), st.integers(5, 80), st.randoms())
def test_the_first_fitting_order_is_found(
    family: str, count: int, capacity_bytes: int, random: Random
) -> None:
    problem = random_problem(family, random.randrange(10**6), count)
    nodes = list(range(len(problem.nodes)))
    every = [nodes, *(list(order) for order in orders(problem).values())]
    kept = KeptTensors(problem, capacity_bytes, order_states=0)
    assert [kept.add_order(o) for o in every] == [
        o not in every[:k] and k > 0 for k, o in enumerate(every)
    ]
    group = random.sample(nodes, random.randint(1, len(nodes)))
    inside = [[i for i in order if i in group] for order in every]
    fitting = [order for order in inside if peak_bytes(problem, order) <= capacity_bytes]
    found = kept.fitting_order(bit_mask(group))
    assert found == (tuple(fitting[0]) if fitting else None)
