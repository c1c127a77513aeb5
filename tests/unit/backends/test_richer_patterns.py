"""Patterns of tuples, types, shapes, dominators, constants and attributes: matches, near misses and
their explanations."""

# pyright: reportUnknownLambdaType=false, reportAttributeAccessIssue=false, reportIndexIssue=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

import penstock
from benchmarks.small_tensors import bias, int8, weights
from command_line import CommandLine
from examples.uma.patterns import LIMITS, Pooler, limits, near_misses, network
from penstock import api
from penstock.backends import partition
from penstock.backends.accelerator import Accelerator
from penstock.backends.kernel_choice import with_chosen_kernels
from penstock.backends.pattern import Pattern, is_constant, is_op, is_tuple, wildcard
from penstock.backends.pattern_matching import matches
from penstock.backends.pattern_mismatch import mismatch
from penstock.backends.uma import backend as facade
from penstock.errors import BackendError
from penstock.frontends.calibrated_graph import Weights
from penstock.ir.graph import Node, Value
from penstock.ir.tensor import DType
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.concatenation import Concatenation
from penstock.ops.convolutions import Conv2D
from penstock.ops.row_vectors import Softmax
from penstock.ops.unary import Relu
from strategies import node_of

X = Value("x", int8(1, 4, 4, 2))
CONV = node_of("a", Conv2D(Window(1), Window(1)), (X,), weights(2, 1, 1, 2), bias(2))
SIX = replace(CONV, op=Conv2D(Window(1), Window(1), activation=Activation.RELU6))
CLAMP = node_of("b", Relu(Activation.RELU), (CONV.output,))
SOFT = node_of("b", Softmax(1.0), (CONV.output,))
BESIDE = node_of("b", Relu(Activation.RELU), (X,))


def joined(*inputs: Value) -> Node:
    return node_of("y", Concatenation(3), inputs)


def total(other: Node) -> Node:
    return node_of("y", Add(Activation.NONE), (CONV.output, other.output))


conv, relu = is_op("nn.conv2d"), is_op("nn.relu")(wildcard())
diamond = is_op("add")(wildcard(), wildcard()).dominates(conv, relu)
two = is_op("concatenate")(is_tuple([conv, wildcard()]))

Case = tuple[Pattern, tuple[Node, ...], set[str]]
FOUND: Mapping[str, Case] = {
    "a tuple": (two, (CONV, joined(CONV.output, X)), {"a", "y"}),
    "one of two tuples": (
        is_op("concatenate")(is_tuple([wildcard()]) | is_tuple([wildcard(), conv])),
        (CONV, joined(X, CONV.output)), {"a", "y"},
    ),
    "any tuple": (is_op("concatenate")(is_tuple()), (CONV, joined(X, CONV.output)), {"y"}),
    "an element type": (conv.has_dtype("int8"), (CONV,), {"a"}),
    "an element type of an operand": (
        conv(wildcard().has_dtype(DType.INT8), wildcard(), wildcard().has_dtype("int32")),
        (CONV,), {"a"},
    ),
    "a shape": (conv.has_shape((1, None, lambda w: w < 5, 2)), (CONV,), {"a"}),
    "a dominator": (diamond, (CONV, CLAMP, total(CLAMP)), {"a", "b", "y"}),
    "a dominator next to its operator": (
        is_op("nn.relu")(wildcard()).dominates(conv), (CONV, CLAMP), {"a", "b"},
    ),
    "a dominator by any path": (
        is_op("add")(wildcard(), wildcard()).dominates(conv), (CONV, SOFT, total(SOFT)),
        {"a", "b", "y"},
    ),
    "an attribute": (conv.has_attr({"rows.size": lambda s: s < 3}), (CONV,), {"a"}),
    "a member": (relu.has_attr({"activation": lambda a: a != "RELU6"}), (BESIDE,), {"b"}),
}  # fmt: skip
MISSED: Mapping[str, tuple[Pattern, tuple[Node, ...], str]] = {
    "a tuple of three": (
        is_op("concatenate")(is_tuple([wildcard()] * 3)), (CONV, joined(X, CONV.output)),
        "concatenate((*, *, *)) does not match: the node has 2 operands here, the pattern 3",
    ),
    "a tuple of three with an attribute": (
        is_op("concatenate")(is_tuple([wildcard()] * 3)).has_attr({"axis": 3}),
        (CONV, joined(X, CONV.output)),
        "concatenate((*, *, *)) does not match: the node has 2 operands here, the pattern 3",
    ),
    "a tuple in another order": (
        two, (CONV, joined(X, CONV.output)),
        'argument 0 of concatenate, nn.conv2d, does not match: "x" is an input of the network, not '
        "the result of a node",
    ),
    "another element type": (
        conv.has_dtype("int16"), (CONV,),
        'nn.conv2d: int16 does not match: of "a", the element type is int8, must be int16',
    ),
    "another rank": (
        conv.has_shape((1, None)), (CONV,),
        'nn.conv2d: [1, ?] does not match: of "a", the rank is 4, must be 2',
    ),
    "another extent": (
        conv.has_shape((1, 4, 5, 2)), (CONV,),
        'nn.conv2d: [1, 4, 5, 2] does not match: of "a", axis 2 is 4, must be 5',
    ),
    "a path through another operator": (
        diamond, (CONV, SOFT, total(SOFT)),
        'path nn.relu(*) does not match: a path to "y" avoids the dominator nn.conv2d: "b" is '
        "computed by Softmax",
    ),
    "a path that begins elsewhere": (
        diamond, (CONV, BESIDE, total(BESIDE)),
        'path nn.relu(*) does not match: a path to "y" avoids the dominator nn.conv2d: "x" is an '
        "input of the network, not the result of a node",
    ),
    "a computed operand": (
        is_op("add")(wildcard(), is_constant(0)), (CONV, CLAMP, total(CLAMP)),
        'argument 1 of add, constant 0, does not match: "b" is computed by Relu',
    ),
    "other elements": (
        conv(wildcard(), is_constant(77), wildcard()), (CONV,),
        "argument 1 of nn.conv2d, constant 77, does not match: the elements of "
        f'"{CONV.inputs[1].name}" differ',
    ),
    "another attribute": (
        conv.has_attr({"rows.size": lambda s: s > 1}), (CONV,),
        'nn.conv2d{rows.size=<lambda>} does not match: rows.size of "a" is 1, which <lambda> '
        "rejects",
    ),
    "another clamp": (
        is_op("nn.relu")(is_op("nn.bias_add")(conv, is_constant())), (SIX,),
        'nn.relu(nn.bias_add(nn.conv2d, constant)) does not match: activation of "a" is RELU6, '
        "must be RELU; names of this operator are RELU6, Relu, clip",
    ),
}  # fmt: skip


def producers(nodes: tuple[Node, ...]) -> Mapping[str, Node]:
    return {node.name: node for node in nodes}


@pytest.mark.parametrize("name", FOUND)
def test_it_matches(name: str) -> None:
    pattern, nodes, wanted = FOUND[name]
    assert matches(pattern, nodes[-1], producers(nodes))[0] == wanted
    assert mismatch(pattern, nodes[-1], producers(nodes)) is None


@pytest.mark.parametrize("name", MISSED)
def test_a_near_miss_is_explained(name: str) -> None:
    pattern, nodes, reason = MISSED[name]
    assert matches(pattern, nodes[-1], producers(nodes)) == ()
    assert str(mismatch(pattern, nodes[-1], producers(nodes))) == reason


@pytest.mark.parametrize(
    ("value", "accepted"),
    [(3, True), (4, False), (np.full((2, 1, 1, 2), 3), True), (np.full(4, 3), False),
     (lambda w: w.max() == 3, True), (lambda w: w.max() == 4, False)],
)  # fmt: skip
def test_constants_have_values(value: object, accepted: bool) -> None:
    kernel = np.full((2, 1, 1, 2), 3, np.int8)
    net = penstock.GraphBuilder("net")
    offsets = np.zeros(2, np.int32)
    y = net.conv2d(
        net.input((1, 4, 4, 2)), 2, 1, weights=Weights(kernel, (0.5,), offsets), name="y"
    )
    (node,) = net.build(y).nodes
    pattern = conv(wildcard(), is_constant(value), wildcard())  # pyright: ignore[reportArgumentType]
    assert bool(matches(pattern, node, {"y": node})) == accepted


@pytest.mark.parametrize(
    "pattern",
    [conv.has_attr({"rows.size": lambda s: s.width}), conv.has_shape((1, lambda e: e[0], 4, 2)),
     conv(wildcard(), is_constant(lambda w: w.no_such_name), wildcard())],
)  # fmt: skip
def test_a_predicate_that_fails_is_reported(pattern: Pattern) -> None:
    with pytest.raises(BackendError) as caught:
        matches(pattern, CONV, {"a": CONV})
    assert caught.value.code == "backend-042"
    assert "test_richer_patterns.py" in caught.value.where


@pytest.fixture
def pooler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facade, "REGISTERED", {})
    Pooler().register()


def test_a_diamond_is_one_command_and_exact_on_every_rung(pooler: None) -> None:
    done = penstock.verify(network(), "cortex-m4", accelerators=("pooler",))
    assert {r.step: r.comparison.mismatches for r in done.rungs} == {
        "machine": 0, "host": 0, "core": 0,
    }  # fmt: skip
    assert done.compiled.bundle()["diamond.c"].count(b"pooler_run(") == 1


def test_patterns_of_constants_claim_layers_that_are_exact_on_every_rung(pooler: None) -> None:
    done = penstock.verify(limits(), "cortex-m4", accelerators=("pooler",))
    assert [node.kind for node in done.compiled.compilation.graph.nodes] == [*LIMITS]
    assert [(rung.step, rung.mismatches) for rung in done.rungs] == [
        ("machine", 0), ("host", 0), ("core", 0),
    ]  # fmt: skip


def test_a_near_miss_of_each_kind_stays_with_the_processor(pooler: None) -> None:
    """docs/tutorials/uma.md states the reasons."""
    for graph, pattern, name in near_misses().values():
        wanted = api.request(graph, "host", accelerators=("pooler",))
        lines = api.explain_pattern(wanted, name)
        assert lines[-1] == "engine: cpu: no pattern of pooler matches this node"
        (line,) = (line for line in lines if line.startswith(f'  pattern "{pattern}": '))
        assert " does not match: " in line


@pytest.mark.parametrize(
    ("make", "reason"),
    [(lambda: network(channels=3), "axis 3 is 3, which <lambda> rejects"),
     (lambda: network(window=3), 'rows.size of "pool" is 3, must be 2')],
)  # fmt: skip
def test_the_command_says_which_part_of_a_pattern_fails(
    pooler: None, make: Callable[[], penstock.Graph], reason: str
) -> None:
    wanted = api.request(make(), "host", accelerators=("pooler",))
    lines = api.explain_pattern(wanted, "both")
    assert lines[1].endswith(reason)
    assert lines[-1] == "engine: cpu: no pattern of pooler matches this node"


def test_the_command_line_explains_patterns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = CommandLine(monkeypatch, capsys)(
        "show", "zoo:lenet5", "--accelerator", "vanilla", "--explain-pattern", "pool1"
    )
    assert said.out.splitlines() == [
        "vanilla:",
        '  pattern "conv2d": nn.conv2d(*, constant) does not match: '
        '"pool1" is computed by MaxPool2D',
        "engine: cpu: no pattern of vanilla matches this node",
    ]


@pytest.mark.parametrize(("node", "asked"), [("conv2", {"conv2"}), ("pool1", set[str]())])
def test_an_explanation_evaluates_no_costs_of_other_layers(
    monkeypatch: pytest.MonkeyPatch, node: str, asked: set[str]
) -> None:
    seen: set[str] = set()

    def chosen(composite: Node, accelerator: Accelerator) -> Node | str:
        seen.add(composite.name)
        return with_chosen_kernels(composite, accelerator)

    monkeypatch.setattr(partition, "with_chosen_kernels", chosen)
    api.explain_pattern(api.request("zoo:lenet5", "host", accelerators=("vanilla",)), node)
    assert seen == asked
