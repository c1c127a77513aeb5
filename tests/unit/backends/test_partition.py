"""Partition and dissolve: claimed nodes, reasons of refusals, unchanged results."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from accelerators import NAME, named, names
from benchmarks.small_tensors import bias, int8, weights
from found import elements
from penstock.backends.accelerator import NamedPattern
from penstock.backends.partition import dissolve, partition
from penstock.backends.pattern import Pattern, is_op, wildcard
from penstock.backends.pattern_matching import matches
from penstock.errors import BackendError
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.verify import verify
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.convolutions import Conv2D
from penstock.ops.pool import MaxPool2D
from penstock.ops.row_vectors import Softmax
from penstock.ops.unary import Relu
from penstock.simulators.graph import run_graph
from small_networks import networks
from small_patterns import patternable, patterns
from strategies import graphs, node_of, seeds

X = Value("x", int8(1, 4, 4, 2))
ONE = Window(1)
CONV = is_op("nn.conv2d")(wildcard(), wildcard())
RELU = is_op("nn.relu")(wildcard())
CONV_RELU = is_op("nn.relu")(CONV)
CONV_MAYBE_RELU = CONV.optional(lambda x: is_op("nn.relu")(x))


def conv(name: str, x: Value) -> Node:
    kernel = weights(2, 1, 1, x.type.shape[3])
    return node_of(name, Conv2D(ONE, ONE), (x,), kernel, bias(2), like=x.type)


def relu(name: str, x: Value) -> Node:
    return node_of(name, Relu(), (x,))


def graph_of(*nodes: Node, outputs: tuple[Node, ...] = ()) -> Graph:
    return Graph("g", (X,), tuple(n.output for n in outputs or nodes[-1:]), nodes)


def conv_relu(*, shown: bool = False) -> Graph:
    """A convolution and a clamp of its own; `shown`: the convolution is an output, too."""
    first = conv("a", X)
    last = relu("b", first.output)
    return graph_of(first, last, outputs=(first, last) if shown else (last,))


def claims(graph: Graph) -> dict[str, list[str]]:
    """By composite, the pattern that found it and the names of its nodes."""
    return {
        node.name: [node.op.name, *(inner.name for inner in node.op.nodes)]
        for node in graph.nodes
        if isinstance(node.op, Composite)
    }


def regions(graph: Graph) -> dict[str, object]:
    composites = ((n.name, n.op) for n in graph.nodes if isinstance(n.op, Composite))
    return {name: op.attribute("region") for name, op in composites}


def test_a_match_becomes_one_node() -> None:
    graph, refusals = partition(conv_relu(), (named(CONV_RELU),), (), NAME)
    (node,) = graph.nodes
    assert isinstance(node.op, Composite)
    assert (node.op.name, node.op.engine, node.name) == ("p", NAME, "b")
    assert node.op.inputs == tuple(v.name for v in node.inputs) == ("x", "a/0", "a/1")
    assert node.origin == "node a, node b"
    assert refusals == {}


def test_options_are_taken() -> None:
    graph, _ = partition(conv_relu(), (named(CONV_MAYBE_RELU),), (), NAME)
    assert claims(graph) == {"b": ["p", "a", "b"]}


def test_the_first_pattern_has_the_first_choice() -> None:
    both = (named(CONV, "conv"), named(CONV_RELU, "both"))
    assert claims(partition(conv_relu(), both, (), NAME)[0]) == {"a": ["conv", "a"]}
    assert claims(partition(conv_relu(), both[::-1], (), NAME)[0]) == {"b": ["both", "a", "b"]}


def test_matching_starts_at_the_outputs() -> None:
    """Three convolutions in pairs: the last two are one."""
    a = conv("a", X)
    b = conv("b", a.output)
    c = conv("c", b.output)
    pair = is_op("Conv2D")(CONV, wildcard())
    assert claims(partition(graph_of(a, b, c), (named(pair),), (), NAME)[0]) == {
        "c": ["p", "b", "c"]
    }


def test_values_with_outside_readers_are_not_internal() -> None:
    graph, refusals = partition(conv_relu(shown=True), (named(CONV_RELU),), (), NAME)
    assert claims(graph) == {}
    why = 'pattern "p" matches, but "a" within it is an output of the network'
    assert refusals == {"a": why, "b": why}
    first = conv("a", X)
    last = relu("b", first.output)
    total = node_of("c", Add(), (first.output, last.output))
    _, refusals = partition(graph_of(first, last, total), (named(CONV_RELU),), (), NAME)
    assert refusals["a"] == 'pattern "p" matches, but "a" within it is read by "c", too'
    assert refusals["c"] == f"no pattern of {NAME} matches this node"


def test_where_the_larger_match_may_not_be_the_smaller_is() -> None:
    graph, refusals = partition(conv_relu(shown=True), (named(CONV_MAYBE_RELU),), (), NAME)
    assert claims(graph) == {"a": ["p", "a"]}
    assert refusals == {"b": 'pattern "p" matches, but "a" within it is an output of the network'}


def test_a_diamond_is_one_composite() -> None:
    first = conv("a", X)
    up, down = relu("b", first.output), node_of("c", Softmax(), (first.output,))
    total = node_of("d", Add(), (up.output, down.output))
    shared = is_op("Conv2D")
    diamond = is_op("add")(is_op("nn.relu")(shared), is_op("nn.softmax")(shared))
    graph, _ = partition(graph_of(first, up, down, total), (named(diamond),), (), NAME)
    assert claims(graph) == {"d": ["p", "a", "b", "c", "d"]}


def only_without_relu(node: Node) -> bool | str:
    """Chains have one node.

    More words."""
    assert isinstance(node.op, Composite)
    return len(node.op.nodes) == 1 or f"there are {len(node.op.nodes)}"


def never(node: Node) -> bool:
    return node is None


def test_predicates_and_constraints_see_the_composite_and_say_why() -> None:
    pattern = named(CONV_MAYBE_RELU, predicate=only_without_relu)
    graph, refusals = partition(conv_relu(), (pattern,), (), NAME)
    assert claims(graph) == {"a": ["p", "a"]}
    why = 'pattern "p" matches, but is refused: Chains have one node: there are 2'
    assert refusals == {"b": why}
    assert partition(conv_relu(), (named(CONV_RELU),), (only_without_relu,), NAME)[1] == {
        "a": why,
        "b": why,
    }


def test_a_rule_without_a_docstring_is_reported_by_name() -> None:
    _, refusals = partition(conv_relu(), (named(CONV),), (never,), NAME)
    assert refusals["a"] == 'pattern "p" matches, but is refused: its rule never'


def test_numpy_may_answer() -> None:
    graph, _ = partition(conv_relu(), (named(CONV),), (lambda node: np.bool_(True),), NAME)
    assert claims(graph) == {"a": ["p", "a"]}


@pytest.mark.parametrize("answer", [None, "", 1, [True], np.array([True, False])])
def test_other_answers_are_refused(answer: object) -> None:
    with pytest.raises(BackendError, match="the rule returned"):
        partition(conv_relu(), (named(CONV),), (lambda node: answer,), NAME)


def test_a_broken_rule_tells_more_than_a_reader_outside() -> None:
    every = (named(CONV_RELU, "both"), named(CONV, "one", predicate=never))
    _, refusals = partition(conv_relu(shown=True), every, (), NAME)
    assert refusals["a"] == 'pattern "one" matches, but is refused: its rule never'
    assert refusals["b"] == 'pattern "both" matches, but "a" within it is an output of the network'


def test_the_first_of_equally_ranked_reasons_is_reported() -> None:
    every = (named(CONV, "one", predicate=never), named(CONV, "two", predicate=never))
    _, refusals = partition(conv_relu(), every, (), NAME)
    assert refusals["a"] == 'pattern "one" matches, but is refused: its rule never'


def test_another_accelerator_s_composites_stay() -> None:
    first, _ = partition(conv_relu(), (named(CONV),), (), "other")
    second, refusals = partition(first, (named(CONV), named(RELU, "relu")), (), NAME)
    assert claims(second) == {"a": ["p", "a"], "b": ["relu", "b"]}
    assert [n.op.engine for n in second.nodes if isinstance(n.op, Composite)] == ["other", NAME]
    assert refusals == {}


def chain() -> Graph:
    a = conv("a", X)
    b = conv("b", a.output)
    c = node_of("c", Softmax(), (b.output,))
    d = conv("d", c.output)
    return graph_of(a, b, c, d)


def test_neighbours_are_one_region() -> None:
    patterns = (named(CONV),)
    assert regions(partition(chain(), patterns, (), NAME)[0]) == {"a": 0, "b": 0, "d": 1}
    apart = partition(chain(), patterns, (), NAME, merge=False)[0]
    assert regions(apart) == {"a": 0, "b": 1, "d": 2}


def test_a_region_is_not_left_and_entered_again() -> None:
    a = conv("a", X)
    between = node_of("s", Softmax(), (a.output,))
    b = node_of("b", Add(), (a.output, between.output))
    graph, _ = partition(graph_of(a, between, b), (named(CONV), named(is_op("add"), "q")), (), NAME)
    assert regions(graph) == {"a": 0, "b": 1}


def test_two_regions_do_not_wait_for_each_other() -> None:
    """a1 -> a2 and b1 -> b2 are neighbours; a1 -> s -> b2 and b1 -> t -> a2 lead through others."""
    pool = MaxPool2D(ONE, ONE)
    a1, b1 = conv("a1", X), conv("b1", X)
    s, t = (node_of(n, pool, (m.output,), like=X.type) for n, m in (("s", a1), ("t", b1)))
    a2 = node_of("a2", Add(), (a1.output, t.output))
    b2 = node_of("b2", Add(), (b1.output, s.output))
    graph = graph_of(a1, b1, s, t, a2, b2, outputs=(a2, b2))
    found, _ = partition(graph, (named(CONV), named(is_op("add"), "q")), (), NAME)
    assert regions(found) == {"a1": 0, "b1": 1, "a2": 0, "b2": 2}


def test_dissolving_some_leaves_the_others() -> None:
    graph, _ = partition(chain(), (named(CONV),), (), NAME)
    assert claims(dissolve(graph, {"b"})) == {"a": ["p", "a"], "d": ["p", "d"]}
    assert names(dissolve(graph, {"b"})) == names(chain())


def test_dissolving_restores_the_order_of_nodes() -> None:
    graph, _ = partition(conv_relu(), (named(CONV_RELU),), (), NAME)
    assert dissolve(graph, names(graph)) == conv_relu()


small = st.one_of(graphs(most_nodes=6), networks(most_parts=6))


def several(data: st.DataObject, graph: Graph) -> tuple[NamedPattern, ...]:
    """One to three patterns for a graph."""
    assume(patternable(graph))
    count = data.draw(st.integers(1, 3))
    return tuple(named(data.draw(patterns(graph)), f"p{k}") for k in range(count))


def outputs_of(graph: Graph, seed: int) -> list[np.ndarray]:
    inputs = {v.name: elements(v.type, seed + k) for k, v in enumerate(graph.inputs)}
    values = run_graph(graph, inputs)
    return [values[v.name] for v in graph.outputs]


@given(data=st.data(), graph=small, merge=st.booleans())
def test_dissolving_undoes_partition(data: st.DataObject, graph: Graph, merge: bool) -> None:
    found, _ = partition(graph, several(data, graph), (), NAME, merge)
    back = dissolve(found, names(found))
    verify(back)
    assert set(back.nodes) == set(graph.nodes)
    assert len(back.nodes) == len(graph.nodes)
    assert (back.inputs, back.outputs) == (graph.inputs, graph.outputs)


@given(data=st.data(), graph=small, seed=seeds)
def test_a_partitioned_graph_computes_the_same(
    data: st.DataObject, graph: Graph, seed: int
) -> None:
    found, _ = partition(graph, several(data, graph), (), NAME)
    verify(found)
    for mine, theirs in zip(outputs_of(found, seed), outputs_of(graph, seed), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@given(data=st.data(), graph=small)
def test_every_node_is_claimed_once_or_refused(data: st.DataObject, graph: Graph) -> None:
    found, refusals = partition(graph, several(data, graph), (), NAME)
    inside = [name for claimed in claims(found).values() for name in claimed[1:]]
    assert sorted([*inside, *refusals]) == sorted(names(graph))
    assert set(refusals) == {n.name for n in found.nodes if not isinstance(n.op, Composite)}


def sees_outside(graph: Graph, inside: frozenset[str], last: str) -> bool:
    """Whether something that is computed inside, other than the last, is seen outside."""
    shown = {v.name for v in graph.outputs}
    return any(
        name in shown or any(name in {v.name for v in n.inputs} for n in graph.nodes
                             if n.name not in inside)
        for name in inside - {last}
    )  # fmt: skip


@given(data=st.data(), graph=small)
def test_nothing_that_could_be_claimed_is_left(data: st.DataObject, graph: Graph) -> None:
    """No match of any pattern consists of nodes that stay with the processor."""
    patterns = several(data, graph)
    _, refusals = partition(graph, patterns, (), NAME)
    producers = graph.producers()
    for pattern in patterns:
        for node in graph.nodes:
            for match in matches(pattern.pattern, node, producers):
                free = match <= set(refusals)
                assert not free or sees_outside(graph, match, node.name)


def contracted(graph: Graph, found: Graph) -> dict[object, set[object]]:
    """Who reads whom, regions and single nodes being what reads."""
    number = regions(found)
    group: dict[str, object] = {n.name: number.get(n.name, n.name) for n in found.nodes}
    edges: dict[object, set[object]] = {g: set() for g in group.values()}
    for node in found.nodes:
        sources = {group[v.name] for v in node.inputs if v.name in group}
        edges[group[node.name]] |= sources - {group[node.name]}
    return edges


@given(data=st.data(), graph=small)
def test_regions_can_be_run_one_after_the_other(data: st.DataObject, graph: Graph) -> None:
    found, _ = partition(graph, several(data, graph), (), NAME)
    edges = contracted(graph, found)
    while edges:
        free = {group for group, sources in edges.items() if not sources & set(edges)}
        assert free, "regions wait for each other"
        edges = {group: sources for group, sources in edges.items() if group not in free}


@given(data=st.data(), graph=small)
def test_a_region_hangs_together(data: st.DataObject, graph: Graph) -> None:
    """Numbers count from 0 without a gap, and every region is connected."""
    found, _ = partition(graph, several(data, graph), (), NAME)
    number = regions(found)
    assert sorted(set(number.values())) == list(range(len(set(number.values()))))
    for region in set(number.values()):
        reached, members = set[str](), [name for name in number if number[name] == region]
        reads = {n.name: {v.name for v in n.inputs} for n in found.nodes}
        waiting = members[:1]
        while waiting:
            name = waiting.pop()
            reached.add(name)
            near = [m for m in members if m in reads[name] or name in reads[m]]
            waiting += [m for m in near if m not in reached]
        assert reached == set(members)


def test_patterns_take_in_turn() -> None:
    a = conv("a", X)
    b = relu("b", a.output)
    c = conv("c", b.output)
    d = relu("d", c.output)
    ordered: list[Pattern] = [CONV_RELU, RELU, CONV]
    found = [
        claims(partition(graph_of(a, b, c, d), (named(one), named(other, "q")), (), NAME)[0])
        for one, other in pairwise(ordered)
    ]
    assert found == [
        {"b": ["p", "a", "b"], "d": ["p", "c", "d"]},
        {"a": ["q", "a"], "b": ["p", "b"], "c": ["q", "c"], "d": ["p", "d"]},
    ]
