"""Graphs built in Python: their results, and the properties of random weights and scales."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from penstock.errors import ModelError, UsageError
from penstock.frontends.builder import GraphBuilder
from penstock.frontends.calibrated_graph import Weights
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array, DType, Quantisation
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.convolutions import Conv2D
from penstock.ops.reshape import Reshape
from penstock.simulators.graph import run_graph


def noise(graph: Graph, seed: int = 7) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {x.name: rng.integers(-128, 128, x.type.shape).astype(np.int8) for x in graph.inputs}


def test_every_method_adds_a_node_and_returns_the_value_that_it_computes() -> None:
    net = GraphBuilder("every")
    x = net.input((1, 12, 10, 4))
    y = net.conv2d(x, 8, (3, 2), stride=(2, 1), activation="relu", groups=2)
    assert y.type.shape == (1, 6, 10, 8)
    y = net.depthwise_conv2d(y, 3, multiplier=2, dilation=2, activation="relu6")
    assert y.type.shape == (1, 6, 10, 16)
    y = net.max_pool2d(y, 2)
    assert y.type.shape == (1, 3, 5, 16)
    y = net.average_pool2d(y, 3, stride=2, padding="same")
    assert y.type.shape == (1, 2, 3, 16)
    y = net.add(y, net.conv2d(y, 16, 1))
    y = net.global_average_pool(y)
    y = net.reshape(y, (1, -1))
    assert y.type.shape == (1, 16)
    y = net.softmax(net.fully_connected(y, 5))
    graph = net.build(y)
    kinds = "Conv2D DepthwiseConv2D MaxPool2D AveragePool2D Conv2D Add AveragePool2D Reshape"
    assert [node.kind for node in graph.nodes] == [*kinds.split(), "FullyConnected", "Softmax"]
    values = run_graph(graph, noise(graph))
    for node in graph.nodes:
        assert values[node.name].shape == node.output.type.shape
        assert node.op.result_type(node.site.inputs).shape == node.output.type.shape


@pytest.mark.parametrize("activation", ["none", "relu", "relu6"])
@pytest.mark.parametrize("seed", range(3))
def test_a_layer_uses_its_range_on_another_input(activation: str, seed: int) -> None:
    net = GraphBuilder("range", seed)
    x = net.input((1, 24, 24, 3))
    y = net.conv2d(x, 16, 3, activation=activation)  # pyright: ignore[reportArgumentType]
    graph = net.build(net.depthwise_conv2d(y, 3, activation=activation))  # pyright: ignore
    values = run_graph(graph, noise(graph))
    for node in graph.nodes:
        found = values[node.name]
        assert np.mean(found == 127) < 0.02
        assert np.mean(found == -128) < (0.02 if activation == "none" else 0.6)
        assert len(np.unique(found)) > 120
        # No channel is dead.
        assert found.reshape(-1, 16).std(axis=0).min() > 5


def test_relu_has_its_zero_at_the_least_element_and_relu6_the_scale_of_tflite() -> None:
    net = GraphBuilder("clamps")
    x = net.input((1, 8, 8, 3))
    relu = net.conv2d(x, 4, 3, activation="relu").type
    relu6 = net.conv2d(x, 4, 3, activation="relu6").type
    assert relu.zero_point == -128
    assert (relu6.scale, relu6.zero_point) == (float(np.float32(6 / 255)), -128)


def test_biases_have_the_product_of_scales_as_model_files_have_them() -> None:
    net = GraphBuilder("bias")
    graph = net.build(net.conv2d(net.input((1, 8, 8, 3)), 4, 3))
    x, w, b = graph.nodes[0].inputs
    assert w.type.quantisation is not None
    assert b.type.quantisation is not None
    assert (len(w.type.quantisation.scales), w.type.quantisation.axis) == (4, 0)
    assert len(set(w.type.quantisation.scales)) == 4
    products = [float(np.float32(x.type.scale * s)) for s in w.type.quantisation.scales]
    assert list(b.type.quantisation.scales) == products
    assert w.data is not None
    assert np.abs(w.data.array(w.type).astype(int)).max() > 100


def test_calibration_elements_are_those_of_the_operator_up_to_one() -> None:
    net = GraphBuilder("close", samples=2)
    x = net.input((1, 20, 20, 5))
    y = net.depthwise_conv2d(x, 3, 2, multiplier=3, activation="relu")
    z = net.conv2d(y, 8, 3, groups=5 // 5)
    flat = net.fully_connected(z, 9)
    graph = net.build(flat)
    growing = net._graph  # pyright: ignore[reportPrivateUsage]
    for value, source in ((y, x), (z, y), (flat, z)):
        node = graph.producers()[value.name]
        for k, carried in enumerate(growing.samples(value)):
            elements = growing.samples(source)[k]
            assert carried.shape == value.type.shape
            part = Graph("part", (source,), (value,), (node,))
            exact = run_graph(part, {source.name: elements})[value.name]
            assert np.abs(exact.astype(int) - carried).max() <= 1


def test_given_weights_are_taken_as_they_are_and_the_output_is_calibrated() -> None:
    elements = np.arange(-18, 18, dtype=np.int8).reshape(2, 3, 3, 2)
    bias = np.array([100, -100], np.int32)
    net = GraphBuilder("given")
    x = net.input((1, 9, 9, 2))
    y = net.conv2d(x, 2, 3, weights=Weights(elements, (0.01, 0.02), bias))
    graph = net.build(y)
    w, b = graph.constants()
    assert w.data is not None
    assert b.data is not None
    assert np.array_equal(w.data.array(w.type), elements)
    assert np.array_equal(b.data.array(b.type), bias)
    found = run_graph(graph, noise(graph))[y.name]
    assert np.mean(np.abs(found.astype(int)) >= 127) < 0.05
    assert len(np.unique(found)) > 60


def test_a_given_quantisation_is_taken() -> None:
    chosen = Quantisation((0.5,), (3,))
    net = GraphBuilder("chosen")
    x = net.input((1, 4, 4, 2))
    assert net.conv2d(x, 2, 1, quantisation=chosen).type.quantisation == chosen
    assert net.add(x, x, quantisation=chosen).type.quantisation == chosen


def test_apply_finds_the_range_of_any_operator() -> None:
    net = GraphBuilder("apply")
    a = net.input((1, 24, 24, 3), scale=0.001, name="a")
    b = net.input((1, 24, 24, 3), scale=70.0, zero_point=100, name="b")
    graph = net.build(net.apply(Add(), a, b))
    found = run_graph(graph, noise(graph))
    # b runs from 70 * (-128 - 100) to 70 * (127 - 100), and a hardly counts.
    output = graph.outputs[0].type
    assert 70 * 255 <= output.scale * 255 <= 1.2 * 70 * 255
    y = found["add"]
    assert len(np.unique(y)) > 200
    assert np.mean((y == -128) | (y == 127)) < 0.01


def test_apply_gives_an_operator_that_moves_elements_the_quantisation_of_its_input() -> None:
    net = GraphBuilder("moves")
    x = net.input((1, 4, 4, 2), scale=0.3, zero_point=9)
    assert net.apply(Reshape((2, 16)), x).type.quantisation == x.type.quantisation
    assert net.max_pool2d(x, 2).type.quantisation == x.type.quantisation


def test_constants_are_operands() -> None:
    net = GraphBuilder("constants")
    x = net.input((1, 2, 2, 3))
    c = net.constant(np.array([1, 2, 3], np.int8), Quantisation((0.1,), (0,)))
    graph = net.build(net.apply(Add(), x, c))
    assert graph.constants() == (c,)


def test_names_are_kinds_with_numbers_unless_given() -> None:
    net = GraphBuilder("names")
    x = net.input((1, 4, 4, 2))
    for _ in range(3):
        x = net.conv2d(x, 2, 1)
    x = net.conv2d(x, 2, 1, name="last")
    graph = net.build(x)
    assert [node.name for node in graph.nodes] == ["conv2d", "conv2d_1", "conv2d_2", "last"]
    assert [c.name for c in graph.constants()][2:4] == ["conv2d_1/weights", "conv2d_1/bias"]
    assert graph.nodes[3].origin == 'names: node 3 "last"'


def test_weights_depend_on_the_seed_and_the_place_only() -> None:
    def first_weights(seed: int, height: int) -> bytes | None:
        net = GraphBuilder("seeds", seed)
        graph = net.build(net.conv2d(net.input((1, height, 8, 3)), 4, 3))
        data = graph.constants()[0].data
        return data and data.raw

    assert first_weights(0, 8) == first_weights(0, 16)
    assert first_weights(0, 8) != first_weights(1, 8)


def test_an_input_batch_larger_than_one_is_kept() -> None:
    net = GraphBuilder("batch", samples=2)
    x = net.conv2d(net.input((3, 6, 6, 2)), 4, 3)
    assert net.fully_connected(x, 7).type.shape == (3, 7)


@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        ("padding is 'full'", {"padding": "full"}),
        ("activation is 'gelu'", {"activation": "gelu"}),
        ("kernel is 0, must be at least 1", {"kernel": 0}),
        ("stride is -1, must be at least 1", {"stride": (1, -1)}),
        ("dilation is 0, must be at least 1", {"dilation": 0}),
        ("3 input and 4 output channels in 2 groups", {"groups": 2}),
        (
            "weights are int8[1], must be int8[4, 3, 3, 3]",
            {"weights": Weights(np.zeros(1, np.int8), (1,))},
        ),
        (
            "weights have 2 scales, must have 1 or 4",
            {"weights": Weights(np.zeros((4, 3, 3, 3), np.int8), (0.1, 0.2))},
        ),
    ],
)
def test_an_invalid_argument_error_lists_the_allowed_values(
    what: str, arguments: dict[str, object]
) -> None:
    net = GraphBuilder("wrong")
    x = net.input((1, 8, 8, 3))
    with pytest.raises(UsageError) as caught:
        net.conv2d(x, **{"channels": 4, "kernel": 3, **arguments})  # pyright: ignore
    assert what in caught.value.what
    assert caught.value.where == "wrong: node 0"


def test_values_of_another_builder_are_refused() -> None:
    other = GraphBuilder("other").input((1, 2, 2, 3), name="elsewhere")
    with pytest.raises(UsageError, match='"elsewhere" was made by another builder'):
        GraphBuilder("this").conv2d(other, 4, 1)


def test_a_window_that_does_not_fit_is_the_operators_error_with_the_place() -> None:
    net = GraphBuilder("small")
    x = net.input((1, 2, 2, 3))
    with pytest.raises(ModelError) as caught:
        net.apply(Conv2D(Window(3), Window(3)), x, x, x)
    assert caught.value.where == 'small: node 0 "conv2d"'
    with pytest.raises(ModelError, match="does not fit"):
        net.conv2d(x, 4, 3, padding="valid")


@pytest.mark.parametrize(
    "arguments",
    [{"shape": (1, 0)}, {"shape": (1,), "scale": 0.0}, {"shape": (), "zero_point": 128}],
)
def test_an_impossible_input_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        GraphBuilder("bad").input(**arguments)  # pyright: ignore[reportArgumentType]


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="seed is -1"):
        GraphBuilder("bad", seed=-1)


def test_activation_names_are_those_of_the_operators() -> None:
    net = GraphBuilder("clamp")
    y = net.conv2d(net.input((1, 4, 4, 1)), 2, 1, activation="relu_n1_to_1")
    op = net.build(y).nodes[0].op
    assert isinstance(op, Conv2D)
    assert op.activation is Activation.RELU_N1_TO_1
    assert y.type.dtype is DType.INT8


def real(value: Value, elements: Array) -> Array:
    """The real numbers of int8 elements, or booleans as they are."""
    if value.type.dtype is DType.BOOL:
        return elements
    return (elements.astype(np.float64) - value.type.zero_point) * value.type.scale


def test_further_methods_compute_what_their_names_say() -> None:
    """Judged by NumPy on real numbers, within steps of the output (two of each operand)."""
    net = GraphBuilder("further")
    a = net.input((1, 6, 5, 8), name="a")
    b = net.input((1, 6, 5, 8), scale=0.01, zero_point=4, name="b")
    mean, variance = np.linspace(-0.2, 0.3, 8), np.linspace(0.5, 2, 8)
    gamma, beta = np.linspace(0.5, 1.5, 8), np.linspace(-1, 1, 8)
    rows = {
        "sub": (net.subtract(a, b), lambda p, q: p - q),
        "mul": (net.multiply(a, b), lambda p, q: p * q),
        "max": (net.maximum(a, b), np.maximum),
        "min": (net.minimum(a, b), np.minimum),
        "relu": (net.relu(a), lambda p, q: np.maximum(p, 0)),
        "leaky": (net.leaky_relu(a, 0.2), lambda p, q: np.where(p < 0, 0.2 * p, p)),
        "elu": (net.elu(a, 0.5), lambda p, q: np.where(p < 0, 0.5 * np.expm1(p), p)),
        "tanh": (net.tanh(a), lambda p, q: np.tanh(p)),
        "sigmoid": (net.sigmoid(a), lambda p, q: 1 / (1 + np.exp(-p))),
        "concat": (net.concatenate([a, b]), lambda p, q: np.concatenate([p, q], 3)),
        "columns": (net.concatenate([a, b], axis=2), lambda p, q: np.concatenate([p, q], 2)),
        "matmul": (net.matmul(a, b, b_transposed=True), lambda p, q: p @ np.swapaxes(q, -1, -2)),
        "norm": (
            net.batch_norm(a, mean, variance, gamma, beta, epsilon=0.0),
            lambda p, q: (p - mean) / np.sqrt(variance) * gamma + beta,
        ),
    }
    split = net.split(a, 2) + net.split(a, [1, 3, 2], axis=1)
    truths = {
        "less": (net.less(a, b), np.less),
        "less_equal": (net.less_equal(a, b), np.less_equal),
        "greater": (net.greater(a, b), np.greater),
        "greater_equal": (net.greater_equal(a, b), np.greater_equal),
        "equal": (net.equal(a, b), np.equal),
    }
    values = [*(v for v, _ in rows.values()), *split, *(v for v, _ in truths.values())]
    graph = net.build(*values)
    inputs = noise(graph)
    found = run_graph(graph, inputs)
    p, q = real(a, inputs["a"]), real(b, inputs["b"])
    for name, (value, expected) in rows.items():
        steps = 2 * value.type.scale + 2 * max(a.type.scale, b.type.scale)
        within = 8 * 0.01 if name == "matmul" else 0
        assert np.abs(real(value, found[value.name]) - expected(p, q)).max() < steps + within, name
    parts = [*np.split(p, 2, axis=3), *np.split(p, [1, 4], axis=1)]
    for value, part in zip(split, parts, strict=True):
        assert (real(value, found[value.name]) == part).all()
    for name, (value, expected) in truths.items():
        agreeing = found[value.name] == expected(p, q)
        assert agreeing.mean() > 0.999, name


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda net, x: net.split(x, 3), "8 elements along axis 3 in 3 parts"),
        (lambda net, x: net.split(x, [1, 2], axis=1), "6 elements along axis 1 in parts of 1, 2"),
        (lambda net, x: net.concatenate([]), "no value to concatenate"),
        (lambda net, x: net.concatenate([x], axis=4), "axis is 4, must be -4 to 3"),
        (lambda net, x: net.batch_norm(x, mean=np.zeros(3)), "mean has shape"),
    ],
)
def test_wrong_arguments_of_further_methods_are_usage_errors(
    wrong: Callable[[GraphBuilder, Value], object], message: str
) -> None:
    net = GraphBuilder("wrong")
    with pytest.raises(UsageError, match=message):
        wrong(net, net.input((1, 6, 5, 8)))


def test_what_is_not_given_to_a_batch_normalisation_is_random() -> None:
    net = GraphBuilder("norm")
    graph = net.build(net.batch_norm(net.input((1, 4, 4, 8))))
    (constants, offsets) = (node.inputs[1] for node in graph.nodes)
    assert len(np.unique(constants.data.array(constants.type))) > 4
    assert len(np.unique(offsets.data.array(offsets.type))) > 4
