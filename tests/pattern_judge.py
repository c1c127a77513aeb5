"""An exhaustive reference for the pattern matcher, which shares no code with it.

It enumerates every expression of operators that denotes a value and every choice of the
alternatives of a pattern, and compares them. It has its own names of the few operators of the small
graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from penstock.backends.pattern import Constant, Either, Having, Operator, Pattern, Wildcard
from penstock.ir.graph import Graph, Node, Value

SPELLINGS = {
    "Conv2D": ("Conv2D", "CONV_2D", "nn.conv2d"),
    "DepthwiseConv2D": ("DepthwiseConv2D", "DEPTHWISE_CONV_2D", "nn.depthwise_conv2d"),
    "FullyConnected": ("FullyConnected", "FULLY_CONNECTED", "nn.dense"),
    "Add": ("Add", "ADD", "add"),
    "MaxPool2D": ("MaxPool2D", "MAX_POOL_2D", "nn.max_pool2d"),
    "AveragePool2D": ("AveragePool2D", "AVERAGE_POOL_2D", "nn.avg_pool2d"),
    "Pad": ("Pad", "PAD", "nn.pad"),
    "Quantize": ("Quantize", "QUANTIZE", "qnn.requantize"),
    "Softmax": ("Softmax", "SOFTMAX", "nn.softmax"),
    "Reshape": ("Reshape", "RESHAPE", "reshape"),
}
Around = tuple[tuple[str, ...], tuple[Value, ...]]
"""Names and further operands of what a node does after its operator."""
LAYERS = ("Conv2D", "DepthwiseConv2D", "FullyConnected")


@dataclass(frozen=True)
class Leaf:
    """A value without further structure."""

    place: object
    constant: bool


@dataclass(frozen=True)
class Apply:
    """An operator application: every name of the operator, and the operands."""

    place: object
    node: Node
    names: tuple[str, ...]
    operands: tuple[Leaf | Apply, ...]
    through: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Choice:
    """A pattern without alternatives: its identities, its kind, its arguments."""

    objects: tuple[int, ...]
    pattern: Pattern
    attributes: tuple[tuple[str, object], ...]
    arguments: tuple[Choice, ...]


def clamp_of(node: Node) -> str:
    """The activation of a node, or the one that its zero point implies."""
    activation = getattr(node.op, "activation", None)
    q = node.output.type.quantisation
    if activation is None or activation.name != "NONE" or q is None:
        return "NONE" if activation is None else activation.name
    return "RELU" if {*q.zero_points} == {node.output.type.dtype.lower} else "NONE"


def clamp_names(activation: str) -> tuple[str, ...]:
    return ("Relu", "clip", activation, *(("nn.relu",) if activation == "RELU" else ()))


def spellings(
    value: Value, graph: Graph, most: int, *, is_last: bool = False
) -> list[Leaf | Apply]:
    """Expressions of a value: a leaf, and operator applications up to a depth.

    is_last: whether the value is the result of the match.  Before it, reshapes that only add or
        drop axes of extent 1 are looked through."""
    place = (value.name, 0)
    found: list[Leaf | Apply] = [Leaf(place, value.data is not None)]
    node = next((n for n in graph.nodes if n.name == value.name), None)
    if node is None or not most:
        return found
    found += _of_node(node, graph, most)
    shapes = [[n for n in v.type.shape if n > 1] for v in (*node.inputs, node.output)]
    if node.kind == "Reshape" and not is_last and shapes[0] == shapes[-1]:
        inside = spellings(node.inputs[0], graph, most)
        found += (
            replace(one, place=place, through=one.through | {node.name})
            for one in inside
            if isinstance(one, Apply)
        )
    return found


def _of_node(node: Node, graph: Graph, most: int) -> Iterator[Apply]:
    """Every expression of a node: its operator with some of the operations around it."""
    around: list[Around] = []
    if (activation := clamp_of(node)) != "NONE" and node.kind != "Relu":
        around.append((clamp_names(activation), ()))
    if node.kind in LAYERS:
        around += [(("qnn.requantize",), ()), (("nn.bias_add",), (node.inputs[2],))]
    for kept in product((False, True), repeat=len(around)):
        if sum(kept) < most:
            yield from _nested(
                node, [k for k, yes in enumerate(kept) if yes], around, graph, most, (node.name, 0)
            )


def _nested(
    node: Node, kept: list[int], around: list[Around], graph: Graph, most: int, place: object
) -> Iterator[Apply]:
    """Expressions with some of the outer operators; the others are omitted."""
    if not kept:
        yield from _core(node, graph, most, place)
        return
    names, others = around[kept[0]]
    for inner in _nested(node, kept[1:], around, graph, most - 1, (node.name, kept[0] + 1)):
        for rest in product(*(spellings(v, graph, most - 1) for v in others)):
            yield Apply(place, node, names, (inner, *rest))


def _core(node: Node, graph: Graph, most: int, place: object) -> Iterator[Apply]:
    names = SPELLINGS.get(node.kind, ())
    if node.kind == "Relu":
        names = clamp_names(clamp_of(node))
    ways = [node.inputs]
    if node.kind in LAYERS:
        ways.append(node.inputs[:2])
    if node.kind == "Add":
        ways.append((node.inputs[1], node.inputs[0]))
    for way in ways:
        for operands in product(*(spellings(v, graph, most - 1) for v in way)):
            yield Apply(place, node, names, operands)


def choices(pattern: Pattern) -> list[Choice]:
    """The pattern with each choice of its alternatives."""
    match pattern:
        case Either(first, second):
            inner = choices(first) + choices(second)
        case Having(one, attributes):
            inner = [
                Choice(c.objects, c.pattern, c.attributes + attributes, c.arguments)
                for c in choices(one)
            ]
        case Operator(_, arguments) if arguments is not None:
            every = product(*map(choices, arguments))
            inner = [Choice((), pattern, (), chosen) for chosen in every]
        case _:
            inner = [Choice((), pattern, (), ())]
    return [Choice((id(pattern), *c.objects), c.pattern, c.attributes, c.arguments) for c in inner]


def compare(choice: Choice, found: Leaf | Apply, bound: list[tuple[int, object]]) -> bool:
    """Whether pattern and expression agree, node by node; `bound` receives the value of each
    identity."""
    bound += [(which, found.place) for which in choice.objects]
    if isinstance(choice.pattern, Wildcard | Constant):
        alike = isinstance(found, Leaf) and not choice.attributes
        return alike and (found.constant or isinstance(choice.pattern, Wildcard))
    assert isinstance(choice.pattern, Operator)
    if not isinstance(found, Apply) or choice.pattern.name not in found.names:
        return False
    if not all(_has(found.node, *pair) for pair in choice.attributes):
        return False
    if choice.pattern.arguments is None:
        return True
    return len(choice.arguments) == len(found.operands) and all(
        compare(one, other, bound)
        for one, other in zip(choice.arguments, found.operands, strict=True)
    )


def _has(node: Node, name: str, value: object) -> bool:
    """Whether the node has an activation of that name, the only supported attribute."""
    assert name == "activation"
    return hasattr(node.op, name) and node.op.activation.name == value


def claimed_by(choice: Choice, found: Leaf | Apply) -> frozenset[str]:
    """Nodes of an expression that the pattern covers."""
    if isinstance(found, Leaf):
        return frozenset()
    pairs = zip(choice.arguments, found.operands, strict=False)
    return (found.through | {found.node.name}).union(*(claimed_by(c, f) for c, f in pairs))


def depth(choice: Choice) -> int:
    if not isinstance(choice.pattern, Operator):
        return 0
    return 1 + max(map(depth, choice.arguments), default=0)


def all_matches(pattern: Pattern, node: Node, graph: Graph) -> set[frozenset[str]]:
    """Names of the nodes of every match that ends with the node."""
    every = choices(pattern)
    most = max(map(depth, every))
    found: set[frozenset[str]] = set()
    for spelled, choice in product(spellings(node.output, graph, most, is_last=True), every):
        bound: list[tuple[int, object]] = []
        if isinstance(spelled, Apply) and compare(choice, spelled, bound):
            places = dict(bound)
            if all(places[which] == place for which, place in bound):
                found.add(claimed_by(choice, spelled))
    return found
