"""Patterns: their matches, by hand and against an exhaustive matcher."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.small_tensors import bias, int8, weights
from pattern_judge import all_matches
from penstock.backends.operator_names import Fused, is_called, meanings
from penstock.backends.pattern import Pattern, is_constant, is_op, wildcard
from penstock.backends.pattern_matching import matches
from penstock.errors import BackendError
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import Quantisation
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.comparisons import Compare, Relation
from penstock.ops.concatenation import Concatenation
from penstock.ops.convolutions import Conv2D
from penstock.ops.pool import AveragePool2D
from penstock.ops.registry import foreign_names, operators
from penstock.ops.sums import Mean
from penstock.ops.unary import Relu
from small_networks import networks
from small_patterns import patternable, patterns
from strategies import graphs, node_of

ONE = Window(1)
X = Value("x", int8(1, 4, 4, 2))


def convolution(
    name: str = "y",
    x: Value = X,
    activation: Activation = Activation.NONE,
    rows: Window = ONE,
    columns: Window = ONE,
) -> Node:
    kernel = weights(2, rows.size, columns.size, x.type.shape[3])
    return node_of(name, Conv2D(rows, columns, activation), (x,), kernel, bias(2), like=x.type)


def found(pattern: Pattern, *nodes: Node) -> list[set[str]]:
    """Names of the matches that end with the last node, in order."""
    producers = {node.name: node for node in nodes}
    return [set(names) for names in matches(pattern, nodes[-1], producers)]


def conv(*more: Pattern) -> Pattern:
    return is_op("nn.conv2d")(wildcard(), wildcard(), *more)


CHAIN = {
    "the operator alone": conv(),
    "the operator with its bias": conv(is_constant()),
    "bias": is_op("nn.bias_add")(conv(), wildcard()),
    "bias and clamp": is_op("nn.relu")(is_op("nn.bias_add")(conv(), is_constant())),
    "clamp": is_op("nn.relu")(conv()),
    "all": is_op("nn.relu")(is_op("qnn.requantize")(is_op("nn.bias_add")(conv(), wildcard()))),
    "optional bias and clamp": conv()
    .optional(lambda x: is_op("nn.bias_add")(x, wildcard()))
    .optional(lambda x: is_op("nn.relu")(x)),
    "the RFC's own names, without arguments": is_op("nn.relu")(is_op("nn.conv2d")),
}


@pytest.mark.parametrize("name", CHAIN)
def test_a_fused_layer_is_seen_as_a_chain(name: str) -> None:
    assert found(CHAIN[name], convolution(activation=Activation.RELU)) == [{"y"}]


def test_what_is_not_fused_does_not_match() -> None:
    plain, six = convolution(), convolution(activation=Activation.RELU6)
    assert found(CHAIN["bias and clamp"], plain) == []
    assert found(CHAIN["bias and clamp"], six) == []
    assert found(is_op("clip")(conv()), six) == [{"y"}]
    assert found(is_op("RELU6")(conv()), six) == [{"y"}]


def test_a_clamp_that_is_a_node_of_its_own_matches_as_well() -> None:
    first = convolution("a")
    clamp = node_of("y", Relu(), (first.output,))
    assert found(CHAIN["bias and clamp"], first, clamp) == [{"a", "y"}]
    assert found(CHAIN["optional bias and clamp"], first, clamp) == [{"a", "y"}]
    assert found(CHAIN["optional bias and clamp"], first) == [{"a"}]


@pytest.mark.parametrize(("zero_point", "matched"), [(-128, [{"y"}]), (-127, [])])
def test_a_clamp_that_a_quantiser_leaves_out_matches(
    zero_point: int, matched: list[set[str]]
) -> None:
    """Elements that all stand for numbers from 0 on are as clamped."""
    node = convolution()
    type = replace(node.output.type, quantisation=Quantisation((0.1,), (zero_point,)))
    node = replace(node, output=Value("y", type))
    assert found(is_op("nn.relu")(conv()), node) == matched
    assert found(is_op("RELU6")(conv()), node) == []
    assert found(conv().has_attr({"activation": "NONE"}), node) == [{"y"}]


def test_nothing_is_cut_out_of_a_node() -> None:
    assert found(is_op("nn.relu")(wildcard()), convolution(activation=Activation.RELU)) == []
    assert found(is_op("nn.relu")(wildcard()), node_of("y", Relu(), (X,))) == [{"y"}]


def test_scales_and_zero_points_may_be_named_in_qnn_operators() -> None:
    numbers = tuple(is_constant() for _ in range(4))
    pattern = is_op("qnn.conv2d")(wildcard(), is_constant(), *numbers)
    assert found(pattern, convolution()) == [{"y"}]
    assert found(is_op("qnn.conv2d")(wildcard(), is_constant()), convolution()) == [{"y"}]
    refused = is_op("qnn.conv2d")(is_constant(), is_constant(), *numbers)
    assert found(refused, convolution()) == []


def test_a_convolution_along_one_axis() -> None:
    one = is_op("nn.conv1d")(wildcard(), wildcard())
    flat, tall = Value("x", int8(1, 1, 9, 2)), Value("x", int8(1, 9, 1, 2))
    assert found(one, convolution(x=flat, columns=Window(3))) == [{"y"}]
    assert found(one, convolution(x=tall, rows=Window(3))) == [{"y"}]
    assert found(one, convolution(columns=Window(3))) == []
    padded = Window(3, before=1, after=1)
    assert found(one, convolution(x=flat, rows=padded, columns=Window(3))) == []


def test_pooling_of_a_whole_image() -> None:
    whole = is_op("nn.global_avg_pool2d")(wildcard())
    assert found(whole, node_of("y", Mean((1, 2)), (X,))) == [{"y"}]
    assert found(whole, node_of("y", Mean((1,)), (X,))) == []
    assert found(whole, node_of("y", AveragePool2D(Window(4), Window(4)), (X,))) == [{"y"}]
    assert found(whole, node_of("y", AveragePool2D(Window(2), Window(2)), (X,))) == []


def test_attributes_are_fields_and_fields_of_fields() -> None:
    node = convolution(rows=Window(2, 2), activation=Activation.RELU)
    assert found(conv().has_attr({"rows.stride": 2, "activation": "RELU"}), node) == [{"y"}]
    assert found(conv().has_attr({"rows.stride": 1}), node) == []
    assert found(conv().has_attr({"columns": Window(1)}), node) == [{"y"}]
    mean = node_of("y", Mean((1, 2)), (X,))
    assert found(is_op("mean")(wildcard()).has_attr({"axes": [1, 2]}), mean) == [{"y"}]
    assert found(wildcard().has_attr({"axes": (1, 2)}), mean) == []


def test_names_that_say_more_than_their_operator() -> None:
    relation = node_of("y", Compare(Relation.LESS), (X, Value("z", X.type)))
    assert is_called("LESS", relation)
    assert is_called("Compare", relation)
    assert not is_called("GREATER", relation)


def test_sums_match_in_either_order() -> None:
    first = convolution("a")
    pattern = is_op("add")(conv(), wildcard())
    other = Value("z", first.output.type)
    for operands in ((first.output, other), (other, first.output)):
        assert found(pattern, first, node_of("y", Add(), operands)) == [{"a", "y"}]


def test_a_repeated_pattern_object_matches_one_value() -> None:
    x = wildcard()
    pattern = is_op("add")(is_op("nn.relu")(x), x)
    clamp = node_of("a", Relu(), (X,))
    assert found(pattern, clamp, node_of("y", Add(), (clamp.output, X))) == [{"a", "y"}]
    other = Value("z", X.type)
    assert found(pattern, clamp, node_of("y", Add(), (clamp.output, other))) == []


def test_an_operator_of_any_number_of_inputs() -> None:
    join = node_of("y", Concatenation(3), (X, Value("z", X.type), Value("k", X.type)))
    assert found(is_op("concatenate"), join) == [{"y"}]
    assert found(is_op("concatenate")(wildcard(), wildcard(), wildcard()), join) == [{"y"}]
    assert found(is_op("concatenate")(wildcard(), wildcard()), join) == []


def test_larger_matches_come_first() -> None:
    first = convolution("a")
    clamp = node_of("y", Relu(), (first.output,))
    pattern = is_op("nn.relu")(wildcard()) | is_op("nn.relu")(conv())
    assert found(pattern, first, clamp) == [{"a", "y"}, {"y"}]


def test_options_of_options_take_no_time() -> None:
    """30 options of one operator over a chain of 32 can be taken in more than 10**9 ways."""
    nodes = [node_of("n0", Relu(), (X,))]
    pattern: Pattern = is_op("nn.relu")(wildcard())
    for k in range(1, 32):
        nodes.append(node_of(f"n{k}", Relu(), (nodes[-1].output,)))
    for _ in range(30):
        pattern = pattern.optional(lambda x: is_op("nn.relu")(x))
    assert [len(names) for names in found(pattern, *nodes)] == list(range(31, 0, -1))


def test_every_operator_has_its_names() -> None:
    assert set(meanings()) >= {*operators(), *foreign_names()}
    kinds = {kind for meant in meanings().values() for kind in meant.kinds}
    assert kinds - set(operators().values()) == set(Fused)


def test_patterns_are_frozen_and_compare_by_identity() -> None:
    pattern = is_op("nn.relu")(wildcard())
    assert pattern != is_op("nn.relu")(wildcard())
    with pytest.raises(FrozenInstanceError):
        pattern.name = "nn.softmax"  # pyright: ignore[reportAttributeAccessIssue]


def test_has_attr_may_name_an_attribute_of_one_alternative() -> None:
    either = is_op("nn.softmax")(wildcard()) | is_op("nn.relu")(wildcard())
    assert found(either.has_attr({"activation": "RELU"}), node_of("y", Relu(), (X,))) == [{"y"}]
    with pytest.raises(BackendError, match="have no attribute"):
        either.has_attr({"axes": 1})
    with pytest.raises(BackendError, match="\"activation\" is 'relu', must be one of NONE, RELU"):
        either.has_attr({"activation": "relu"})


@given(data=st.data(), graph=st.one_of(graphs(most_nodes=4), networks(most_parts=4)))
def test_a_matcher_that_writes_everything_down_agrees(data: st.DataObject, graph: Graph) -> None:
    assume(patternable(graph))
    pattern = data.draw(patterns(graph))
    producers = graph.producers()
    for node in graph.nodes:
        mine = matches(pattern, node, producers)
        assert set(mine) == all_matches(pattern, node, graph)
        assert [len(m) for m in mine] == sorted(map(len, mine), reverse=True)
        assert len(set(mine)) == len(mine)
