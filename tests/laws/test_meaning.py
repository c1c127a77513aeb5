"""A pass changes no output: run(graph) == run(pass(graph)), bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from lowered import inputs_of_graph, lower
from penstock.frontends.open import parse
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.ir.verify import verify
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.conversions import Quantize
from penstock.ops.convolutions import Conv2D
from penstock.ops.pad import Pad
from penstock.ops.pool import MaxPool2D
from penstock.ops.unary import Relu
from penstock.passes.cleaning import drop_dead, fold_constants, free_identities
from penstock.passes.folding import fold_padding, fuse_activation
from penstock.passes.order import ACCUMULATION, PASSES, Pass
from penstock.pipeline.graphs import simplify
from penstock.simulators.graph import run_graph, run_sequences
from penstock.simulators.machine import Machine
from strategies import graphs, seeds

MODELS = sorted((Path(__file__).parent.parent / "models").glob("*.tflite"))
EVERY_PASS = tuple(dict.fromkeys((*PASSES, *ACCUMULATION)))


def activation(name: str, *shape: int, scale: float = 0.1, zero: int = 3) -> Value:
    return Value(name, TensorType(shape, DType.INT8, Quantisation((scale,), (zero,))))


def convolution(name: str, x: Value, size: int, pad: int = 0) -> Node:
    rng = np.random.default_rng(len(name))
    channels = x.type.shape[3]
    w_type = TensorType((4, size, size, channels), DType.INT8, Quantisation((0.01,), (0,)))
    w = Value(f"{name}/w", w_type, Data.of(rng.integers(-99, 99, w_type.shape).astype(np.int8)))
    b_type = TensorType((4,), DType.INT32)
    b = Value(f"{name}/b", b_type, Data.of(rng.integers(-99, 99, 4).astype(np.int32)))
    window = Window(size, 1, 1, pad, pad)
    op = Conv2D(window, window)
    shape = op.result_type((x.type, w_type, b_type)).shape
    return Node(op, (x, w, b), activation(name, *shape))


def small_graphs() -> dict[str, Graph]:
    """One graph for each case of a pass, and for each near miss."""
    x = activation("x", 1, 5, 6, 2)
    pad = Node(Pad((0, 1, 2, 0), (0, 2, 1, 0), 3), (x,), activation("pad", 1, 8, 9, 2))
    wrong_fill = Node(Pad((0, 1, 2, 0), (0, 2, 1, 0), 0), (x,), activation("pad", 1, 8, 9, 2))
    least = Node(Pad((0, 1, 1, 0), (0, 1, 1, 0), -128), (x,), activation("pad", 1, 7, 8, 2))
    deep = Node(Pad((0, 1, 1, 1), (0, 1, 1, 1), 3), (x,), activation("pad", 1, 7, 8, 4))
    empty = Node(Pad((0,) * 4, (0,) * 4, 3), (x,), activation("pad", 1, 5, 6, 2))
    same = Node(Quantize(), (x,), activation("q", 1, 5, 6, 2))
    other = Node(Quantize(), (x,), activation("q", 1, 5, 6, 2, scale=0.2))
    conv = convolution("c", x, 3)
    shape = conv.output.type.shape
    relu = Node(Relu(Activation.RELU6), (conv.output,), activation("r", *shape))
    rescaled = Node(Relu(), (conv.output,), activation("r", *shape, scale=0.3))
    addition = Node(Add(), (conv.output, relu.output), activation("a", *shape))
    rng = np.random.default_rng(1)
    constant = Value("k", x.type, Data.of(rng.integers(-128, 128, x.type.shape).astype(np.int8)))
    known = Node(Add(), (constant, constant), activation("s", 1, 5, 6, 2))
    late = Node(Add(), (x, known.output), activation("y", 1, 5, 6, 2))
    dead = Node(Add(), (x, x), activation("dead", 1, 5, 6, 2))

    def graph(*nodes: Node, outputs: tuple[Value, ...] = ()) -> Graph:
        return Graph("g", (x,), outputs or (nodes[-1].output,), nodes)

    return {
        "border folds": graph(pad, convolution("c", pad.output, 3)),
        "border folds once more": graph(pad, convolution("c", pad.output, 3, pad=1)),
        "border of another value stays": graph(wrong_fill, convolution("c", wrong_fill.output, 3)),
        "border folds into a maximum": graph(least, maximum_of(least.output, 3)),
        "border as wide as the window of a maximum stays": graph(
            least, maximum_of(least.output, 1)
        ),
        "border of zero points around a maximum stays": graph(pad, maximum_of(pad.output, 3)),
        "border of channels stays": graph(deep, convolution("c", deep.output, 3)),
        "border that is an output": graph(
            pad, conv := convolution("c", pad.output, 3), outputs=(pad.output, conv.output)
        ),
        "empty border is a view": graph(empty, convolution("c", empty.output, 3)),
        "equal quantisation is a view": graph(same, convolution("c", same.output, 3)),
        "other quantisation stays": graph(other, convolution("c", other.output, 3)),
        "clamp fuses": graph(convolution("c", x, 3), relu),
        "clamp with rescaling stays": graph(convolution("c", x, 3), rescaled),
        "clamp of a tensor with two readers stays": graph(convolution("c", x, 3), relu, addition),
        "constants fold": graph(known, late),
        "dead nodes go": graph(dead, late_of(x)),
        "constant output": graph(known, late_of(x), outputs=(known.output, late_of(x).output)),
    }


def maximum_of(x: Value, size: int) -> Node:
    op = MaxPool2D(Window(size, 2), Window(size, 2))
    shape = op.result_type((x.type,)).shape
    return Node(op, (x,), activation("m", *shape))


def late_of(x: Value) -> Node:
    return Node(Relu(), (x,), activation("z", *x.type.shape))


GRAPHS = small_graphs() | {path.stem: parse(path.read_bytes(), path.name) for path in MODELS}
EFFECTS: dict[str, Pass] = {
    "border folds": fold_padding,
    "border folds once more": fold_padding,
    "border folds into a maximum": fold_padding,
    "empty border is a view": free_identities,
    "equal quantisation is a view": free_identities,
    "clamp fuses": fuse_activation,
    "constants fold": fold_constants,
    "dead nodes go": drop_dead,
}
NEAR_MISSES: dict[str, Pass] = {
    "border of another value stays": fold_padding,
    "border of channels stays": fold_padding,
    "border as wide as the window of a maximum stays": fold_padding,
    "border of zero points around a maximum stays": fold_padding,
    "other quantisation stays": free_identities,
    "clamp with rescaling stays": fuse_activation,
    "clamp of a tensor with two readers stays": fuse_activation,
}


def outputs_of(graph: Graph, seed: int) -> list[np.ndarray]:
    """The outputs of one run; for a graph with state, those of each run of a sequence."""
    rng = np.random.default_rng(seed)
    runs = [
        {v.name: rng.integers(-128, 128, v.type.shape).astype(np.int8) for v in graph.inputs}
        for _ in range(3 if graph.states else 1)
    ]
    return [
        v.data.array(v.type) if v.data else values[v.name]
        for values in run_sequences(graph, runs, len(runs))
        for v in graph.outputs
    ]


@pytest.mark.parametrize("rewrite", EVERY_PASS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_pass_changes_no_output(name: str, rewrite: Pass) -> None:
    before = GRAPHS[name]
    after = rewrite(before)
    verify(after)
    for seed in range(3):
        pairs = zip(outputs_of(before, seed), outputs_of(after, seed), strict=True)
        assert all(np.array_equal(mine, theirs) for mine, theirs in pairs)


@pytest.mark.parametrize("rewrite", EVERY_PASS, ids=lambda p: p.__name__)
@given(graph=graphs(constants=True), seed=seeds)
def test_a_pass_changes_no_output_of_a_random_graph(graph: Graph, rewrite: Pass, seed: int) -> None:
    after = rewrite(graph)
    verify(after)
    pairs = zip(outputs_of(graph, seed), outputs_of(after, seed), strict=True)
    assert all(np.array_equal(mine, theirs) for mine, theirs in pairs)


@given(graph=graphs(constants=True), seed=seeds)
def test_a_simplified_graph_runs_on_the_machine(graph: Graph, seed: int) -> None:
    program = lower(simplify(graph), accumulate=True).program
    outputs = Machine(program).run(inputs_of_graph(graph, seed))
    expected = run_graph(graph, inputs_of_graph(graph, seed))
    for value in graph.outputs:
        np.testing.assert_array_equal(outputs[value.name], expected[value.name], value.name)


@pytest.mark.parametrize("name", GRAPHS)
def test_all_passes_together_change_no_output(name: str) -> None:
    before = after = GRAPHS[name]
    for rewrite in (*PASSES, *ACCUMULATION):
        after = rewrite(after)
    pairs = zip(outputs_of(before, 9), outputs_of(after, 9), strict=True)
    assert all(np.array_equal(mine, theirs) for mine, theirs in pairs)


@pytest.mark.parametrize("name", EFFECTS)
def test_each_case_of_a_pass_fires(name: str) -> None:
    assert EFFECTS[name](GRAPHS[name]) != GRAPHS[name]


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_unchanged(name: str) -> None:
    assert NEAR_MISSES[name](GRAPHS[name]) == GRAPHS[name]
