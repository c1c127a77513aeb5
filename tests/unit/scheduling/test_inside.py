"""Orders inside groups: the paper's worked example; never above the trace-back's; the optimum where
all orders can be tried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.random_graphs import FAMILIES, random_problem
from grouping_judge import is_order, least_peak, peak_of
from penstock.scheduling.grouping.inside import ORDERS_INSIDE, best, circular, trace_back
from penstock.scheduling.grouping.problem import GroupingProblem, GroupNode
from penstock.scheduling.order.steps import bits


def named(
    nodes: dict[str, tuple[int, str]], inputs: dict[str, int], outputs: str
) -> GroupingProblem:
    """From (bytes, names of tensors that it reads) of each node, by name."""
    index = {name: k for k, name in enumerate((*nodes, *inputs))}
    found = (
        GroupNode(name, size, 0, tuple(index[r] for r in reads))
        for name, (size, reads) in nodes.items()
    )
    return GroupingProblem(
        tuple(found), tuple(inputs.values()), frozenset(index[name] for name in outputs)
    )


def names(problem: GroupingProblem, order: tuple[int, ...]) -> str:
    return "".join(problem.nodes[i].name for i in order)


# The worked example of section 4.3: D is there and A runs first; then B, C and G can run.  G ends
# the use of A; what then frees D is F, for which E, for which B must run.
EXAMPLE = named(
    {
        "A": (4, ""),
        "B": (4, ""),
        "C": (4, ""),
        "E": (4, "B"),
        "F": (4, "DE"),
        "G": (4, "AD"),
        "H": (4, "CFG"),
    },
    {"D": 4},
    "H",
)


def test_the_papers_worked_example() -> None:
    assert names(EXAMPLE, trace_back(EXAMPLE, EXAMPLE.everything).order) == "AGBEFCH"


def hills_and_valleys(branches: int) -> GroupingProblem:
    """Branches of 40, 1, 11 and 10 bytes, and a join."""
    nodes: list[GroupNode] = []
    for _ in range(branches):
        for k, size in enumerate((40, 1, 11, 10)):
            nodes.append(GroupNode("n", size, 0, (len(nodes) - 1,) if k else ()))
    ends = tuple(range(3, 4 * branches, 4))
    nodes.append(GroupNode("join", 1, 0, ends))
    return GroupingProblem(tuple(nodes), (), frozenset({len(nodes) - 1}))


def test_hills_and_valleys_need_what_is_published() -> None:
    problem = hills_and_valleys(4)
    found = {
        name: order(problem, problem.everything, 20_000).peak_bytes
        for name, order in ORDERS_INSIDE.items()
    }
    assert {name: found[name] for name in ("best", "dfs", "bfs", "trace_back")} == {
        "best": 51,
        "dfs": 71,
        "bfs": 161,
        "trace_back": 71,
    }


def test_a_circular_buffer_holds_what_lies_between_a_tensor_and_its_last_reader() -> None:
    problem = named({"A": (5, "X"), "B": (7, "A"), "C": (2, "AB")}, {"X": 3}, "C")
    assert circular(problem, problem.everything).peak_bytes == 14  # A, B and C
    late = named({"A": (5, "X"), "B": (7, "A"), "C": (2, "BX")}, {"X": 3}, "C")
    assert circular(late, late.everything).peak_bytes == 17  # X and all after it


@st.composite
def groups(draw: st.DrawFn, most: int) -> tuple[GroupingProblem, int]:
    """A graph, and an interval of its nodes."""
    family = draw(st.sampled_from(sorted(FAMILIES)))
    problem = random_problem(family, draw(st.integers(0, 10**6)), draw(st.integers(1, most)))
    lower = draw(st.integers(0, len(problem.nodes) - 1))
    upper = draw(st.integers(lower + 1, len(problem.nodes)))
    return problem, sum(1 << i for i in range(lower, upper))


@given(groups(most=11))
def test_the_best_order_is_the_best_of_all(found: tuple[GroupingProblem, int]) -> None:
    problem, group = found
    nodes = frozenset(bits(group))
    order = best(problem, group)
    assert is_order(problem, nodes, order.order)
    assert order.peak_bytes == peak_of(problem, nodes, order.order) == least_peak(problem, nodes)
    assert order.optimal


@given(groups(most=16))
def test_every_order_is_one_and_has_its_peak(found: tuple[GroupingProblem, int]) -> None:
    problem, group = found
    nodes = frozenset(bits(group))
    for name, strategy in ORDERS_INSIDE.items():
        order = strategy(problem, group, 100)
        assert is_order(problem, nodes, order.order)
        live = peak_of(problem, nodes, order.order)
        assert order.peak_bytes == live or (name == "circular" and order.peak_bytes > live)
        assert best(problem, group, 100).bound_bytes <= best(problem, group, 100).peak_bytes <= live


def never_above_the_trace_back(seeds: range) -> None:
    for seed in seeds:
        for family in FAMILIES:
            problem = random_problem(family, seed, 6 + seed % 30)
            order = best(problem, problem.everything, 2_000)
            assert order.bound_bytes <= order.peak_bytes
            for name in ("trace_back", "dfs", "bfs", "circular"):
                rival = ORDERS_INSIDE[name](problem, problem.everything, 0)
                assert order.peak_bytes <= rival.peak_bytes, (family, seed, name)
            if len(problem.nodes) <= 11:
                assert order.peak_bytes == least_peak(problem, frozenset(bits(problem.everything)))


def test_no_order_is_above_the_trace_back() -> None:
    never_above_the_trace_back(range(6))


@pytest.mark.long
def test_no_order_is_above_the_trace_back_on_four_hundred_graphs() -> None:
    never_above_the_trace_back(range(80))
