"""Random patterns for small graphs; most are derived from the graph, so that many match."""

from __future__ import annotations

from hypothesis import strategies as st

from pattern_judge import LAYERS, SPELLINGS, clamp_names
from penstock.backends.pattern import Pattern, is_constant, is_op, wildcard
from penstock.ir.graph import Graph, Node, Value

ACTIVATIONS = ("NONE", "RELU", "RELU6")


@st.composite
def patterns(draw: st.DrawFn, graph: Graph) -> Pattern:
    """A pattern of one to three operators, with alternatives and options."""
    node = draw(st.sampled_from([n for n in graph.nodes if n.kind in SPELLINGS or _clamps(n)]))
    pattern = draw(_of_node(node, graph, draw(st.integers(1, 3)), []))
    for _ in range(draw(st.integers(0, 2))):
        pattern = _wrapped(draw, pattern, graph)
    return pattern


def patternable(graph: Graph) -> bool:
    """Whether the graph has a node that these patterns can name."""
    return any(n.kind in SPELLINGS or _clamps(n) for n in graph.nodes)


def _clamps(node: Node) -> bool:
    return node.kind == "Relu"


def _wrapped(draw: st.DrawFn, pattern: Pattern, graph: Graph) -> Pattern:
    match draw(st.integers(0, 2)):
        case 0:
            name = draw(st.sampled_from(("nn.relu", "clip", "nn.softmax", "nn.max_pool2d")))
            return pattern.optional(lambda x: is_op(name)(x))
        case 1:
            return pattern.optional(lambda x: is_op("add")(x, wildcard()))
        case _:
            return pattern | draw(patterns(graph))


@st.composite
def _of_node(draw: st.DrawFn, node: Node, graph: Graph, most: int, known: list[Pattern]) -> Pattern:
    """An operator pattern that resembles the node, up to a depth."""
    arguments = [_of_value(draw, v, graph, most - 1, known) for v in node.inputs]
    if node.kind == "Relu":
        return is_op(draw(st.sampled_from(clamp_names(node.op.activation.name))))(*arguments)
    core = is_op(draw(st.sampled_from(SPELLINGS[node.kind])))
    if draw(st.integers(0, 5)) == 0:
        return core
    if node.kind not in LAYERS:
        return _having(draw, node, core(*arguments))
    bias, few = arguments[2], arguments[: draw(st.integers(2, 3))]
    pattern = _having(draw, node, core(*few))
    if len(few) == 2 and draw(st.booleans()):
        biased = is_op("nn.bias_add")(pattern, bias)
        pattern = pattern.optional(lambda _: biased) if draw(st.booleans()) else biased
    if draw(st.integers(0, 3)) == 0:
        pattern = is_op("qnn.requantize")(pattern)
    if draw(st.booleans()):
        name = draw(st.sampled_from(("nn.relu", "clip", "RELU6")))
        clamped = is_op(name)(pattern)
        pattern = clamped if draw(st.booleans()) else pattern.optional(lambda _: clamped)
    return pattern


def _having(draw: st.DrawFn, node: Node, pattern: Pattern) -> Pattern:
    if hasattr(node.op, "activation") and draw(st.integers(0, 3)) == 0:
        return pattern.has_attr({"activation": draw(st.sampled_from(ACTIVATIONS))})
    return pattern


def _of_value(
    draw: st.DrawFn, value: Value, graph: Graph, most: int, known: list[Pattern]
) -> Pattern:
    """A pattern that resembles the value, or one that occurs elsewhere."""
    if known and draw(st.integers(0, 7)) == 0:
        return draw(st.sampled_from(known))
    node = graph.producers().get(value.name)
    if value.data is not None and draw(st.booleans()):
        found = is_constant()
    elif node is None or most < 1 or not (node.kind in SPELLINGS or _clamps(node)):
        found = wildcard()
    elif draw(st.integers(0, 3)) == 0:
        found = draw(st.sampled_from((wildcard(), is_constant())))
    else:
        found = draw(_of_node(node, graph, most, known))
    known.append(found)
    return found
