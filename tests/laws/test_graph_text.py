"""Law: `graph_from_text(print_graph(g)) == g`; malformed text is a ModelError with its place."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample
from found import every_sample
from penstock.errors import InternalError, ModelError
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import ChannelBlocks, Data, DType, Quantisation, TensorType
from penstock.ir.text.printer import print_graph
from penstock.ops.reshape import Reshape
from penstock.ops.unary import Relu
from strategies import graphs
from texts.graph_reader import graph_from_text

ANY_NAME = st.text(max_size=40)
INT8 = TensorType((1, 4), DType.INT8)


def reads_back(graph: Graph) -> None:
    """The text with its data is the graph again."""
    assert graph_from_text(print_graph(graph, with_data=True)) == graph


def graph_of(sample: Sample) -> Graph:
    """The graph whose one node is a sample of an operator."""
    site = sample.site
    inputs = tuple(
        Value(f"x{k}", type, data)
        for k, (type, data) in enumerate(zip(site.inputs, site.constants, strict=True))
    )
    output = Value("y", site.output)
    variables = tuple(value for value in inputs if value.data is None)
    return Graph("sample", variables, (output,), (Node(sample.op, inputs, output, "node 0"),))


@given(graph=graphs())
def test_a_graph_reads_back(graph: Graph) -> None:
    reads_back(graph)


@every_sample
def test_an_operator_reads_back(sample: Sample) -> None:
    reads_back(graph_of(sample))


@given(graph=graphs(), data=st.data())
def test_a_graph_with_any_names_reads_back(graph: Graph, data: st.DataObject) -> None:
    before = sorted(graph.names())
    size = len(before)
    after = data.draw(st.lists(ANY_NAME, min_size=size, max_size=size, unique=True))
    names = dict(zip(before, after, strict=True))

    def renamed(value: Value) -> Value:
        return replace(value, name=names[value.name], origin=data.draw(st.none() | st.integers()))

    values = {v.name: renamed(v) for v in (*graph.variables(), *graph.constants(), *graph.outputs)}
    nodes = (
        Node(n.op, tuple(values[v.name] for v in n.inputs), values[n.name], data.draw(ANY_NAME))
        for n in graph.nodes
    )
    inputs, outputs = (
        tuple(values[v.name] for v in every) for every in (graph.inputs, graph.outputs)
    )
    reads_back(Graph(data.draw(ANY_NAME), inputs, outputs, tuple(nodes)))


@given(
    dtype=st.sampled_from(DType),
    shape=st.lists(st.integers(0, 5), max_size=3).map(tuple),
    scales=st.lists(st.floats(allow_nan=False), max_size=12).map(tuple),
    zeros=st.lists(st.integers(-300, 300), max_size=12).map(tuple),
    axis=st.none() | st.integers(-3, 3),
    blocks=st.none() | st.integers(1, 99),
    data=st.data(),
)
def test_any_constant_reads_back(
    dtype: DType,
    shape: tuple[int, ...],
    scales: tuple[float, ...],
    zeros: tuple[int, ...],
    axis: int | None,
    blocks: int | None,
    data: st.DataObject,
) -> None:
    layout = None if blocks is None else ChannelBlocks(blocks)
    type = TensorType(shape, dtype, Quantisation(scales, zeros, axis), layout)
    size = type.size_bytes
    raw = data.draw(st.binary(min_size=size, max_size=size) | st.just(bytes(size)))
    if dtype is DType.BOOL:
        raw = bytes(byte & 1 for byte in raw)
    constant = Value("c", type, Data(raw))
    reads_back(Graph("g", (), (constant,), ()))


def test_keywords_are_names_too() -> None:
    words = ("graph", "input", "constant", "output", "composite", "origin", "scale", "at", "data")
    values = tuple(Value(word, INT8) for word in words)
    nodes = tuple(Node(Relu(), (x,), y) for x, y in pairwise(values))
    reads_back(Graph("input", values[:1], values[-1:], nodes))


def test_a_composite_reads_back() -> None:
    """One whose inputs have other names and types inside, and one within it."""
    x, y, z = (Value(name, INT8) for name in ("x", "y", "a long name that gets a handle in texts"))
    flat = replace(x, type=replace(INT8, shape=(4,)))
    view = Node(Reshape((4,)), (z,), replace(flat, name="view"))
    inner = Composite("relu", "npu", (Node(Relu(), (z,), y),), (z.name,), (("a b", (1, "c")),))
    outer = Composite(
        "both",
        "npu",
        (Node(Relu(), (x,), z), Node(inner, (z,), y), view),
        (x.name,),
        (("raw", b"12"),),
    )
    renamed = Composite("flat", "npu", (Node(Relu(), (z,), view.output),), (z.name,))
    node, last = Node(outer, (x,), view.output, "both"), Value("last", view.output.type)
    reads_back(Graph("g", (x,), (view.output,), (node,)))
    reads_back(Graph("g", (x,), (last,), (node, Node(renamed, (view.output,), last))))


def test_two_values_of_one_name_have_no_text() -> None:
    x = Value("x", INT8)
    other = replace(x, origin=3)
    graph = Graph("g", (x,), (Value("y", INT8),), (Node(Relu(), (other,), Value("y", INT8)),))
    with pytest.raises(InternalError, match='two values are called "x"'):
        print_graph(graph)


HEAD = "graph g\ninput x: int8[1,4]\n"


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("", "text-001", (1, 1)),
        ("graph", "text-001", (1, 6)),
        ("graph g\ninput x int8[4]\noutput x", "text-001", (2, 9)),
        ("graph g\ninput x: int9[4]\noutput x", "text-002", (2, 10)),
        ("graph g\ninput x: int8[4\noutput x", "text-001", (3, 1)),
        ("graph g\ninput x: int8[4.5]\noutput x", "text-001", (2, 15)),
        ("graph g\ninput x: int8[4]\ninput x: int8[4]\noutput x", "text-001", (3, 7)),
        (HEAD + "y: int8[1,4] = Relu(x)\ny: int8[1,4] = Relu(x)\noutput y", "text-001", (4, 1)),
        (HEAD + "y: int8[1,4] = Relu(z)\noutput y", "text-002", (3, 21)),
        (HEAD + "y: int8[1,4] = Relu(%3)\noutput y", "text-002", (3, 21)),
        (HEAD + "y: int8[1,4] = Rely(x)\noutput y", "text-002", (3, 16)),
        (HEAD + "y: int8[1,4] = Window(x, size=3)\noutput y", "text-002", (3, 16)),
        (HEAD + "y: int8[1,4] = Relu(x, speed=3)\noutput y", "text-002", (3, 16)),
        (HEAD + "y: int8[1,4] = Softmax(x, beta=1, beta=1)\noutput y", "text-001", (3, 35)),
        (HEAD + "y: int8[1,4] = Relu(x, activation=Activation.TANH)\n", "text-002", (3, 35)),
        (HEAD + "y: int8[1,4] = Relu(x, activation=Relu.ALIAS)\n", "text-002", (3, 35)),
        (HEAD + "y: int8[1,4] = Reshape(x)\noutput y", "text-001", (3, 16)),
        (HEAD + "y: int8[1,4] = Relu(x) at node\noutput y", "text-001", (3, 27)),
        (HEAD + "y: int8[1,4] = Relu(x) twice\noutput y", "text-001", (3, 24)),
        (HEAD + "y: int8[1,4] = composite c(x) on npu {\n}\noutput y", "text-001", (4, 1)),
        (HEAD + "y: int8[1,4] = composite c(x) on npu\noutput y", "text-001", (3, 37)),
        (HEAD + "constant c: int8[3] = (1, 2)\noutput c", "text-001", (3, 23)),
        (HEAD + "constant c: int8[3] = 1000\noutput c", "text-001", (3, 23)),
        (HEAD + "constant c: int8[3] = @0123456789abcdef\noutput c", "text-003", (3, 23)),
        (HEAD + "y: int8[1,4] = Relu(x, z=" + "(" * 5000, "text-001", (3, 89)),
        (HEAD + "y: int8[1,4] = Relu(x, z=Fraction(1, 0))", "text-001", (3, 26)),
        (HEAD + "y: int8[1,4] = Relu(x, z=" + "9" * 5000 + ")", "text-001", (3, 26)),
        (HEAD + 'y: int8[1,4] = Relu(x) at "\\q"', "text-001", (3, 27)),
        (HEAD + 'y: int8[1,4] = Relu(x) at "', "text-001", (3, 27)),
        (HEAD + "output x\noutput x", "text-001", (4, 1)),
        (HEAD + "output x\ndata @0123456789abcdef 3", "text-001", (4, 24)),
        (HEAD + 'output x\ndata @0123456789abcdef "\\""', "text-001", (4, 6)),
        (HEAD + 'output x\ndata @0123456789abcdef "00"', "text-001", (4, 6)),
        ("graph é", "text-001", (1, 7)),
    ],
)
def test_malformed_text_is_refused_at_its_place(
    text: str, code: str, place: tuple[int, int]
) -> None:
    with pytest.raises(ModelError) as caught:
        graph_from_text(text)
    line, column = place
    assert caught.value.code == code
    assert caught.value.where == f"line {line}, column {column} of the text"


@given(data=st.data(), graph=graphs(most_nodes=2))
def test_damaged_text_is_read_or_refused(data: st.DataObject, graph: Graph) -> None:
    text = print_graph(graph, with_data=True)
    for _ in range(10):
        at = data.draw(st.integers(0, len(text)))
        gone = data.draw(st.sampled_from((0, 1, 5, len(text))))
        extra = data.draw(st.sampled_from(("", "0", "(", ")", '"', "\\", "\n", "-", ".", "@", "é")))
        try:
            graph_from_text(text[:at] + extra + text[at + gone :])
        except ModelError as error:
            assert error.code.startswith("text-")  # noqa: PT017  (both outcomes are right)
