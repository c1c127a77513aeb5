"""penstock.load: predictions, judged by TensorFlow Lite Micro and by the simulated core."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import penstock
from penstock.ir.tensor import Array
from penstock.reports.report import InterfaceTensor

MODELS = Path(__file__).parents[1] / "models"
WITH_GOLDENS = ("arithmetic", "two_heads", "keypoints", "svdf", "lstm")


def _goldens(name: str, role: str, tensors: tuple[InterfaceTensor, ...]) -> list[Array]:
    """The arrays of one set that TensorFlow Lite Micro has read or computed, without batch axes."""
    with np.load(MODELS / f"{name}.npz") as archive:
        arrays = [archive[f"{role}{k}_set0"] for k, _ in enumerate(tensors)]
    return [
        array.reshape(*array.shape[: array.ndim - len(t.shape)], *t.shape[1:])
        for array, t in zip(arrays, tensors, strict=True)
    ]


def _reals(tensor: InterfaceTensor, elements: Array) -> Array:
    return elements if tensor.scale is None else tensor.dequantize(elements)


@pytest.mark.parametrize("name", WITH_GOLDENS)
def test_predictions_are_those_of_tensorflow_lite_micro(name: str) -> None:
    network = penstock.load(MODELS / f"{name}.tflite")
    given = _goldens(name, "in", network.inputs)
    x = {t.name: _reals(t, q) for t, q in zip(network.inputs, given, strict=True)}
    is_sequence = given[0].ndim == len(network.inputs[0].shape)
    found = network.predict(x, sequence=is_sequence)
    outputs = _goldens(name, "out", network.outputs)
    for tensor, expected in zip(network.outputs, outputs, strict=True):
        y = found[tensor.name] if isinstance(found, dict) else found
        assert np.array_equal(y, _reals(tensor, expected))


@pytest.mark.parametrize("model", ["zoo:lenet5", str(MODELS / "real_tails.tflite")])
def test_predictions_are_the_bits_of_the_device(model: str) -> None:
    compiled = penstock.compile(model, target="cortex-m4")
    rng = np.random.default_rng(0)
    x = {t.name: rng.uniform(-1, 1, (3, *t.shape[1:])) for t in compiled.inputs}
    sets = [{t.name: t.quantize(x[t.name][[k]]) for t in compiled.inputs} for k in range(3)]
    ran = penstock.run(model, target="cortex-m4", sets=sets)
    for network in (penstock.load(compiled), penstock.load(model)):
        found = network.predict(x)
        for tensor in network.outputs:
            y = found[tensor.name] if isinstance(found, dict) else found
            on_device = [_reals(tensor, outputs[tensor.name])[0] for outputs in ran.outputs]
            assert np.array_equal(y, on_device)


def test_any_axes_before_a_sample_are_those_of_the_outputs() -> None:
    network = penstock.load("zoo:lenet5")
    sample = network.inputs[0].shape[1:]
    x = np.random.default_rng(1).uniform(-1, 1, (6, *sample))
    y = network.predict(x)
    assert isinstance(y, np.ndarray)
    assert y.shape == (6, 10)
    assert y.dtype == np.float32
    assert np.array_equal(network.predict(x.reshape(2, 3, *sample)), y.reshape(2, 3, 10))
    assert np.array_equal(network.predict(x[0]), y[0])
    assert np.array_equal(network.predict(x.tolist()), y)
    assert np.array_equal(network.predict({network.inputs[0].name: x}), y)
    assert np.shape(network.predict(x[:0])) == (0, 10)
    with ThreadPoolExecutor(4) as threads:
        assert all(np.array_equal(y, other) for other in threads.map(network.predict, [x] * 8))


def test_each_sample_begins_anew_unless_the_samples_are_a_sequence() -> None:
    network = penstock.load(MODELS / "lstm.tflite")
    x = np.random.default_rng(2).uniform(-1, 1, (2, 3, 7, 5))
    apart, joined = network.predict(x), network.predict(x, sequence=True)
    assert isinstance(apart, np.ndarray)
    assert isinstance(joined, np.ndarray)
    assert np.array_equal(apart, [[network.predict(one) for one in row] for row in x])
    assert np.array_equal(joined, [network.predict(row, sequence=True) for row in x])
    assert np.array_equal(joined[:, 0], apart[:, 0])
    assert not np.array_equal(joined[:, 1], apart[:, 1])


def test_a_streamed_input_and_the_types_of_the_model_change_no_result() -> None:
    x = np.random.default_rng(3).uniform(-1, 1, (2, 28, 28, 1))
    y = penstock.load("zoo:lenet5").predict(x)
    assert np.array_equal(penstock.load("zoo:lenet5", stream_input=True).predict(x), y)
    assert np.array_equal(penstock.load("zoo:lenet5", target="cortex-m55").predict(x), y)


@pytest.fixture(scope="module")
def float_network(tmp_path_factory: pytest.TempPathFactory) -> penstock.Network:
    """y = x @ w of float32, and the rows of a table that integers select."""
    w = np.random.default_rng(4).normal(size=(5, 3)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Gather", ["w", "rows"], ["z"]),
    ]
    of = helper.make_tensor_value_info
    real, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    graph = helper.make_graph(
        nodes,
        "net",
        [of("x", real, [1, 5]), of("rows", whole, [1, 2])],
        [of("y", real, [1, 3]), of("z", real, [1, 2, 3])],
        [numpy_helper.from_array(w, "w")],
    )
    path = tmp_path_factory.mktemp("float") / "net.onnx"
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)
    return penstock.load(path)


def test_float32_and_integer_inputs_by_name(float_network: penstock.Network) -> None:
    rng = np.random.default_rng(5)
    x, rows = rng.normal(size=(4, 5)), rng.integers(0, 5, (4, 2))
    found = float_network.predict({"x": x, "rows": rows})
    w = float_network.predict({"x": np.eye(5), "rows": np.zeros((5, 2), np.uint8)})["y"]
    assert set(found) == {"y", "z"}
    assert np.allclose(found["y"], x @ w, atol=1e-5)
    assert np.array_equal(found["z"], w[rows])


def test_evaluation_by_labels_and_by_numbers() -> None:
    network = penstock.load("zoo:lenet5")
    x = np.random.default_rng(6).uniform(-1, 1, (8, *network.inputs[0].shape[1:]))
    y = network.predict(x)
    assert isinstance(y, np.ndarray)
    labels = y.argmax(-1)
    labels[:2] = (labels[:2] + 1) % 10
    assert network.evaluate(x, labels) == penstock.Accuracy(8, 0.75, None)
    assert network.evaluate(x, y + 0.5) == penstock.Accuracy(8, None, 0.5)
    one_hot = network.evaluate(x, np.eye(10)[labels])
    assert isinstance(one_hot, penstock.Accuracy)
    assert one_hot.top_1 == 0.75
    assert one_hot.mean_error == pytest.approx(np.abs(y - np.eye(10)[labels]).mean())


def test_evaluation_of_several_outputs_by_name(float_network: penstock.Network) -> None:
    x, rows = np.zeros((4, 5)), np.zeros((4, 2), int)
    found = float_network.evaluate({"x": x, "rows": rows}, {"y": np.full((4, 3), 2.0)})
    assert found == {"y": penstock.Accuracy(4, None, 2.0)}


def test_an_accelerator_changes_no_result() -> None:
    x = np.random.default_rng(7).uniform(-1, 1, (2, 28, 28, 1))
    y = penstock.load("zoo:lenet5").predict(x)
    assert np.array_equal(penstock.load("zoo:lenet5", accelerators="dot4").predict(x), y)
