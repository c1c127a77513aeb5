"""Choice of kernels: levels against the processor's, costs within a level, CPU fallbacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accelerators import NAME, accelerator, implementation, named, names, strategy
from benchmarks.small_tensors import bias, int8, weights
from penstock.backends.accelerator import Implementation, Strategy
from penstock.backends.partition import choose, partition
from penstock.backends.pattern import Pattern, is_op, wildcard
from penstock.errors import BackendError
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Kernel
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D
from penstock.ops.reshape import Reshape
from penstock.ops.unary import Relu
from strategies import node_of

X = Value("x", int8(1, 4, 4, 2))
CONV = is_op("nn.conv2d")(wildcard(), wildcard())
RELU = is_op("nn.relu")(wildcard())
EITHER = CONV | RELU


def network() -> Graph:
    """a: a convolution, b: a clamp, c: a view."""
    a = node_of("a", Conv2D(Window(1), Window(1)), (X,), weights(2, 1, 1, 2), bias(2), like=X.type)
    b = node_of("b", Relu(), (a.output,))
    c = node_of("c", Reshape((32,)), (b.output,), like=b.output.type)
    return Graph("g", (X,), (c.output,), (a, b, c))


def run(
    *strategies: Strategy, pattern: Pattern = CONV, name: str = "conv"
) -> tuple[Graph, dict[str, str]]:
    """The graph of a choice, and by node the reason why it is left."""
    patterns = (named(pattern, name),)
    graph, refusals = partition(network(), patterns, (), NAME)
    graph, left = choose(graph, accelerator(patterns, strategies), lambda node: 7, refusals)
    assert all(one.cycles == 7 for one in left)
    return graph, {one.node.name: one.reason for one in left}


def chosen(graph: Graph, name: str = "a") -> str | None:
    """The kernel of a composite; None where it is none."""
    (node,) = (n for n in graph.nodes if n.name == name)
    if not isinstance(node.op, Composite):
        return None
    assert node.op.chosen is not None
    return node.op.chosen.name


def one(level: int, name: str = "mine", **more: object) -> Strategy:
    return strategy("nn.conv2d", level, implementation(name, **more))


UNMATCHED = f"no pattern of {NAME} matches this node"


def test_a_level_above_the_core_s_wins() -> None:
    graph, left = run(one(11))
    assert chosen(graph) == "mine"
    assert left == {"b": UNMATCHED}


@pytest.mark.parametrize("level", [9, 10])
def test_the_core_wins_at_its_level_and_below(level: int) -> None:
    graph, left = run(one(level))
    assert graph == network()
    assert left["a"] == (
        f"the core's kernel, level 10, is preferred to {NAME}'s strategy of level {level}"
    )


def test_levels_9_11_and_12() -> None:
    levels = [one(level, f"of{level}") for level in (9, 12, 11)]
    assert chosen(run(*levels)[0]) == "of12"


def test_a_higher_level_wins_at_any_cost() -> None:
    assert chosen(run(one(11, "cheap", cycles=1), one(12, "dear", cycles=99))[0]) == "dear"


def test_within_a_level_the_cheapest_that_may() -> None:
    offered = (
        implementation("dear", 9),
        implementation("cheapest", 1, condition="the window is too large"),
        implementation("cheap", 5),
        implementation("as cheap", 5),
    )
    assert chosen(run(strategy("CONV_2D", 11, *offered))[0]) == "cheap"


def test_strategies_of_one_level_compete() -> None:
    assert chosen(run(one(11, "dear", cycles=9), one(11, "cheap", cycles=np.int64(4)))[0]) == (
        "cheap"
    )


def test_the_next_level_is_tried_if_no_condition_holds() -> None:
    graph, _ = run(one(12, condition="too wide"), one(11, "other"))
    assert chosen(graph) == "other"
    graph, left = run(one(12, condition="too wide"), one(11, "other", condition=False), one(9))
    assert graph == network()
    assert left["a"] == (
        f"no implementation of {NAME} accepts this node: "
        '"mine": too wide; "other": its condition does not hold'
    )


def test_a_strategy_may_offer_nothing() -> None:
    _, left = run(strategy("nn.conv2d", 11))
    assert left["a"] == f"{NAME}'s strategies of level 11 offer no implementation"


@pytest.mark.parametrize("op", ["Conv2D", "CONV_2D", "nn.conv2d", "qnn.conv2d", "conv"])
def test_a_strategy_goes_by_any_name_of_the_operator_or_by_the_pattern(op: str) -> None:
    assert chosen(run(strategy(op, 11, implementation("mine")))[0]) == "mine"


@pytest.mark.parametrize("name", ["nn.conv2d", "add"])
def test_a_pattern_may_have_the_name_of_an_operator(name: str) -> None:
    """A strategy of that name is for the pattern, and for the operator in other patterns, too."""
    patterns = (named(RELU, name), named(CONV, "other"))
    graph, _ = partition(network(), patterns, (), NAME)
    offered = (strategy(name, 11, implementation("mine")), one(12, "of conv"))
    graph, left = choose(graph, accelerator(patterns, offered[: 1 + (name == "add")]), lambda n: 0)
    assert (chosen(graph, "b"), left) == ("mine", ())
    assert chosen(graph, "a") == ("of conv" if name == "add" else "mine")


def test_matches_without_a_strategy_are_left_if_others_have_one() -> None:
    graph, left = run(one(11), pattern=EITHER)
    assert chosen(graph) == "mine"
    assert left == {"b": f"{NAME} has no strategy for Relu"}


def test_refusals_of_the_partitioning_are_reported() -> None:
    patterns = (named(CONV, "conv", predicate=lambda node: "not today"),)
    graph, refusals = partition(network(), patterns, (), NAME)
    _, left = choose(graph, accelerator(patterns), lambda node: 0, refusals)
    assert 'pattern "conv" matches, but is refused' in left[0].reason
    assert left[0].reason.endswith("not today")
    assert [one.node.origin for one in left] == ["node a", "node b"]


def test_attributes_that_passes_add_are_kept() -> None:
    patterns = (named(CONV, "conv"),)
    graph, _ = partition(network(), patterns, (), NAME)
    (node, *rest) = graph.nodes
    assert isinstance(node.op, Composite)
    marked = replace(node, op=replace(node.op, attributes=(*node.op.attributes, ("words", 3))))
    graph, _ = choose(
        graph.with_nodes((marked, *rest)), accelerator(patterns, (one(11),)), lambda node: 0
    )
    assert isinstance(graph.nodes[0].op, Composite)
    assert graph.nodes[0].op.attributes == (("region", 0), ("words", 3))


def test_the_strategy_sees_the_composite_and_the_target() -> None:
    seen: list[object] = []

    def look(node: Node, composite: Composite, target: object) -> list[Implementation]:
        seen.extend((node.name, composite.name, target.name))
        return [implementation("mine")]

    run(Strategy("nn.conv2d", look, 11))
    assert seen == ["a", "conv", NAME]


def test_composites_of_other_accelerators_are_not_claimed() -> None:
    patterns = (named(CONV, "conv"),)
    graph, _ = partition(network(), patterns, (), "other")
    result, left = choose(graph, accelerator(patterns, (one(11),)), lambda node: 0)
    assert result == graph
    assert [one.node.name for one in left] == ["b"]
    assert names(result) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "cost", [-1, float("nan"), float("inf"), None, "many", True, 1j, np.array([1, 2])]
)
def test_a_cost_that_is_no_number_of_cycles_is_refused(cost: object) -> None:
    with pytest.raises(BackendError, match=r"cost\(1\) is") as caught:
        run(one(11, cycles=cost))
    assert "mine" in caught.value.where


def test_cost_functions_are_validated_for_the_whole_output_too() -> None:
    with pytest.raises(BackendError, match=r"cost\(4\) is -2 cycles"):
        run(one(11, cycles=lambda rows: 2 - rows))


def test_a_cost_that_raises_or_is_missing_is_refused() -> None:
    with pytest.raises(BackendError, match="ZeroDivisionError"):
        run(one(11, cycles=lambda rows: 1 // (rows - rows)))
    with pytest.raises(BackendError, match="has no cost function"):
        run(strategy("nn.conv2d", 11, Implementation("mine", Kernel("mine"))))


@pytest.mark.parametrize("condition", [None, 1, "", lambda: True])
def test_a_condition_that_is_no_answer_is_refused(condition: object) -> None:
    with pytest.raises(BackendError, match="the rule returned"):
        run(one(11, condition=condition))


def test_a_strategy_that_raises_or_returns_something_else_is_refused() -> None:
    with pytest.raises(BackendError, match="KeyError"):
        run(Strategy("nn.conv2d", lambda node, op, target: {}["stride"], 11))
    with pytest.raises(BackendError, match="the strategy returned"):
        run(Strategy("nn.conv2d", lambda node, op, target: implementation("mine"), 11))


def test_a_strategy_for_no_operator_is_refused() -> None:
    with pytest.raises(BackendError, match=r'no operator "nn\.conv4d"') as caught:
        run(one(11), strategy("nn.conv4d", 11))
    assert "nn.conv2d" in caught.value.help
    with pytest.raises(BackendError, match=r'no operator of penstock is a "nn\.conv3d"'):
        run(one(11), strategy("nn.conv3d", 11))


def test_a_pattern_whose_matches_have_no_strategy_is_refused() -> None:
    with pytest.raises(BackendError, match="no strategy for it") as caught:
        run(strategy("nn.dense", 11))
    assert '_register_operator_strategy("Conv2D", strategy)' in caught.value.help
